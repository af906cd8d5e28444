/** Descriptions of APIs: which are accepted, why others are refused, and what a run keeps of them. */

import { describe, expect, it } from 'vitest';
import { loadPageCheck } from '../../lib/service/formats/formats.ts';
import { apiSchema, findContradictions, formatOf } from '../../lib/settings/api-settings.ts';
import { parseWithRules } from '../../lib/settings/parse-settings.ts';
import { apiOfRequest, requestDates } from '../../lib/settings/settings.ts';
import { mutationsOf } from '../support/mutations.ts';
import { cases, fc } from '../support/property.ts';
import { problemsOfFile } from '../support/settings-file.ts';

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
    page: { ...json, types: ['application/vnd.a+json'], error: '/errors' },
  },
  'a link': {
    request: { path: '/logs' },
    dates: 'epoch-ms',
    auth: { kind: 'header', name: 'Authorization', prefix: 'SSWS ' },
    next: { from: 'link' },
    page: { format: 'ndjson' },
  },
  'a header': {
    request: { path: '/{filter.job}/results' },
    auth: { kind: 'basic' },
    next: { from: 'header', at: 'Sforce-Locator', to: { query: 'locator' }, end: { value: 'null' } },
    page: { format: 'csv' },
  },
  'a cursor in the body': {
    request: post,
    dates: 'date',
    auth: { kind: 'oauth2', tokenUrl: 'https://login.example.com/token', clientId: 'a', scope: 'b c' },
    next: { from: 'body', at: '/a~1b/0', to: { body: '/page/after', alone: true }, end: { flag: '/more' } },
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
      to: { query: 'resumptionToken', alone: true },
      end: { absent: true, value: '' },
    },
    page: {
      format: 'xml',
      reports: '/O/L/record',
      error: '/O/error',
      empty: { at: '/O/error/@code', is: 'noRecordsMatch' },
    },
  },
  'a part that the last page lacks': {
    request: { path: '/contacts' },
    auth: { kind: 'bearer' },
    next: { from: 'body', at: '/paging/next/after', to: { query: 'after' }, end: { absent: '/paging' } },
    page: { format: 'json', reports: '/results/*' },
  },
  'a flag that is true at the end, and a cursor that expires': {
    request: { path: '/search' },
    auth: { kind: 'bearer' },
    next: { ...body, end: { flag: '/isLast', is: true }, rejected: { at: '/error/code', is: '410' } },
    page: json,
  },
  'the same cursor again': {
    request: {
      path: '/select',
      query: { cursorMark: '*', q: 'at:[{since} TO {until}]', json: '{"a":{"gte":{since}}}' },
    },
    auth: { kind: 'basic' },
    next: { from: 'body', at: '/nextCursorMark', to: { query: 'cursorMark' }, end: { same: true } },
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
      end: { flag: '/data/events/pageInfo/hasNextPage', decides: true },
    },
    page: { format: 'json', reports: '/data/events/nodes/*', error: '/errors' },
  },
  'another field that decides, and an item that is selected': {
    request: { path: '/posts' },
    auth: { kind: 'bearer' },
    next: { ...body, at: '/paging/all[rel=next]/after', end: { without: '/paging/next', absent: '/paging' } },
    page: json,
  },
  'a parameter of a link': {
    request: { path: '/events' },
    auth: { kind: 'bearer' },
    next: { from: 'link', end: { link: { results: 'false' } } },
    page: json,
  },
  'the last report, and a form': {
    request: { method: 'POST', path: '/charges', form: { since: '{since}', limit: '{size}' } },
    auth: { kind: 'bearer' },
    next: { from: 'report', at: '/id', to: { form: 'starting_after' }, end: { flag: '/has_more' } },
    page: json,
  },
  'the last report, and an empty page': {
    request: { path: '/feed' },
    auth: { kind: 'bearer' },
    next: { from: 'report', at: '/@id', to: { query: 'after' }, end: { empty: true } },
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
} as const;
const base = described['JSON with a cursor'];
const feed = described['a URL in XML'];
const counted = described['pages that are counted'];

/** The parsed description, and what is wrong with it. */
function parse(description: unknown) {
  const { data, issues } = parseWithRules(apiSchema, description, findContradictions);
  return { data, problems: issues.map(({ path, message }) => `${path.join('.')}: ${message}`) };
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
    ]);
    const bounds = parsed.map((api) => requestDates({ api }).upperBound);
    expect(bounds.flatMap((bound, index) => (bound === undefined ? [] : [[index, bound]]))).toEqual([
      [0, '{until}'],
      [9, '{until}'],
      [15, '{until}'],
      [16, '{until}'],
    ]);
    expect(new Set(parsed.map((one) => apiOfRequest({ api: one }).pagination))).toEqual(
      new Set(['body cursor', 'link url', 'header cursor', 'body url', 'report cursor', 'counted']),
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
        ['next.to: must not be url', { to: 'url' }],
        ['next.to.alone: must not be set', { to: { query: 'page', alone: true } }],
        ['next.end: has no meaning for count', { end: { absent: true } }],
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
    ['next.total: has no meaning in csv, which has no paths', { ...counted, page: { format: 'csv' } }],
    [
      'page.reports: is required with next.from: count',
      { ...counted, next: { ...counted.next, total: '/r/n' }, page: { ...xml, reports: undefined } },
    ],
    [
      'next.end: must have one of absent, value, flag, without, link, empty or same, or absent beside value or without. An end by a short page is refused',
      next({ end: 'short' }),
    ],
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
    ['auth.kind: must be one of none, header, basic, bearer, oauth2', auth({ kind: 'x' })],
    ['auth.name: is required', auth({ kind: 'header' })],
    ['auth.prefix: has no meaning for basic', auth({ kind: 'basic', prefix: 'x' })],
    ['auth.tokenUrl: must be https', auth({ kind: 'oauth2', clientId: 'a', tokenUrl: 'http://a.example/' })],
    [
      'auth.tokenUrl: must not contain a user',
      auth({ kind: 'oauth2', clientId: 'a', tokenUrl: 'https://a:b@a.example/' }),
    ],
    ['auth.grant: must be client_credentials or refresh_token', oauth2({ grant: 'authorization_code' })],
    ['auth.grant: has no meaning for bearer', auth({ kind: 'bearer', grant: 'refresh_token' })],
    ['auth.clientAuthentication: must be basic, body or none', oauth2({ clientAuthentication: 'jwt' })],
    ['auth.clientAuthentication: none requires "grant": "refresh_token"', oauth2({ clientAuthentication: 'none' })],
    ['auth.refresh_token: unknown field; a secret does not belong', oauth2({ refresh_token: 'x' })],
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
    ['next.end.flagg: unknown field; did you mean flag?', next({ to: { header: 'x-next' }, end: { flagg: '/more' } })],
    ['auth.knd: unknown field; did you mean kind?', { ...base, auth: { knd: 'bearer' } }],
    ['next.end.value: must be a string', next({ end: { value: null, absent: true } })],
    ['next.at: must be a relation, such as next', { ...base, next: { from: 'link', at: 'rel="next"' } }],
    ['next.to: has no meaning for link', { ...base, next: { from: 'link', to: body.to } }],
    ['next.to: is required, and must have one of query, header, body and form', next({ to: undefined })],
    ['next.from: must not be link for POST', { ...base, request: post, next: { from: 'link' } }],
    [
      'next.end.flag: needs from: body, as only a body has paths',
      next({ from: 'header', at: 'x-next', end: { flag: '/more' } }),
    ],
    ['next.end.is: has no meaning beside absent', next({ end: { absent: true, is: true } })],
    ['next.end.absent: must be true or a path', next({ end: { absent: false } })],
    ['next.end.absent: must be next.at or what contains', next({ end: { absent: '/paging' } })],
    ['next.end.absent: must be next.at or what', next({ end: { absent: '/meta/next/x' } })],
    ['next.end.absent: must not contain the reports', next({ at: '/data/next', end: { absent: '/data' } })],
    [
      'next.end.absent: needs from: body, as only a body has paths',
      next({ from: 'header', at: 'x-next', end: { absent: '/x-next' } }),
    ],
    [
      'page.reports: is required with a path in next.end.absent',
      inXml({ at: '/feed/@next', end: { absent: '/feed/@next' } }, { reports: undefined }),
    ],
    [
      'next.rejected.at: has no meaning in ndjson',
      { ...described['a link'], next: { from: 'link', rejected: { at: '/code', is: 'x' } } },
    ],
    [
      'next.rejected: needs absent in next.end',
      next({ from: 'header', at: 'x-next', end: { value: 'null' }, rejected: { at: '/code', is: 'x' } }),
    ],
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
    ['page.reports: has no meaning for ndjson', { ...described['a link'], page: { format: 'ndjson', reports: '/*' } }],
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
    ['next.end.decides: has no meaning beside absent', next({ end: { absent: true, decides: true } })],
    ['next.end.without: must be another field than next.at', next({ end: { without: '/meta' } })],
    ['next.end.absent: must be next.at or what contains it, and', next({ end: { without: '/a/b', absent: '/meta' } })],
    ['next.end.link: needs from: link', next({ end: { link: { results: 'false' } } })],
    ['next.end.link: must have one parameter', { ...base, next: { from: 'link', end: { link: {} } } }],
    ['next.end.without: needs from: body', { ...base, next: { from: 'link', end: { without: '/a' } } }],
    ['next.end.empty: needs from: report', next({ end: { empty: true } })],
    ['next.end: must be a flag or {"empty": true}', next({ from: 'report', at: '/id' })],
    ['next.end: must be a flag or {"empty": true}', next({ from: 'report', at: '/id', end: { absent: true } })],
    [
      'next.at: must be the path of a field in a report',
      next({ from: 'report', at: '/data/*/id', end: { empty: true } }),
    ],
    [
      'next.at: must be the path of a field in a report',
      inXml({ from: 'report', at: '/id[@a=b]', end: { empty: true } }),
    ],
    ['next.to: must not be url', next({ from: 'report', at: '/id', to: 'url', end: { empty: true } })],
    ['page.reports: is required with next.from: report', inXml({ from: 'report' }, { reports: undefined })],
    [
      'next.from: needs the page format json or xml',
      { ...described['a link'], next: { from: 'report', at: '/id', to: body.to, end: { empty: true } } },
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
    ['page.error: must be a JSON Pointer', page({ error: '/~2' })],
    ['next.at: must be a path of elements', inXml({ at: '/feed//link' })],
    ['next.at: must be a path of elements without prefixes', inXml({ at: '/feed/a:link/@href' })],
    ['page.error: has no meaning for ndjson', { ...described['a link'], page: { format: 'ndjson', error: '/e' } }],
    ['next.at: has no meaning in csv, which has no paths', { ...base, page: { format: 'csv' } }],
    ['page.empty.status: has no meaning beside at and is', page({ empty: { at: '/total', is: '0', status: 204 } })],
    ['page.empty.is: is required', page({ empty: { at: '/total' } })],
    ['page.empty.status: must be 204', page({ empty: { status: 404 } })],
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
      expect.stringMatching(/^some\.json:8 services\.a\.api\.next\.to: must have one of/),
      expect.stringMatching(/^some\.json:9 services\.a\.api\.page\.reports: is required/),
      'some.json:9 services.a.api.page.report: unknown field; did you mean reports?',
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
    expect(problems({ kind: 'header', name: 'X-Page' }, {})).toEqual([problem]);
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
        expect(apiOfRequest({ api: again })).toEqual(apiOfRequest({ api: parsed }));
        const isSame = (...fields: readonly (keyof typeof data)[]) =>
          fields.every((name) => sorted(data[name]) === sorted(parsed[name]));
        const [a, b] = [apiOfRequest({ api: parsed }), apiOfRequest({ api: data })];
        expect(a.requestSha256 === b.requestSha256).toBe(isSame('request', 'dates', 'auth'));
        expect(a.sha256 === b.sha256).toBe(isSame('request', 'dates', 'auth', 'next', 'page'));
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
        for (const parts of [{ error: path }, { reports: path }, {}]) {
          const next = { from: 'report', at: path, to: body.to, end: { empty: true } };
          const { data } = parse({
            ...description,
            ...(Object.keys(parts).length === 0 && { next }),
            page: { ...description.page, ...parts },
          });
          const createCheck = data && (await loadPageCheck(data));
          expect(() => createCheck?.(String)).not.toThrow();
        }
      }),
      { numRuns: cases(5_000) },
    );
  });
});

/** JSON in which fields are in order. */
const sorted = (value: unknown): string | undefined =>
  JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
