/** The settings of two exports of `servers/parent-service.ts`: its parents, and the children of each of them. */

export const childrenSettings = (baseUrl: string, parallel: number) => ({
  services: {
    bench: { baseUrl, api: { auth: { kind: 'none' }, page: { format: 'json', reports: '/items/*' }, next } },
  },
  exports: [
    { name: 'parents', api: { request: { path: '/parents' } } },
    {
      name: 'children',
      parents: { export: 'parents', id: '/id' },
      since: { initial: '2026-01-01T00:00:00Z' },
      slices: { parallel },
      api: { request: { path: '/children/{parent}', query: { since: '{since}' } } },
    },
  ],
});

const next = { from: 'body', at: '/next', to: { query: 'cursor' } };
