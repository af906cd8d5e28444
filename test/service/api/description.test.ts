/** Descriptions of APIs: which are accepted, why others are refused, and what a run keeps of them. */

import { describe, expect, it } from 'vitest';
import { parseAll } from '../../../lib/core/schema/parse.ts';
import { apiSchema, describeApi, findContradictions, requestDates } from '../../../lib/service/api/description.ts';
import { formatOf } from '../../../lib/service/api/page.ts';
import { loadPageCheck } from '../../../lib/service/formats/formats.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { mutationsOf } from '../../support/mutations.ts';
import { cases, fc } from '../../support/property.ts';
import { problemsOfFile } from '../../support/settings-file.ts';

const json = { format: 'json', reports: '/data/*' };
const body = { from: 'body', at: '/meta/next', to: { query: 'cursor' } };
const post = {
  method: 'POST',
  path: '/logs',
  body: { from: '{since}', filter: '{filter}', first: ['{size}'], query: '{ files { size } }' },
};
const xml = { format: 'xml', reports: '/feed/entry' };

/** A description of each kind. */
const described = {
  'JSON with a cursor': {
    request: {
      path: '/v1/logs?v=1',
      query: { since: '{since}', until: '{until}', limit: '{size}', kind: '{filter.kind}' },
    },
    auth: { kind: 'bearer' },
    next: body,
    page: { ...json, types: ['application/vnd.a+json'] },
    when: { error: { at: '/errors' } },
  },
  'a link': {
    request: { path: '/logs' },
    dates: 'epoch-ms',
    auth: { kind: 'key', send: { Authorization: 'SSWS {secret}' } },
    next: { from: 'link' },
    page: { format: 'ndjson' },
  },
  'a header': {
    request: { path: '/{filter.job}/results' },
    auth: { kind: 'basic' },
    next: { from: 'header', at: 'Sforce-Locator', to: { query: 'locator' } },
    last: { header: 'Sforce-Locator', is: 'null' },
    page: { format: 'csv' },
  },
  'a cursor in the body': {
    request: post,
    dates: 'date',
    auth: { kind: 'oauth2', tokenUrl: 'https://login.example.com/token', clientId: 'a', scope: 'b c' },
    next: { from: 'body', at: '/a~1b/0', request: { body: { page: { after: '{cursor}' } } } },
    last: { at: '/more', is: false },
    page: json,
  },
  'a cursor in a header': {
    request: post,
    auth: { kind: 'none' },
    next: { from: 'header', at: 'x-ms-continuation', to: { header: 'x-ms-continuation' } },
    page: { format: 'bytes', types: ['application/pdf'] },
  },
  'a URL in XML': {
    request: { path: '/feed', query: { $filter: 'updated ge {since}' } },
    dates: 'iso-ms',
    auth: { kind: 'basic' },
    next: { from: 'body', at: '/feed/link[@rel=next]/@href', to: 'url' },
    page: xml,
  },
  'OAI-PMH': {
    request: { path: '/oai?verb=ListRecords', query: { from: '{since}' } },
    auth: { kind: 'none' },
    next: {
      from: 'body',
      at: '/O/L/token',
      request: { query: { resumptionToken: '{cursor}' } },
    },
    page: { format: 'xml', reports: '/O/L/record' },
    when: {
      error: { at: '/O/error/@code', not: 'noRecordsMatch' },
      empty: { at: '/O/error/@code', is: 'noRecordsMatch' },
    },
  },
  'a part that the last page lacks': {
    request: { path: '/contacts' },
    auth: { kind: 'bearer' },
    next: { from: 'body', at: '/paging/next/after', to: { query: 'after' } },
    last: { at: '/paging', is: null },
    page: { format: 'json', reports: '/results/*' },
  },
  'a flag that is true at the end, and a cursor that expires': {
    request: { path: '/search' },
    auth: { kind: 'bearer' },
    next: body,
    last: { at: '/isLast', is: true },
    page: json,
    when: { cursorExpired: { at: '/error/code', is: 410 } },
  },
  'the same cursor again': {
    request: {
      path: '/select',
      query: { cursorMark: '*', q: 'at:[{since} TO {until}]', json: '{"a":{"gte":{since}}}' },
    },
    auth: { kind: 'basic' },
    next: { from: 'body', at: '/nextCursorMark', to: { query: 'cursorMark' } },
    last: { at: '/nextCursorMark', is: '{cursor}' },
    page: { format: 'json', reports: '/response/docs/*' },
  },
  'a flag that decides although a cursor is there, in GraphQL': {
    request: {
      method: 'POST',
      path: '/graphql',
      body: { query: '{ events(since: $since) { nodes {id} } }', variables: { since: '{since}', after: null } },
    },
    auth: { kind: 'bearer' },
    next: {
      ...body,
      at: '/data/events/pageInfo/endCursor',
      to: { body: '/variables/after' },
      alsoOnLast: true,
    },
    last: { at: '/data/events/pageInfo/hasNextPage', is: false },
    page: { format: 'json', reports: '/data/events/nodes/*' },
    when: { throttled: { at: '/errors/0/code', is: 'THROTTLED', wait: '/extensions/reset' }, error: { at: '/errors' } },
  },
  'another field that decides, and an item that is selected': {
    request: { path: '/posts' },
    auth: { kind: 'bearer' },
    next: { ...body, at: '/paging/all[rel=next]/after', alsoOnLast: true },
    last: [
      { at: '/paging/next', is: null },
      { at: '/paging', is: null },
    ],
    page: json,
  },
  'a parameter of a link': {
    request: { path: '/events' },
    auth: { kind: 'bearer' },
    next: { from: 'link', alsoOnLast: true },
    last: { parameter: 'results', is: 'false' },
    page: json,
  },
  'the last report, and a form': {
    request: { method: 'POST', path: '/charges', form: { since: '{since}', limit: '{size}' } },
    auth: { kind: 'bearer' },
    next: { from: 'report', at: '/id', to: { form: 'starting_after' } },
    last: { at: '/has_more', is: false },
    page: json,
  },
  'the last report, and an empty page': {
    request: { path: '/feed' },
    auth: { kind: 'bearer' },
    next: { from: 'report', at: '/@id', to: { query: 'after' } },
    last: { reports: 0 },
    page: xml,
  },
  'pages that are counted': {
    request: { path: '/logs', query: { since: '{since}', until: '{until}' } },
    auth: { kind: 'bearer' },
    next: { from: 'count', to: { query: 'page' }, total: '/total' },
    page: json,
  },
  'rows that are skipped, and a total in a header': {
    request: { path: '/logs', query: { since: '{since}', until: '{until}', limit: '{size}' } },
    auth: { kind: 'bearer' },
    next: { from: 'count', to: { query: 'skip' }, first: 0, step: 'reports', total: { header: 'X-Total-Count' } },
    page: { format: 'csv' },
  },
  'the parameters of a URL, and no page at all': {
    request: { path: '/pages', headers: { Accept: 'application/json; version=2' } },
    auth: { kind: 'none' },
    next: { from: 'body', at: '/continue', to: { query: '*' } },
    page: { ...json, single: true, status: [200, 206] },
    when: { empty: [{ status: 204 }, { status: 404, at: '/code', is: 'none' }, { at: '', is: null }] },
  },
  'a single page': {
    request: { path: '/pages' },
    auth: { kind: 'none' },
    next: { from: 'none' },
    last: { at: '/truncated', is: false },
    page: json,
  },
} as const;
const base = described['JSON with a cursor'];
const feed = described['a URL in XML'];
const counted = described['pages that are counted'];

/** The parsed description, and what is wrong with it. */
function parse(description: unknown) {
  const { data, issues } = parseAll(apiSchema, description);
  const problems = data === undefined ? issues : findContradictions(data);
  return { data, problems: problems.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`) };
}
const problemsOf = (description: unknown) => parse(description).problems;

describe('a description', () => {
  it.each(Object.entries(described))('may be %s', (_, description) => {
    expect(problemsOf(description)).toEqual([]);
  });

  it('knows its format, its upper bound, and its pagination', () => {
    const parsed = Object.values(described).map((one) => apiSchema.parse(one));
    expect(parsed.map(formatOf)).toEqual([
      'JSON',
      'NDJSON',
      'CSV',
      'JSON',
      'BIN',
      'XML',
      'XML',
      ...Array.from({ length: 7 }, () => 'JSON'),
      'XML',
      'JSON',
      'CSV',
      'JSON',
      'JSON',
    ]);
    const bounds = parsed.map((api) => requestDates(api).upperBound);
    expect(bounds.flatMap((bound, index) => (bound === undefined ? [] : [[index, bound]]))).toEqual([
      [0, '{until}'],
      [9, '{until}'],
      [15, '{until}'],
      [16, '{until}'],
    ]);
    expect(new Set(parsed.map((one) => apiOfRequest(describeApi(one)).pagination))).toEqual(
      new Set(['body cursor', 'link url', 'header cursor', 'body url', 'report cursor', 'counted', 'none']),
    );
  });

  const request = (parts: object) => ({ ...base, request: { ...base.request, ...parts } });
  const query = (parameters: object) => request({ query: parameters });
  const inBody = (sent: unknown) => ({ ...base, request: { ...post, body: sent } });
  const auth = (parts: object) => ({ ...base, auth: parts });
  const oauth2 = (parts: object) =>
    auth({ kind: 'oauth2', clientId: 'a', tokenUrl: 'https://login.example.com/token', ...parts });
  const next = (parts: object) => ({ ...base, next: { ...body, ...parts } });
  const page = (parts: object) => ({ ...base, page: { ...json, ...parts } });
  const inXml = (parts: object, of: object = {}) => ({
    ...feed,
    next: { ...feed.next, ...parts },
    page: { ...xml, ...of },
  });

  it.each([
    ['a date with the name of an offset', inBody({ start_at: '{since}', query: { page: '/pricing' } })],
    ['a part of the body with the name of an offset', inBody({ page: { limit: 2 } })],
    ['an attribute of the root, without reports', inXml({ at: '/feed/@next' }, { reports: undefined })],
  ])('may have %s', (_, description) => {
    expect(problemsOf(description)).toEqual([]);
  });

  it.each<[problem: string, description: unknown]>([
    [
      'request.query.start: {offset}: offsets and page numbers are described by next.from: count',
      query({ start: '{offset}' }),
    ],
    ['request.query.offset: offsets and page numbers', query({ offset: '0' })],
    ['request.path: page: offsets and page numbers', request({ path: '/logs?page=1' })],
    ['request.query.page[number]: offsets and page', query({ 'page[number]': '1' })],
    ['request.body.a.0.b.skip: offsets and page numbers', inBody({ a: [{ b: { skip: 0 } }] })],
    ['next.from: offsets and page numbers are described by next.from: count', next({ from: 'page' })],
    ...(
      [
        ['next.to: must be an object', { to: 'url' }],
        ['next: unknown field: "request"', { request: {} }],
        ['next.total: is required', { total: undefined }],
        ['next.total: must be a JSON Pointer', { total: 'total' }],
        ['next.total: must be a path, or have header', { total: 5 }],
        ['next.total: must be outside of reports', { total: '/data/0/total' }],
        ['next.first: must not be negative', { first: -1 }],
        ['next.first: must be at most 1000000', { first: 1_000_001 }],
        ['next.step: must be 1 or more, or "reports"', { step: '{size}' }],
        ['next.step: must be 1 or more, or "reports"', { step: 0 }],
        ['next.step: must be "reports" if startAt is an offset', { to: { query: 'startAt' } }],
        ['next.to: must not be until of request', { to: { query: 'until' } }],
      ] as const
    ).map(([problem, parts]) => [problem, { ...counted, next: { ...counted.next, ...parts } }] as [string, unknown]),
    ['next.confirm: must be false for ndjson', { ...counted, page: { format: 'ndjson' } }],
    ['request: must have {since} and {until}', { ...counted, request: { path: '/logs' } }],
    ['page.format: must be one whose reports are counted', { ...counted, page: { format: 'bytes', types: ['a/b'] } }],
    ['next.total: has no meaning in csv', { ...counted, page: { format: 'csv' } }],
    [
      'page.reports: is required with next.from: count',
      { ...counted, next: { ...counted.next, total: '/r/n' }, page: { ...xml, reports: undefined } },
    ],
    ['next: unknown field: "end"', next({ end: 'short' })],
    ['next.at: is in a report, so that a short page would count as the last one', next({ at: '/data/99/id' })],
    ['next.at: is in a report', inXml({ at: '/feed/entry/next' })],
    ...(
      [
        ['/feed/entry[@x=1]/next'],
        ['/feed/*/next'],
        ['/*/entry/next'],
        ['/feed/entry/@id'],
        ['/feed/link[@rel=next]/@href', '/feed/*'],
        ['/feed/link[@rel=next]/@href', undefined],
        ['/feed/next', undefined],
      ] as const
    ).map(([at, ...rest]): [string, unknown] => [
      rest.length === 1 && rest[0] === undefined
        ? 'page.reports: is required: next.at is in a child element of the root'
        : 'next.at: is in a report',
      inXml({ at }, rest.length === 0 ? {} : { reports: rest[0] }),
    ]),
    ['request.query.api_key: a key in the URL is refused', query({ api_key: 'x' })],
    ['request.query.k: {apiKey}: a key in the URL is refused', query({ k: '{apiKey}' })],
    ['auth.kind: a key in the URL is refused', auth({ kind: 'query' })],
    ['auth.kind: signatures of requests cannot be described', auth({ kind: 'sigv4' })],
    ['auth.kind: must be one of none, key, basic, bearer, oauth2, jwt, login', auth({ kind: 'header' })],
    ['auth.send: is required', auth({ kind: 'key' })],
    ['auth.send: must have 1 to 10 headers', auth({ kind: 'key', send: {} })],
    ...(
      [
        ['X-Key: {key} is unknown; there are {secret}, {secret.FIELD} and {token}', { 'X-Key': '{key}' }],
        [`X-Key: $${'{secret}'} is unknown; there are {secret}`, { 'X-Key': `$${'{secret}'}` }],
        ['X-Key: must contain {secret}, {secret.FIELD} or {token}', { 'X-Key': 's3cret' }],
        ['X-Key: must be printable ASCII', { 'X-Key': '{secret} ' }],
        ['Host: must be another header', { Host: '{secret}' }],
        ['x-key: is already set in another spelling', { 'X-Key': '{secret.a}', 'x-key': '{secret.b}' }],
      ] as const
    ).map(([problem, send]): [string, unknown] => [`auth.send.${problem}`, auth({ kind: 'key', send })]),
    ['auth.send: has {token}, but "kind": "bearer" has none', auth({ kind: 'bearer', send: { A: '{token}' } })],
    ['auth.send: must have {token}', auth({ kind: 'basic', send: { A: '{secret}' } })],
    ['auth: unknown field: "prefix". There are kind, send', auth({ kind: 'basic', prefix: 'x' })],
    ['auth.tokenUrl: must be https', auth({ kind: 'oauth2', clientId: 'a', tokenUrl: 'http://a.example/' })],
    [
      'auth.tokenUrl: must not contain a user',
      auth({ kind: 'oauth2', clientId: 'a', tokenUrl: 'https://a:b@a.example/' }),
    ],
    ['auth.grant: must be client_credentials or refresh_token', oauth2({ grant: 'authorization_code' })],
    ['auth: unknown field: "grant". There are kind, send', auth({ kind: 'bearer', grant: 'refresh_token' })],
    [
      'auth.clientAuthentication: must be basic, basic-unencoded, body, private_key_jwt or none',
      oauth2({ clientAuthentication: 'jwt' }),
    ],
    ['auth.clientAuthentication: none requires "grant": "refresh_token"', oauth2({ clientAuthentication: 'none' })],
    ['auth: unknown field: "refresh_token". There are kind, tokenUrl', oauth2({ refresh_token: 'x' })],
    ['auth.keyId: needs "clientAuthentication": "private_key_jwt"', oauth2({ keyId: 'k' })],
    [
      'auth.parameters: has no meaning without tokenUrl',
      auth({ kind: 'jwt', issuer: 'a', audience: 'b', parameters: { c: 'd' } }),
    ],
    ...(
      [
        [': must have either body or form', { body: undefined }],
        ['.path: must not have placeholders', { path: '/auth?key={secret}' }],
        ['.path: must be a path', { path: 'auth' }],
        ['.body: must have {secret} or {secret.FIELD}', { body: { user: 'me' } }],
        ['.body.a.0: {token} is unknown; there are {secret}', { body: { a: ['{token}'] } }],
        ['.body.user.password: must be {secret}', { body: { user: { name: '{secret.user}', password: 'x' } } }],
        ['.form.api_key: must be {secret}', { body: undefined, form: { api_key: 'x', user: '{secret.user}' } }],
        ['.token: must be a JSON Pointer', { token: 'access_token' }],
      ] as const
    ).map(([problem, parts]): [string, unknown] => [
      `auth${problem}`,
      auth({ kind: 'login', path: '/auth', body: { key: '{secret}' }, token: '/token', ...parts }),
    ]),
    ['auth.parameters.refresh_token: must not be set: it is a secret', oauth2({ parameters: { refresh_token: 'x' } })],
    ['request: must have {since} beside {until}', query({ a: '{until}' })],
    ['request.query.a: {from} is unknown; there are {since}', query({ a: '{from}' })],
    ...['{ since }', `$${'{since}'}`, '{{until}}', '{filter.a b}', '{filter.ü}'].map((text): [string, unknown] => [
      `request.query.a: ${text} is no placeholder`,
      query({ a: `x ${text}` }),
    ]),
    ['request.query.a: {filter} is an object', query({ a: '{filter}' })],
    ['request.body.a: must not have a field named __proto__', inBody(JSON.parse('{"a":{"__proto__":1}}'))],
    ['request.body.a: must be a number from', inBody({ a: 2 ** 60 })],
    ['request.body: must be a JSON object', inBody([1])],
    ['request.body: needs the method POST', request({ body: {} })],
    ['next.to.body: needs the method POST', next({ to: { body: '/c' } })],
    ['request.method: must be GET or POST', request({ method: 'PUT' })],
    ['request.path: must begin with a slash', request({ path: 'logs' })],
    ['request.path: must not have limit, which is sent, too', request({ path: '/logs?limit=1' })],
    ['request.path: must not have cursor, which is sent, too', request({ path: '/logs?cursor=*' })],
    ['next.at: is required', { ...base, next: { from: 'body', to: body.to } }],
    ['next.at: is not a valid header name', next({ from: 'header', at: '/next' })],
    ['next.to.header: must be another header', next({ to: { header: 'Host' } })],
    ['next.to.header: must be another header: this one is for the secret', next({ to: { header: 'authorization' } })],
    ['auth.kind: must be one of', { ...base, auth: { knd: 'bearer' } }],
    ['next.at: must be a relation, such as next', { ...base, next: { from: 'link', at: 'rel="next"' } }],
    ['next.to.query: must be *', { ...base, next: { from: 'link', to: body.to } }],
    ['next.to: is required, unless next.request has {cursor}', next({ to: undefined })],
    ['next.to: must have exactly one of query, header, body, form', next({ to: { query: 'a', header: 'b' } })],
    ['next.request: must have the method', { ...base, request: post, next: { from: 'link' } }],
    [
      'when.cursorExpired.at: has no meaning in ndjson',
      { ...described['a link'], when: { cursorExpired: { at: '/c' } } },
    ],
    ['last.parameter: needs next.from: link', { ...base, last: { parameter: 'results', is: 'false' } }],
    ['last.at: must be a JSON Pointer', { ...base, last: { at: 'more', is: false } }],
    ['last.0: must have only one of', { ...base, last: [{ at: '/a', header: 'b' }] }],
    ['last: must have at least one condition', { ...base, last: [] }],
    ['last: must be an object, or a list of objects', { ...base, last: '/more' }],
    ['last.is: must be a text, a number, a boolean or null', { ...base, last: { at: '/more', is: {} } }],
    ['last.reports: has no meaning in bytes', { ...described['a cursor in a header'], last: { reports: 0 } }],
    ['when.throttled.wait: must be a JSON Pointer', { ...base, when: { throttled: { at: '/a', wait: 'b' } } }],
    [
      'when.cursorExpired: has no meaning with next.from: none',
      { ...described['a single page'], when: { cursorExpired: { at: '/a' } } },
    ],
    ['page.status.0: must be 200, 201, 203 or 206', page({ status: [404] })],
    ['page.reports: is required', page({ reports: undefined })],
    ['page.types: is required', { ...described['a cursor in a header'], page: { format: 'bytes' } }],
    ['page.types.0: must be a content type', page({ types: ['application/json; charset=utf-8'] })],
    ['page.types: must not be empty', page({ types: [] })],
    ['page.reports: must be the JSON Pointer of a list', page({ reports: '/data' })],
    ['page.reports: must be a path of elements', inXml({}, { reports: '/*' })],
    ['page.reports: must be a path of elements', inXml({}, { reports: '/feed/@entry' })],
    [
      'page.reports: must be /* in csv, if the first row is a report',
      { ...described['a link'], page: { format: 'csv', reports: '/data/*' } },
    ],
    [
      'page: unknown field: "reports". There are format, types, status',
      { ...described['a link'], page: { format: 'ndjson', reports: '/*' } },
    ],
    [
      'page.columns: has no meaning with reports, which say that the first row is a report',
      { ...described['a link'], page: { format: 'csv', reports: '/*', columns: 'id' } },
    ],
    [
      'page.columns: must not end with a line break',
      { ...described['a link'], page: { format: 'csv', columns: 'id,text\r\n' } },
    ],
    ['next.at: must be a JSON Pointer, such as /meta/next', next({ at: 'meta.next' })],
    ['next.at: must be a JSON Pointer, such as /meta/next, in which one', next({ at: '/a[b=c]/d[e=f]' })],
    ['next.at: must be a JSON Pointer, such as /meta/next, in which one', next({ at: '/a[0]/d' })],
    ['next.at: is in a report', next({ at: '/data[last=true]/id' })],
    ['last: is required with next.from: report', next({ from: 'report', at: '/id' })],
    [
      'next.at: must be the path of a field in a report',
      { ...next({ from: 'report', at: '/data/*/id' }), last: { reports: 0 } },
    ],
    ['next.at: must be the path of a field in a report', inXml({ from: 'report', at: '/id[@a=b]' })],
    ['next.to: must be a place for the cursor', next({ from: 'report', at: '/id', to: 'url' })],
    ['page.reports: is required with next.from: report', inXml({ from: 'report' }, { reports: undefined })],
    [
      'next.from: needs the page format json or xml',
      { ...described['a link'], next: { from: 'report', at: '/id', to: body.to } },
    ],
    ['request.form: needs the method POST', request({ form: {} })],
    ['request.form: takes the place of body', { ...base, request: { ...post, form: {} } }],
    [
      'request.form.page: offsets and page numbers',
      { ...base, request: { method: 'POST', path: '/', form: { page: '1' } } },
    ],
    ['request.form.a: {from} is unknown', { ...base, request: { method: 'POST', path: '/', form: { a: '{from}' } } }],
    ['next.to.form: needs request.form', next({ to: { form: 'cursor' } })],
    [
      'next.to.body: must be form',
      { ...base, request: { method: 'POST', path: '/', form: {} }, next: { ...body, to: { body: '/cursor' } } },
    ],
    ['request.body.query: {id} is unknown', inBody({ query: '{id}' })],
    ['request.body.variables.a: {id} is unknown', inBody({ query: '{id}', variables: { a: '{id}' } })],
    ['page.reports: must be the JSON Pointer of a list', page({ reports: '/data[0]/*' })],
    ['when.error.at: must be a JSON Pointer', { ...base, when: { error: { at: '/~2' } } }],
    ['next.at: must be a path of elements', inXml({ at: '/feed//link' })],
    ['next.at: must be a path of elements without prefixes', inXml({ at: '/feed/a:link/@href' })],
    ['next.at: has no meaning in csv', { ...base, page: { format: 'csv' } }],
  ])('is refused: %s', (problem, description) => {
    expect(problemsOf(description)).toContainEqual(expect.stringContaining(problem));
  });
});

describe('a settings file', () => {
  it('has path and line of all that is wrong with a description', () => {
    const text = `{
  "services": { "a": { "baseUrl": "https://a.example",
    "api": {
      "request": { "path": "logs",
        "query": { "offset": "0", "k": "{apiKey}" } },
      "auth": { "kind": "oauth" },
      "next": { "from": "body", "at": "/next",
        "to": { "query": "cursor", "header": "a" } },
      "page": { "format": "json", "report": "/data/*" } } } },
  "exports": [{ "name": "a" }]
}`;
    expect(problemsOfFile(text)).toEqual([
      expect.stringMatching(/^some\.json:4 services\.a\.api\.request\.path: must begin/),
      expect.stringMatching(/^some\.json:5 services\.a\.api\.request\.query\.k: \{apiKey\}: a key/),
      expect.stringMatching(/^some\.json:5 services\.a\.api\.request\.query\.offset: offsets/),
      expect.stringMatching(/^some\.json:6 services\.a\.api\.auth\.kind: must be one of/),
      expect.stringMatching(/^some\.json:8 services\.a\.api\.next\.to: must have exactly one of/),
      expect.stringMatching(
        /^some\.json:9 services\.a\.api\.page: unknown field: "report"\. There are format, reports/,
      ),
    ]);
  });

  it('has no secret without authentication', () => {
    const secret = { apiKeySecret: { existing: 'a' }, apiKeyEnv: 'A_KEY' };
    const service = { baseUrl: 'https://a.example', api: { ...feed, auth: { kind: 'none' } }, ...secret };
    const text = (settings: object) => JSON.stringify({ services: { a: settings }, exports: [{ name: 'a' }] });
    expect(problemsOfFile(text(service)).filter((line) => line.includes('apiKey'))).toEqual([
      'some.json:1 services.a.apiKeySecret: has no meaning: api.auth is none',
      'some.json:1 services.a.apiKeyEnv: has no meaning: api.auth is none',
    ]);
    const header = { ...service, api: { ...feed, auth: { kind: 'bearer' } } };
    expect(problemsOfFile(text(header)).filter((line) => line.includes('apiKey'))).toEqual([]);
  });

  it('sends a cursor in no header that has something else', () => {
    const to = { header: 'x-page' };
    const problems = (auth: object, headers: object) => {
      const api = { ...feed, auth, next: { ...feed.next, to } };
      const services = { a: { baseUrl: 'https://a.example', api, headers } };
      return problemsOfFile(JSON.stringify({ services, exports: [{ name: 'a' }] }));
    };
    const problem = expect.stringContaining('a.api.next.to.header: must be another header');
    expect(problems({ kind: 'key', send: { 'X-Page': '{secret}' } }, {})).toEqual([problem]);
    expect(problems({ kind: 'none' }, { 'X-Page': '1' })).toEqual([problem]);
    expect(problems({ kind: 'none' }, { 'X-Pages': '1' })).toEqual([]);
  });

  it('has path and line of what does not belong together', () => {
    const service = { baseUrl: 'https://a.example', vendor: 'A', cursorIn: 'body', filterUntil: 'date.lt', api: feed };
    const exports = [{ name: 'a', filter: { kind: 'x' }, size: 3, format: 'JSON', container: 'ZIP' }];
    expect(problemsOfFile(JSON.stringify({ services: { a: service }, exports }, null, 1))).toEqual([
      'some.json:5 services.a.vendor: has no meaning with api: auth and next name the headers',
      'some.json:6 services.a.cursorIn: has no meaning with api: next.to is where the cursor is sent',
      'some.json:7 services.a.filterUntil: has no meaning with api: the placeholder {until} is the upper bound',
      expect.stringMatching(
        /^some\.json:\d+ exports\[0\]\.filter\.kind: has no effect: api\.request has no placeholder \{filter\.kind\}$/,
      ),
      expect.stringMatching(
        /^some\.json:\d+ exports\[0\]\.size: has no effect: api\.request has no placeholder \{size\}$/,
      ),
      expect.stringMatching(/^some\.json:\d+ exports\[0\]\.format: has no meaning for a service with api/),
      expect.stringMatching(/^some\.json:\d+ exports\[0\]\.container: has no meaning for a service with api/),
    ]);
  });

  it('may have a size above 10 only with a description', () => {
    const file = (service: object, filter: object) =>
      problemsOfFile(
        JSON.stringify({
          services: { a: { baseUrl: 'https://a.example', ...service } },
          exports: [{ name: 'a', size: 11, filter }],
        }),
      );
    expect(file({ api: base }, { kind: 'x' })).toEqual([]);
    expect(file({ api: described['a cursor in the body'] }, { kind: 'x' })).toEqual([]);
    expect(file({}, {})).toEqual(['some.json:1 exports[0].size: must be 1 to 10, unless the service has api']);
  });
});

describe('any description', () => {
  const descriptions = fc.constantFrom(...Object.values(described));
  /** A parsed description, and one that differs from it in up to two places or in none. */
  const pairs = descriptions.chain((one) => fc.tuple(fc.constant(one), fc.oneof(mutationsOf(one), descriptions)));

  it('has a checksum that survives JSON and changes if and only if what selects pages changes', () => {
    fc.assert(
      fc.property(pairs, ([one, other]) => {
        const { data } = apiSchema.safeParse(other);
        if (data === undefined) return;
        const parsed = apiSchema.parse(one);
        const again = apiSchema.parse(JSON.parse(JSON.stringify(parsed)));
        expect(again).toEqual(parsed);
        expect(checksums(again)).toEqual(checksums(parsed));
        const isSame = (...fields: readonly (keyof typeof data)[]) =>
          fields.every((name) => sorted(data[name]) === sorted(parsed[name]));
        const [a, b] = [checksums(parsed), checksums(data)];
        expect(a.requestSha256 === b.requestSha256).toBe(isSame('request', 'dates', 'auth'));
        const read = ({ page }: typeof data) => sorted({ ...page, types: 0, status: 0, columns: 0 });
        expect(a.sha256 === b.sha256).toBe(isSame('request', 'dates', 'auth', 'next') && read(data) === read(parsed));
      }),
      { numRuns: cases(1_000) },
    );
  });

  const step = fc.tuple(
    fc.constantFrom('a', 'ü', '*', '@b', '~1', '0', 'b:c', ''),
    fc.constantFrom(
      '',
      '',
      '[@a=x y]',
      '[@a="x"]',
      "[@a='x']",
      '[@a="]',
      `[@a='x"]`,
      '[@a:b=x]',
      '[@a=]',
      '[a=x]',
      "[a='x']",
      '[~1=]',
      '[1]',
    ),
  );
  const paths = fc.array(step, { maxLength: 4 }).map((steps) => steps.map((parts) => `/${parts.join('')}`).join(''));

  it('has paths that the check of its pages understands', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(base, feed), paths, async (description, path) => {
        const next = { from: 'report', at: path, to: body.to };
        const changes = [
          { when: { error: { at: path } } },
          { page: { ...description.page, reports: path } },
          { next, last: { reports: 0 } },
        ];
        for (const parts of changes) {
          const { data, problems } = parse({ ...description, ...parts });
          const createCheck = problems.length === 0 && data ? await loadPageCheck(data) : undefined;
          expect(() => createCheck?.(String)).not.toThrow();
        }
      }),
      { numRuns: cases(5_000) },
    );
  });
});

const checksums = (api: Parameters<typeof describeApi>[0]) => apiOfRequest(describeApi(api));

/** JSON in which fields are in order. */
const sorted = (value: unknown): string | undefined =>
  JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
