/** Descriptions that the simulator serves: those of the docs, and others with all that they lack. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Api, apiSchema, findContradictions } from '../../../lib/service/api/description.ts';
import { parseDeployment } from '../../../lib/settings/deployment-settings.ts';
import { fileDocument } from '../../../lib/settings/settings-document.ts';
import { fc } from '../property.ts';

const folder = join(import.meta.dirname, '../../../docs/apis');
export const documentedApis: readonly Api[] = readdirSync(folder).flatMap((file) =>
  parseDeployment(fileDocument(join(folder, file))).services.flatMap(({ exports }) =>
    exports.map(({ api: { headers: _headers, pagination: _pagination, settings: _settings, ...api } }) => api),
  ),
);

const path = '/v1/reports';
const query = {
  'fixed name': 'a "b" & {1}',
  since: '{since}',
  $to: '{until}',
  limit: 'n={size}',
  type: '{filter.type}',
};
const body = {
  fixed: [1, null, ['x', [2]], { yes: true }],
  since: '{since}',
  range: [{ until: '{until}' }],
  limit: '{size}',
};
const json = { format: 'json', reports: '/data/*' };
const xml = { format: 'xml', reports: '/feed/entry' };
const problems = {
  cursorExpired: { at: '/problem', is: 'expired' },
  error: [{ at: '/problem' }, { header: 'X-Error' }],
  tokenExpired: { at: '/result', is: 190 },
  throttled: [
    { at: '/busy', is: ['later', true] },
    { status: 420, header: 'X-Left', is: 0 },
  ],
};
/** In names, characters that a syntax must escape. */
const others: readonly Record<string, unknown>[] = [
  // JSON
  {
    request: { method: 'POST', path: `${path}?verb=List%20Records`, body: { ...body, 'cursor/a': '*' } },
    next: { from: 'body', at: '/paging~0/next~1cursor', to: { body: '/cursor~1a' } },
    page: { format: 'json', reports: '/results/"list"/*' },
    when: { ...problems, empty: { at: '', is: null } },
  },
  {
    request: { method: 'POST', path, form: { since: '{since}', until: '{until}', limit: 'n={size}', cursor: '*' } },
    next: { from: 'body', at: '/constructor/toString', to: { form: 'cursor' }, alsoOnLast: true },
    last: { at: '/constructor/further', is: null },
    page: { format: 'json', reports: '/__proto__/*', types: ['application/vnd.acme+data', 'application/octet-stream'] },
    when: { error: { at: '/result', not: [0, 'OK'] }, empty: { status: 204 } },
  },
  {
    request: { path: `${path}/after-{since}/{filter.type}`, query: { limit: '{size}', cursor: '*' } },
    next: { from: 'body', at: '/ /links[rel=next]/~01', to: 'url' },
    page: { format: 'json', reports: '/größe/*', status: [201] },
    when: { error: { at: '/problem' }, empty: { at: '/größe', is: null } },
  },
  {
    next: { from: 'body', at: '/meta/next', to: { header: 'X-Continue' } },
    last: [
      { at: '/meta/next', is: null },
      { at: '/meta/next', is: 'none' },
    ],
    page: { ...json, status: [200, 206] },
    when: { empty: { at: '/message/code', is: 'nothing' } },
  },
  { next: { from: 'body', at: '/next', to: { query: '*' } }, page: json },
  {
    next: { from: 'report', at: '/id', to: { header: 'X-Continue' } },
    last: { reports: 0 },
    page: json,
  },
  { next: { from: 'none' }, page: { ...json, reports: '/*' } },
  // XML
  {
    request: { path, query: { filter: 'from {since} to {until}', cursor: '*' } },
    next: { from: 'body', at: '/feed/link[@rel=next]/@href', to: { query: '*' } },
    page: { format: 'xml', reports: '/feed/data/größe' },
    when: { error: { at: '/feed/problem' }, empty: { at: '/feed/message/@code', is: 'nothing' } },
  },
  {
    request: { method: 'POST', path, body },
    next: {
      from: 'body',
      at: '/feed/link[@rel="next page"]',
      request: { query: {}, body: { 'cursor/a': '{cursor}' } },
    },
    last: { at: '/feed/@more', is: true },
    page: { format: 'xml', reports: '/feed/data/*' },
    when: {
      ...problems,
      cursorExpired: { at: '/feed/problem', is: 'expired' },
      error: { at: '/feed/problem' },
      tokenExpired: { at: '/feed/result', is: 190 },
      throttled: { at: '/feed/busy', is: 'later' },
    },
  },
  {
    next: { from: 'body', at: '/feed/data.info/@next', to: { query: 'cursor' } },
    last: { at: '/feed/data.info', is: null },
    page: xml,
  },
  {
    next: { from: 'report', at: '/r/@id', to: { query: 'cursor' } },
    last: { at: '/feed/more', is: false },
    page: xml,
  },
  { next: { from: 'count', to: { query: 'page' }, first: 0, total: '/feed/@total', confirm: true }, page: xml },
  {
    next: { from: 'body', at: '/feed/next', to: { query: 'cursor' } },
    last: { at: '/feed/next', is: '{cursor}' },
    page: xml,
  },
  // Formats without places
  {
    next: { from: 'header', at: 'X-Next', to: { header: 'X-Continue' } },
    last: { header: 'X-More', is: 'no' },
    page: { format: 'ndjson' },
  },
  {
    next: { from: 'link', to: { query: '*' }, alsoOnLast: true },
    last: { parameter: 'results', is: 'false' },
    page: { format: 'csv' },
  },
  {
    next: { from: 'header', at: 'X-Next', to: { query: 'cursor' }, alsoOnLast: true },
    last: { header: 'X-Done', is: ['yes', true] },
    page: { format: 'csv' },
  },
  {
    next: { from: 'header', at: 'X-Next', to: 'url' },
    last: { header: 'X-Pages-Left', is: 0 },
    page: { format: 'bytes', types: ['application/pdf'] },
    when: { empty: { status: 204 } },
  },
  {
    next: { from: 'count', to: { query: 'page' }, step: 'reports', total: { header: 'X-Total' }, confirm: false },
    page: { format: 'ndjson' },
    when: { empty: { status: 204 } },
  },
];

const login = { tokenUrl: 'https://login.example/token', clientId: 'an exporter:1' };
const auths = fc.constantFrom<object[]>(
  { kind: 'none' },
  { kind: 'bearer' },
  { kind: 'basic' },
  { kind: 'key', send: { 'X-Key': 'SSWS {secret}' } },
  { kind: 'oauth2', ...login, scope: 'a b' },
  { kind: 'oauth2', ...login, grant: 'refresh_token' },
  { kind: 'oauth2', ...login, encoding: 'json', send: { 'X-Token': '{token}' } },
  { kind: 'login', path: '/login', body: { key: '{secret}' }, token: '/access_token', expires: '/expires_in' },
);
const dates = fc.constantFrom('iso', 'iso-ms', 'epoch', 'epoch-ms', 'date', {
  form: 'yyyy-MM-dd HH:mm',
  zone: 'Asia/Tokyo',
});

/** One of these, with any authentication. */
export const describedApis: fc.Arbitrary<Api> = fc
  .oneof(
    fc.tuple(fc.constantFrom(...documentedApis), auths).map(([api, auth]) => {
      const { request, ...rest } = api;
      return {
        ...rest,
        request: JSON.parse(JSON.stringify(request).replaceAll(/\{filter\.\w+\}/g, 'x')) as object,
        auth,
      };
    }),
    fc
      .tuple(fc.constantFrom(...others), auths, dates)
      .map(([api, auth, form]) => ({ request: { path, query }, ...api, auth, dates: form })),
  )
  .map((described) => {
    const api = apiSchema.parse(described);
    const [contradiction] = findContradictions(api);
    if (contradiction !== undefined) throw new Error(`${contradiction.message}: ${JSON.stringify(api)}`);
    return api;
  });
