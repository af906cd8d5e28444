/** The pages with got's `paginate`, as in ../../peers/got-pages.ts, without writing them. Not TypeScript: see undici.mjs. */

import got from 'got';

const pages = got.paginate(`${process.argv[2]}/v1/report/export`, {
  method: 'POST',
  headers: { 'x-service-api-key': 'bench' },
  json: { filter: { date: { gte: '2026-11-20T00:00:00Z' } }, format: 'XML', container: 'NONE' },
  responseType: 'buffer',
  pagination: {
    transform: ({ body }) => [body],
    paginate({ response }) {
      const cursor = response.headers['x-service-cursor'];
      return typeof cursor === 'string' && { searchParams: { cursor } };
    },
  },
});
for await (const page of pages) if (page.length === 0) throw new Error('An empty page');
