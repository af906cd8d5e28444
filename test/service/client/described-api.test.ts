/**
 * The client and an API that the settings describe: what it requests, and what it makes of responses. Whatever a
 * response does not say clearly is an error, so that no run ends before its last page.
 */

import { describe, expect, it } from 'vitest';
import { asCursor, type Instant } from '../../../lib/core/model.ts';
import { apiSchema, describeApi } from '../../../lib/service/api/description.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { chunk, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import {
  clientFor,
  failureOf,
  pageFrom,
  pageRequest,
  readPage,
  trickyApiKey,
} from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';

const body = { from: 'body', at: '/next', to: { query: 'cursor' } };
const link = { from: 'link' };
const byLink = { next: link };
const json = { format: 'json', reports: '/data/*' };

const apiOf = (parts: object) =>
  apiSchema.parse({ request: { path: '/logs' }, auth: { kind: 'bearer' }, next: body, page: json, ...parts });

type Parts = Omit<NonNullable<Parameters<typeof rawResponse>[0]>, 'headers'> & {
  readonly headers?: Readonly<Record<string, string>>;
};
type RequestParts = NonNullable<Parameters<typeof pageRequest>[0]> & {
  readonly since?: string;
  readonly until?: string;
};

const typeOf = (api: { readonly page: { readonly format: string } }) =>
  ({ xml: 'application/xml', json: 'application/json', ndjson: 'application/x-ndjson', csv: 'text/csv' })[
    api.page.format
  ] ?? 'application/pdf';

/** What the client requests of an API with these parts, and what it makes of the response. */
async function fetchFrom(parts: object, response: Parts | Buffer | undefined, request: RequestParts = {}, path = '') {
  const api = apiOf(parts);
  const type = typeOf(api);
  const bytes = Buffer.isBuffer(response)
    ? response
    : rawResponse({
        ...(response ?? { body: '{"data":[]}' }),
        headers: { 'content-type': type, ...response?.headers },
      });
  await using server = await startRawServer(bytes);
  await using client = clientFor({ url: `${server.url}${path}` }, { api });
  const { since, until, cursor, ...rest } = request;
  const sent = {
    ...pageRequest({ ...rest, api: apiOfRequest(describeApi(api)), cursor: cursor ?? null }),
    ...(since !== undefined && { since: since as Instant }),
    until: until as Instant | undefined,
  };
  const page = await fetchPage(client, sent).catch((error: unknown) => {
    throw Object.assign(error as Error, { url: server.url });
  });
  const [received] = server.requests;
  return { received, next: page.nextCursor, reports: page.reports, text: page.body.toString(), url: server.url };
}

const ok: Parts = { body: '{"data":[],"next":null}' };
const received = async (parts: object, request?: RequestParts, path?: string) => {
  const { page = json } = parts as { page?: { format: string } };
  const response = page.format === 'xml' ? { body: '<r/>' } : ok;
  return (await fetchFrom(parts, response, request, path)).received;
};

it.each([
  [404, /does not exist\. Check baseUrl and api\.request\.path$/],
  [301, /would forward the API key\. Check baseUrl and api\.request\.path$/],
  [422, /Check api\.request and filter: plan --request shows what is sent$/],
])('a first request that is rejected with %i names the settings', async (status, message) => {
  expect((await failureOf(fetchFrom({}, { status, body: '' }))).message).toMatch(message);
});

describe('a request', () => {
  it.each([
    [
      'with all placeholders',
      {
        request: {
          path: '/{filter.kind}/logs?v=1',
          query: { from: '{since}', 'page[size]': '{size}', q: 'a b={filter.q}' },
        },
      },
      { size: 25, filter: { kind: 'a/b', q: 'x&y=ü+"' } },
      '/a%2Fb/logs?v=1&from=2026-11-20T02%3A00%3A00Z&page%5Bsize%5D=25&q=a%20b%3Dx%26y%3D%C3%BC%2B%22',
    ],
    [
      'without parameters that have no value',
      { request: { path: '/logs', query: { size: '{size}', kind: '{filter.kind}', fixed: '1' } } },
      {},
      '/logs?fixed=1',
    ],
    [
      'for the next page',
      { request: { path: '/logs?v=1', query: { from: '{since}', cursor: '*' } } },
      { cursor: asCursor('a b%2C+/=&"') },
      '/logs?v=1&from=2026-11-20T02%3A00%3A00Z&cursor=a%20b%252C%2B%2F%3D%26%22',
    ],
    [
      'with the cursor in the place of the lower bound',
      { request: { path: '/logs', query: { cursor: '{since}' } } },
      { cursor: asCursor('2') },
      '/logs?cursor=2',
    ],
  ])('%s', async (_, parts, request, target) => {
    expect(await received(parts, request)).toMatchObject({ method: 'GET', target, body: '' });
  });

  it('extends the path of the base URL, but not that of a link', async () => {
    expect((await received({}, {}, '/eu/'))?.target).toBe('/eu/logs');
    expect((await received(byLink, { cursor: asCursor('/logs?a=1') }, '/eu'))?.target).toBe('/logs?a=1');
  });

  it.each([
    // An API that accepts whole seconds may reject milliseconds, which a watermark has now and then.
    ['iso', '2026-11-20T02:00:00Z', '2026-11-21T03:00:01Z'],
    ['iso-ms', '2026-11-20T02:00:00.250Z', '2026-11-21T03:00:00.500Z'],
    ['epoch', '1795140000', '1795230001'],
    ['epoch-ms', '1795140000250', '1795230000500'],
    // A run that ends within a second or a day would otherwise miss the rest of it. The API may read dates in any time
    // zone.
    ['date', '2026-11-19', '2026-11-22'],
  ])('has dates as %s, rounded so that it selects no less', async (dates, since, until) => {
    const request = { path: '/logs', query: { since: '{since}', until: '{until}' } };
    const bounds = { since: '2026-11-20T02:00:00.250Z', until: '2026-11-21T03:00:00.500Z' };
    const { target = '' } = (await received({ request, dates }, bounds)) ?? {};
    expect(Object.fromEntries(new URLSearchParams(target.split('?')[1]))).toEqual({ since, until });
  });

  it.each([
    ['iso', undefined, '2026-11-20T03:00:00Z'],
    ['date', undefined, '2026-11-21'],
    ['iso', '2026-11-20T02:30:00Z', '2026-11-20T02:30:00Z'],
  ])('without an upper bound of its own ends when the run began: %s, until %s', async (dates, bound, until) => {
    const request = { path: '/logs', query: { since: '{since}', until: '{until}' } };
    const { target = '' } = (await received({ request, dates }, bound === undefined ? {} : { until: bound })) ?? {};
    expect(new URLSearchParams(target.split('?')[1]).get('until')).toBe(until);
  });

  const template = {
    from: '{since}',
    size: '{size}',
    query: { types: '{filter.types}', text: 'kind:{filter.kind}', fixed: [1, null, [true]] },
    all: '{filter}',
  };
  it.each([
    [
      'with values in their own types',
      post(template),
      { size: 5, filter: { types: ['a', 1], kind: 'x' } },
      '{"from":1795140000,"size":5,"query":{"types":["a",1],"text":"kind:x","fixed":[1,null,[true]]},"all":{"types":["a",1],"kind":"x"}}',
    ],
    [
      'without fields that have no value',
      post(template),
      {},
      '{"from":1795140000,"query":{"fixed":[1,null,[true]]},"all":{}}',
    ],
    ['without a body of its own', { request: { method: 'POST', path: '/logs' } }, {}, '{}'],
    [
      'with the cursor inside',
      { ...post({ query: { from: '{since}' } }), next: { ...body, to: { body: '/query/page~1token/~0' } } },
      { cursor: asCursor(String.raw`"a\u00e9\\u0041"`) },
      String.raw`{"query":{"from":1795140000,"page/token":{"~":"a\u00e9\\u0041"}}}`,
    ],
    [
      'with the cursor inside an array, whose other values stay',
      { ...post({ queries: [1, { from: '{since}' }] }), next: { ...body, to: { body: '/queries/1/cursor' } } },
      { cursor: asCursor('"c"') },
      '{"queries":[1,{"from":1795140000,"cursor":"c"}]}',
    ],
    [
      'with a cursor that is a number, with all its digits',
      { ...post({}), next: { ...body, to: { body: '/after' } } },
      { cursor: asCursor('12345678901234567890') },
      '{"after":12345678901234567890}',
    ],
    [
      'with a cursor from a header, as text',
      { ...post({}), next: { from: 'header', at: 'x-next', to: { body: '/after' } } },
      { cursor: asCursor('12') },
      '{"after":"12"}',
    ],
    [
      'with the cursor alone',
      { ...post({ from: '{since}' }), next: { from: 'body', at: '/next', request: { body: { cursor: '{cursor}' } } } },
      { cursor: asCursor('"c"') },
      '{"cursor":"c"}',
    ],
    [
      'with the cursor in a field that objects inherit',
      { ...post({}), next: { ...body, to: { body: '/constructor/__proto__' } } },
      { cursor: asCursor('1') },
      '{"constructor":{"__proto__":1}}',
    ],
  ])('in a body, %s', async (_, parts, request, expected) => {
    const { method, body: sent, headers } = (await received(parts, request)) ?? {};
    expect([method, headers?.['content-type'], sent]).toEqual(['POST', 'application/json', expected]);
  });

  const form = {
    request: { method: 'POST', path: '/logs', form: { since: '{since}', q: '{filter.q}', size: '{size}' } },
  };
  it.each([
    ['with its values', form, { filter: { q: 'a b&ü' } }, 'since=2026-11-20T02%3A00%3A00Z&q=a+b%26%C3%BC'],
    [
      'with the cursor',
      { ...form, next: { ...body, to: { form: 'since' } } },
      { cursor: asCursor('c+/=') },
      'since=c%2B%2F%3D',
    ],
    [
      'with the cursor alone',
      { ...form, next: { from: 'body', at: '/next', request: { form: { cursor: '{cursor}' } } } },
      { cursor: asCursor('c') },
      'cursor=c',
    ],
  ])('in a form, %s', async (_, parts, request, expected) => {
    const { method, body: sent, headers } = (await received(parts, request)) ?? {};
    expect([method, headers?.['content-type'], sent]).toEqual(['POST', 'application/x-www-form-urlencoded', expected]);
  });

  it('of GraphQL has the braces of its query, and the values of its variables', async () => {
    const query = 'query ($n: Int) { issues(first: $n) { nodes {id} pageInfo { hasNextPage } } }';
    const parts = { ...post({ query, variables: { n: '{size}', from: '{since}', after: null } }), dates: 'iso' };
    const next = { ...body, to: { body: '/variables/after' } };
    const first = await received({ ...parts, next }, { size: 5 });
    expect(JSON.parse(first?.body ?? '')).toEqual({
      query,
      variables: { n: 5, from: '2026-11-20T02:00:00Z', after: null },
    });
    const second = await received({ ...parts, next }, { cursor: asCursor('"c"') });
    expect(JSON.parse(second?.body ?? '')).toMatchObject({ query, variables: { after: 'c' } });
  });

  it('has the cursor in a header, and says what it accepts', async () => {
    const cursor = asCursor('c'.repeat(12_000));
    const page = { ...json, types: ['application/vnd.a+json', 'application/json'] };
    const sent = await received({ next: { ...body, to: { header: 'X-Continue' } }, page }, { cursor });
    expect(sent).toMatchObject({
      target: '/logs',
      headers: {
        'X-Continue': cursor,
        accept: 'application/vnd.a+json, application/json',
        Authorization: `Bearer ${trickyApiKey}`,
        // A cache may answer a GET with a page from before, and with the current date.
        'cache-control': 'no-cache',
      },
    });
    expect(sent?.headers).not.toHaveProperty('content-type');
  });

  it.each([
    ['a missing field beside the lower bound', { q: 'from {since} of {filter.kind}' }, {}],
    ['a missing field in the path', {}, {}, '/{filter.kind}'],
    ['an object in a text', { q: '{filter.kind}' }, { kind: {} }],
  ])('is not sent without all that selects its reports: %s', async (_, query, filter, path = '/logs') => {
    expect(await failureOf(received({ request: { path, query } }, { filter }))).toMatchObject({
      name: 'ConfigurationError',
    });
  });
});

const xml = (at: string, rest: object = {}) => ({
  next: { from: 'body', at, to: { query: 'cursor' }, ...rest },
  page: { format: 'xml', reports: '/r/i' },
});
const inBody = (rest: object, last?: object) => ({ next: { ...body, ...rest }, last });
const also = { alsoOnLast: true };
const inHeader = (last?: object) => ({ next: { from: 'header', at: 'X-Next', to: { query: 'cursor' } }, last });
const flagged = inBody({}, { at: '/more', is: false });
const flaggedLast = inBody({}, { at: '/isLast', is: true });
const connection = inBody({ at: '/info/cursor', ...also }, { at: '/info/more', is: false });
const streamed = inBody(also, { at: '/isLast', is: true });
const without = inBody({ at: '/paging/cursors/after', ...also }, [
  { at: '/paging/next', is: null },
  { at: '/paging', is: null },
]);
const withoutMore = inBody(also, { at: '/meta/more', is: null });
const sentry = { next: { ...link, ...also }, last: { parameter: 'results', is: 'false' } };
const selected = inBody({ at: '/link[relation=next]/url', to: 'url' });
const hal = "/_links/all[rel='next']/token";
const halLinks = inBody({ at: hal }, { at: hal, is: [null, 'none'] });
const lastReport = (last: object, at = '/id') => ({ next: { from: 'report', at, to: { query: 'after' } }, last });
const stripe = lastReport({ at: '/has_more', is: false });
const keyset = lastReport({ reports: 0 });
const lastElement = (at: string) => ({ ...lastReport({ reports: 0 }, at), page: { format: 'xml', reports: '/r/i' } });
const reports = (items: string, rest = ''): Parts => ({ body: `{"data":[${items}]${rest}}` });
const absentPart = inBody({ at: '/paging/next/after' }, { at: '/paging', is: null });
const cursorExpired = { at: '/error/code', is: 'expired' };
const rejecting = { when: { cursorExpired, error: { at: '/error' } } };
const sameIn = (request: object, rest: object = {}) => ({
  request: { path: '/logs', ...request },
  dates: 'epoch',
  ...inBody(rest, { at: '/next', is: '{cursor}' }),
});
const post = (inner: object) => ({ request: { method: 'POST', path: '/logs', body: inner }, dates: 'epoch' });
const atom = xml('/r/link[@rel=next]/@href', { to: 'url' });
const linked = (value: string): Parts => ({ body: '{"data":[]}', headers: { link: value } });
const headed = (value: string): Parts => ({ body: '{"data":[]}', headers: { 'x-next': value } });
const data = (rest: string): Parts => ({ body: `{"data":[],${rest}}` });
const item = (rest: string): Parts => ({ body: `<r><i/>${rest}</r>` });
const sent = (cursor: string) => ({ cursor: asCursor(cursor) });

describe('the next page', () => {
  it.each<[string, object, Parts, string | null, RequestParts?]>([
    ['is in a header', inHeader(), headed(' a b '), 'a b'],
    ['has a header without a value, which means the end', inHeader({ header: 'X-Next', is: '' }), headed(''), null],
    ['is at a relative link', byLink, linked('<?after=2>; rel="next"'), '/logs?after=2'],
    ['is at an absolute path', byLink, linked('</eu/logs?after=%2C>; rel=next'), '/eu/logs?after=%2C'],
    ['is at a path with two slashes', byLink, linked('<//logs//a>; rel=other, <//a:b>; rel=c'), null],
    ['has spaces around its relation', byLink, linked('<?a> ; rel = "Next"'), '/logs?a'],
    ['is in a list with empty elements', byLink, linked(', <?a>; rel=prev, ,<?b>; rel=next'), '/logs?b'],
    ['has two relations', byLink, linked('<?a>; rel="next https://example.com/next"'), '/logs?a'],
    ['has a relation with an escape', byLink, linked('<?a>; rel="ne\\xt"'), '/logs?a'],
    [
      'is not at other relations',
      byLink,
      linked('<?a>; rel="next-archive", <?b>; rel=next_page, <?c>; rel="https://example.com/nextest"'),
      null,
    ],
    ['is not what an anchor says', byLink, linked('<?a>; rel=prev; anchor="?next"'), null],
    [
      'is at a relation that is a URI',
      { next: { ...link, at: 'https://example.com/next' } },
      linked('<?a>; rel="https://example.com/NEXT"'),
      '/logs?a',
    ],
    [
      'is one of several links, whose values contain commas',
      byLink,
      linked('</1,2>; title="a, <b>; \\"c"; rel=prev , <?b,c>; x; rel="last Next"; title="z",</3>;rel=first'),
      '/logs?b,c',
    ],
    ['is beside a relation in quotes', byLink, linked('<?b>; title="x; rel=prev"; rel=next'), '/logs?b'],
    ['is not what a title says', byLink, linked('<?b>; title="x; rel=next"; rel=prev'), null],
    [
      'is at another relation',
      { next: { ...link, at: 'following' } },
      linked('<?a>; rel=next, <?b>; rel=following'),
      '/logs?b',
    ],
    [
      'is a link to itself, which core refuses as a cycle',
      byLink,
      linked('<?a>; rel=next'),
      '/logs?a',
      sent('/logs?a'),
    ],
    ['is a number in JSON', {}, data('"next":12345678901234567890'), '12345678901234567890'],
    [
      'is as long as what is stored may be',
      { ...inBody({ to: { body: '/c' } }), ...post({}) },
      data(`"next":"${'ä'.repeat(10_922)}"`),
      `"${'\\u00e4'.repeat(10_922)}"`,
    ],
    [
      'keeps its type for the body',
      { ...inBody({ to: { body: '/c' } }), request: { method: 'POST', path: '/logs' } },
      data('"next":"é\\n1"'),
      String.raw`"\u00e9\n1"`,
    ],
    ['is not announced, and empty', flagged, data('"next":"","more":false'), null],
    ['is announced by a flag that is true at the end', flaggedLast, data('"next":"a","isLast":false'), 'a'],
    [
      'is a cursor that the API calls an offset',
      inBody({ to: { query: 'offset' } }),
      data('"next":"itr1/rec2"'),
      'itr1/rec2',
    ],
    ['is null on the last page, which has a flag', connection, data('"info":{"cursor":null,"more":false}'), null],
    ['is an object on the last page, which has a flag', streamed, data('"next":{},"isLast":true'), null],
    ['is there beside a flag that is true at the end', streamed, data('"next":"a","isLast":false'), 'a'],
    ['is not there, like all that contains the other field', without, data('"x":1'), null],
    ['is not announced by a field that is null', withoutMore, data('"next":"a","meta":{"more":null}'), null],
    ['is announced by a parameter of the link', sentry, linked('<?a>; Results="true"; rel=next'), '/logs?a'],
    [
      'is not announced by a parameter of the link',
      sentry,
      linked('<?p>; rel=previous; results="true", <?a>; rel=next; results="false"; cursor="0:1:0"'),
      null,
    ],
    [
      'is in a selected item',
      selected,
      data('"link":[{"relation":"self","url":"?s"},{"url":"?a","relation":"next"}]'),
      '/logs?a',
    ],
    ['is in no item', selected, data('"link":[{"relation":"self","url":"?s"},{"url":"?x"},"next",[1]]'), null],
    ['is in an item, in which it is null', selected, data('"link":[{"relation":"next","url":null}]'), null],
    [
      'is in an item that has more, and means the end',
      halLinks,
      data('"_links":{"all":[{"rel":{"rel":"next"}},{"x":[{"rel":"next"}],"rel":"next","token":"none"}]}'),
      null,
    ],
    ['is in the last report', stripe, reports('{"id":"a"},{"id":"b","sub":{"id":"c"}}', ',"has_more":true'), 'b'],
    ['is in no report, of the last page', stripe, reports('', ',"has_more":false'), null],
    [
      'is in the last report, after the flag',
      stripe,
      { body: '{"has_more":true,"data":[{"id":7},{"id":12345678901234567890}]}' },
      '12345678901234567890',
    ],
    ['is inside the last report', lastReport({ reports: 0 }, '/a/~1b'), reports('{"a":{"/b":"x"}}'), 'x'],
    [
      'is in the last report, and keeps its type for the body',
      { ...post({}), ...keyset, next: { ...keyset.next, to: { body: '/after' } } },
      reports('{"id":"é"}'),
      String.raw`"\u00e9"`,
    ],
    [
      'is in the last element',
      lastElement('/id'),
      { body: '<r><i><id>1</id></i><id>3</id><i><id>2</id></i></r>' },
      '2',
    ],
    ['is an attribute of the last element', lastElement('/@id'), { body: '<r><i id="1"/><i id="2"/></r>' }, '2'],
    ['has null in the place of all that contains it', absentPart, data('"paging":null'), null],
    [
      'is absent or empty, like all that contains it',
      inBody({ at: '/p/next' }, { at: '/p', is: null }),
      data('"p":null'),
      null,
    ],
    ['is empty, in what contains it', inBody({ at: '/p/next' }), data('"p":{"next":""}'), null],
    [
      'is that of the first page, a placeholder',
      sameIn({ query: { cursor: '{since}' } }),
      data('"next":1795140000'),
      null,
    ],
    [
      'is that of the first page, inside the body',
      sameIn({ method: 'POST', body: { a: [{ b: '*' }] } }, { to: { body: '/a/0/b' } }),
      data('"next":"*"'),
      null,
    ],
    [
      'is that of the first page, in XML and in the body',
      {
        ...xml('/r/next', { to: { body: '/b' } }),
        ...post({ b: '*' }),
        last: { at: '/r/next', is: '{cursor}' },
      },
      item('<next>*</next>'),
      null,
    ],

    ['is a URL in JSON', inBody({ to: 'url' }), data('"next":"logs?ä=ü&b=%C3%BC"'), '/logs?%C3%A4=%C3%BC&b=%C3%BC'],
    [
      'is in XML with line breaks around',
      { ...xml('/r/next'), last: { at: '/r/m', is: false } },
      item('<m> true</m><next>\n a b\n</next>'),
      'a b',
    ],
    ['is nothing but a line break', xml('/r/next'), item('<next>\n</next>'), null],
    [
      'is a URL in XML',
      atom,
      item('<link rel="self" href="?a"/><link href="?b=1&amp;c=%26" rel="next"/>'),
      '/logs?b=1&c=%26',
    ],
    [
      'is announced by XML',
      { ...xml('/r/next'), last: { at: '/r/@more', is: false } },
      { body: '<r more="true"><i/><next>a</next></r>' },
      'a',
    ],
  ])('%s', async (_, parts, response, cursor, request) => {
    expect((await fetchFrom(parts, response, request)).next).toBe(cursor);
  });

  it('is at an absolute URL, also if its path has two slashes', async () => {
    for (const [path, value] of [
      ['/logs?after=2', 'HTTP://HOST/a/../logs?after=2#x'],
      ['//logs', 'http://HOST//logs'],
    ] as const) {
      await using server = await startRawServer((socket, { headers }) => {
        const target = value.replace('HOST', headers.host ?? '');
        socket.write(
          rawResponse({ ...ok, headers: { 'content-type': 'application/json', link: `<${target}>; rel=next` } }),
        );
      });
      await using client = clientFor(server, { api: apiOf(byLink) });
      const fetched = await fetchPage(client, pageRequest());
      expect(fetched.nextCursor).toBe(path);
      // The next page is requested there, and its links lead on from there.
      const second = await fetchPage(client, pageRequest({ cursor: asCursor(path) }));
      expect([second.nextCursor, server.requests[1]?.target]).toEqual([path, path]);
    }
  });

  it.each<[string, object, Parts, string, RequestParts?]>([
    ['is at a URL that is not ASCII', byLink, linked('<?name=é>; rel=next'), 'not printable ASCII'],
    ['is at an empty link', byLink, linked('<>; rel=next'), 'is empty'],
    ['is at another host, without a scheme', byLink, linked('<//example.com/logs>; rel=next'), 'leads to'],
    ['is at another host, with backslashes', byLink, linked('<\\\\example.com/logs>; rel=next'), 'leads to'],
    ['is at another port', byLink, linked('<http://127.0.0.1:1/logs>; rel=next'), 'leads to http://127.0.0.1:1'],
    ['is at another scheme', byLink, linked('<https://127.0.0.1/logs>; rel=next'), 'leads to https://127.0.0.1'],
    ['is at a URL of no server', byLink, linked('<javascript:0>; rel=next'), 'leads to null'],
    ['is no URL', byLink, linked('<http://[>; rel=next'), 'not a URL'],
    ...[
      '?a; rel=next',
      '<?a; rel=next',
      '<?a>; rel="next',
      '<?a>; rel=next; ',
      '<?a> rel=next',
      '<?a>; rel=next <?b>',
    ].map((value): [string, object, Parts, string] => [
      `is in an invalid header: ${value}`,
      byLink,
      linked(value),
      'Link is not valid',
    ]),
    ...[
      `<?a>; rel='next'`,
      `<?a>; rel='prev next'`,
      `<?a>; rel="'next'"`,
      '<?a>; rel="prev,next"',
      '<?a>; rel="prev;next"',
      String.raw`<?a>; rel="\"next\""`,
      '<?a>; rel="http://www.iana.org/assignments/relation/next"',
      '<?a>; rel=urn:example:next',
      // RFC 8288 ignores all but the first one, and some readers all but the last.
      '<?a>; rel=prev; rel=next',
      `<?a>; rel*=UTF-8''next`,
      '<?a>; rel=prev; REL*=next',
      '<?a>; rel=next; anchor="/other"',
    ].map((value): [string, object, Parts, string] => [
      `is in a header that may mean it: ${value}`,
      byLink,
      linked(value),
      'the header Link',
    ]),
    [
      'is in an invalid header that takes no longer to read than others',
      byLink,
      linked(`<?a>${'; a= '.repeat(2_000)}"`),
      'Link is not valid',
    ],
    ['contains the key', {}, data(`"next":"x${Buffer.from(trickyApiKey).toString('base64')}"`), 'contains the API key'],
    [
      'is a URL with the key',
      byLink,
      linked(`<?k=${encodeURIComponent(trickyApiKey)}>; rel=next`),
      'contains the API key',
    ],
    [
      'has no place in what its place is in',
      inBody({ at: '/meta/paging/next' }),
      data('"meta":{}'),
      'set api.last to {"at": "/meta/paging", "is": null}',
    ],
    ...[' a', 'a '].map((cursor): [string, object, Parts, string] => [
      `is sent in a header, which loses the space of "${cursor}"`,
      inBody({ at: '/next', to: { header: 'X-Cursor' } }),
      data(`"next":"${cursor}"`),
      'begins or ends with a space, which the header in api.next.to cannot have',
    ]),
    [
      'is too long as the JSON that is stored',
      { ...inBody({ to: { body: '/cursor' } }), ...post({}) },
      data(`"next":"${'ä'.repeat(10_923)}"`),
      'the cursor is longer than 65536 characters',
    ],
    [
      'is too long as the URL that is stored',
      inBody({ to: 'url' }),
      data(`"next":"?${'ä'.repeat(10_923)}"`),
      'the cursor is longer than 65536 characters',
    ],
    [
      'is in a part of which more is absent than the description says',
      inBody({ at: '/a/b/next' }, { at: '/a/b', is: null }),
      data('"x":1'),
      'nothing says whether it is the last page',
    ],
    [
      'is in two items',
      selected,
      data('"link":[{"relation":"next","url":"?a"},{"relation":"next","url":"?a"}]'),
      'two values',
    ],
    ['is missing in its item', selected, data('"link":[{"relation":"next"}]'), 'no value at /link[relation=next]/url'],
    ['is in no list', selected, data('"link":{"relation":"next","url":"?a"}'), 'has no value at /link'],
    ['is twice in its item', selected, data('"link":[{"relation":"next","url":"?a","url":"?b"}]'), 'two values'],
    ['is a boolean in the last report', keyset, reports('{"id":true}'), 'the last report has no text'],
    ['is in a report that is no object', keyset, reports('{"id":"a"},"b"'), 'the last report has no text'],
    ['has a flag that is a number', flagged, data('"next":null,"more":0'), 'but is not the last page'],
    ['has no place in XML', xml('/r/l/next'), item(''), 'nothing says whether'],
  ])('is a ContractError if it %s', async (_, parts, response, message, request) => {
    expect(await failureOf(fetchFrom(parts, response, request))).toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining(message),
    });
  });

  it.each([
    ['header', inHeader(), 'X-Next: a'],
    ['link', byLink, 'Link: <?a>; rel=next'],
  ])('is a ContractError if it follows the body: %s', async (_, parts, trailer) => {
    const head = rawResponse({
      headers: { 'content-type': 'application/json', trailer: 'x-next, link' },
      body: '',
      framing: 'chunked',
    });
    const start = head.subarray(0, head.indexOf('\r\n\r\n') + 4);
    const response = Buffer.concat([start, chunk('{"data":[]}'), Buffer.from(`0\r\n${trailer}\r\n\r\n`)]);
    expect(await failureOf(fetchFrom(parts, response))).toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining('follows the body'),
    });
  });
});

const judged = (when: object) => ({ when });
const oai = {
  next: {
    from: 'body',
    at: '/OAI-PMH/ListRecords/resumptionToken',
    to: { query: 'token' },
  },
  page: {
    format: 'xml',
    reports: '/OAI-PMH/ListRecords/record',
  },
  when: {
    cursorExpired: { at: '/OAI-PMH/error/@code', is: 'badResumptionToken' },
    error: { at: '/OAI-PMH/error/@code', not: 'noRecordsMatch' },
    empty: { at: '/OAI-PMH/error/@code', is: 'noRecordsMatch' },
  },
};
const withErrors = judged({ error: { at: '/errors' } });
const total = judged({ empty: { at: '/total', is: '0' } });
const noContent = (parts: object = {}) => ({ next: link, ...parts, when: { empty: { status: 204 } } });
const empty204: Parts = { status: 204, body: '' };
const oaiError = (code: string): Parts => ({ body: `<OAI-PMH><request/><error code="${code}">No.</error></OAI-PMH>` });
const of = (format: string, rest: object = {}) => ({ next: link, page: { format, ...rest } });
const pdf = of('bytes', { types: ['application/pdf'] });

describe('counted pages', () => {
  const request = { path: '/logs', query: { since: '{since}', until: '{until}' } };
  const counting = (next: object, rest: object = {}) => ({
    request,
    next: { from: 'count', to: { query: 'page' }, total: '/total', ...next },
    ...rest,
  });
  const pages = counting({});
  const unconfirmed = counting({ confirm: false });
  const offsets = counting({ to: { query: 'skip' }, first: 0, step: 'reports', total: { header: 'X-Total-Count' } });
  const inXml = counting({ total: '/r/@total' }, { page: { format: 'xml', reports: '/r/i' } });
  const csv = { ...offsets, page: { format: 'csv' } };
  const page = (count: number, total: unknown): Parts => ({
    body: JSON.stringify({ data: Array(count).fill({}), total }),
  });
  const until = { until: '2026-11-20T00:00:00Z' };
  const headed = (body: string, total: string): Parts => ({ body, headers: { 'x-total-count': total } });

  it.each<[string, object, Parts, string | null, string?]>([
    ['begin with the first', pages, page(2, 5), '2 (2 of 5 by 2)'],
    ['continue', pages, page(2, 5), '3 (4 of 5 by 2)', '2 (2 of 5 by 2)'],
    ['have an end, which is confirmed', pages, page(1, 5), '4 (5 of 5 by 2)', '3 (4 of 5 by 2)'],
    ['end with a page that has no reports', pages, page(0, 5), null, '4 (5 of 5 by 2)'],
    ['end with the total, if nothing confirms it', unconfirmed, page(1, 5), null, '3 (4 of 5 by 2)'],
    ['end with the first one', unconfirmed, page(2, '2'), null],
    ['have no reports', pages, page(0, 0), null],
    ['are rows that are skipped', offsets, headed('{"data":[1,2,3]}', '5'), '3 (3 of 5 by 3)'],
    ['are further rows that are skipped', offsets, headed('{"data":[1]}', '5'), '5 (5 of 5 by 4)', '4 (4 of 5 by 4)'],
    ['are in XML', inXml, { body: '<r total="3"><i/></r>' }, '2 (1 of 3 by 1)'],
    ['are in CSV', csv, headed('id\n1\n', '3'), '1 (1 of 3 by 1)'],
    ['have the size as their step', counting({ step: 2 }), page(2, 5), '3 (2 of 5 by 2)'],
  ])('%s', async (_, parts, response, next, cursor) => {
    expect((await fetchFrom(parts, response, { ...until, ...(cursor && sent(cursor)) })).next).toBe(next);
  });

  it('are requested by their number, also the first one', async () => {
    const numbers = async (parts: object, cursor?: string) => {
      const { received: one } = await fetchFrom(parts, headed('{"data":[1],"total":9}', '9'), {
        ...until,
        ...(cursor && sent(cursor)),
      });
      return [new URLSearchParams(one?.target.split('?')[1]).get('skip'), one?.body];
    };
    expect(await numbers(offsets)).toEqual(['0', '']);
    expect(await numbers(offsets, '7 (7 of 9 by 1)')).toEqual(['7', '']);
    const inBody = counting(
      { to: { body: '/page/number' } },
      { request: { method: 'POST', path: '/', body: request.query } },
    );
    expect(JSON.parse((await numbers(inBody, '2 (1 of 9 by 1)'))[1] ?? '')).toMatchObject({ page: { number: 2 } });
  });

  it.each<[string, object, Parts, string, string]>([
    ['the last page has another total', pages, page(1, 4), 'the total is 4, and was 5', '2 (3 of 5 by 3)'],
    ['a page has no reports', pages, page(0, 5), 'has no reports, but only 2 of 5', '2 (2 of 5 by 2)'],
    [
      'there are more than the total',
      offsets,
      headed('{"data":[1,2]}', '3'),
      'all pages have 4, but',
      '2 (2 of 3 by 2)',
    ],
    ['a page in the middle is shorter', offsets, headed('{"data":[1]}', '9'), 'page 1 has 4', '4 (4 of 9 by 4)'],
    ['a page is longer', pages, page(3, 5), 'page 1 has 2', '2 (2 of 5 by 2)'],
    [
      'the page after the last one has reports',
      pages,
      page(2, 4),
      'all 4 had been received. If the API repeats',
      '3 (4 of 4 by 2)',
    ],
  ])('do not add up, so that the run starts over: %s', async (_, parts, response, message, cursor) => {
    const error = await failureOf(fetchFrom(parts, response, { ...until, ...sent(cursor) }));
    expect(error).toMatchObject({ name: 'CursorRejectedError', message: expect.stringContaining(message) });
    expect(error.message).toContain('the counted pages do not add up: ');
  });

  it.each<[string, object, Parts, string, string?]>([
    ['have no total', pages, { body: '{"data":[1]}' }, 'no whole number as its total at /total'],
    ['have no total later', pages, { body: '{"data":[1]}' }, 'no whole number as its total', '2 (2 of 5 by 2)'],
    ['have no number as their total', pages, page(1, 'many'), 'no whole number as its total at /total, which is many'],
    ['have an object as their total', pages, page(1, { value: 2 }), 'no whole number as its total'],
    ['have a negative total', pages, page(1, -1), 'no whole number as its total at /total, which is -1'],
    [
      'have two headers',
      offsets,
      headed('{"data":[1]}', '5, 5'),
      'as its total in the header X-Total-Count, which is 5, 5',
    ],
    [
      'have none on the first page, but a total',
      pages,
      page(0, 5),
      'no reports, but only 0 of 5 have been received. Check',
    ],
    [
      'have more than the total on the first page',
      pages,
      page(3, 2),
      'all pages have 3, but the total is 2. Check next.first',
    ],
    ['have another size than their step', counting({ step: 4 }), page(2, 5), 'it has 2 reports, but next.step is 4'],
    ['have no list', pages, { body: '{"total":0}' }, 'nothing that contains reports'],
    [
      'have no content, but a total',
      { ...offsets, when: { empty: { status: 204 } } },
      { status: 204, body: '', headers: { 'x-total-count': '5' } },
      'it has no reports, but only 0 of 5 have been received',
    ],
  ])('are refused if they %s', async (_, parts, response, message, cursor) => {
    const error = await failureOf(fetchFrom(parts, response, { ...until, ...(cursor && sent(cursor)) }));
    expect(error).toMatchObject({ name: 'ContractError', message: expect.stringContaining(message) });
  });
});

describe('a rejected cursor', () => {
  const counted = {
    request: { path: '/logs', query: { since: '{since}', until: '{until}' } },
    next: { from: 'count', to: { query: 'page' }, total: '/total' },
  };
  const expired: Parts = { body: '{"error":{"code":"expired"}}' };
  const oaiExpired = oaiError('\n badResumptionToken');

  it.each<[string, object, Parts]>([
    ['in XML, with white space around', oai, oaiExpired],
    ['in a page', { when: { cursorExpired } }, data('"error":{"code":"expired"}')],
    ['where the next page is a link', { ...rejecting, next: link }, expired],
  ])('is a CursorRejectedError: %s', async (_, parts, response) => {
    expect(await failureOf(fetchFrom(parts, response, sent('/t')))).toMatchObject({
      name: 'CursorRejectedError',
      message: expect.stringContaining('no longer accepts the cursor'),
    });
  });

  it.each<[string, object, number, RequestParts, string]>([
    [
      'in a parameter',
      {},
      410,
      sent('t'),
      'GET URL/logs rejected the cursor, which may have expired. If every run fails here, check next.at and next.to',
    ],
    [
      'that is the number of a page',
      counted,
      404,
      { ...sent('2 (1 of 9 by 1)'), until: '2026-11-20T00:00:00Z' },
      'URL/logs has no page of this number. Reports may have been deleted meanwhile, or the service limits how far pages are counted. If every run fails here, check next',
    ],
    [
      'that is a URL',
      { next: { from: 'body', at: '/next', to: 'url' } },
      404,
      sent('/logs?page=2'),
      'URL/logs, the address of the next page, does not exist. If every run fails here, check next.at',
    ],
    [
      'that is a link',
      byLink,
      410,
      sent('/logs'),
      'URL/logs, the address of the next page, was rejected. If every run fails here, check next.at',
    ],
  ])('is described as what the settings send: %s', async (_, parts, status, request, expected) => {
    const { message, url } = (await failureOf(fetchFrom(parts, { status, body: '' }, request))) as unknown as Error & {
      url: string;
    };
    expect(message.replaceAll(url, 'URL')).toBe(
      `Report service responded with ${status} for page 2 of run R: ${expected}`,
    );
  });

  it.each<[string, object, Parts, RequestParts?]>([
    ['without a cursor, in XML', oai, oaiExpired],
    ['with another error', rejecting, { body: '{"error":{"code":"other"}}' }, sent('t')],
    ['in a document that is cut off', rejecting, { body: '{"error":{"code":"expired"}' }, sent('t')],
    ['without a description', {}, expired, sent('t')],
  ])('is a ContractError %s', async (_, parts, response, request) => {
    expect(await failureOf(fetchFrom(parts, response, request))).toMatchObject({ name: 'ContractError' });
  });
});

describe('a page', () => {
  it.each<[string, object, Parts, number | null, string | null]>([
    ['without reports, but with a next page', {}, data('"next":"a"'), 0, 'a'],
    ['without reports as the description says', oai, oaiError('noRecordsMatch'), 0, null],
    ['without reports as the description says, with a next page', total, data('"total":0,"next":"a"'), 0, 'a'],
    ['without reports, with blanks around what says so', oai, oaiError(' noRecordsMatch\n'), 0, null],
    ['without reports and content, with the cursor in the body', noContent({ next: body }), empty204, 0, null],
    [
      'without reports and content, with another end',
      noContent(inHeader({ header: 'X-Next', is: ['null', null] })),
      { status: 204, body: '', headers: { 'content-encoding': 'gzip', 'content-type': '' } },
      0,
      null,
    ],
    [
      'of bytes without reports and content',
      { ...of('bytes', { types: ['a/b'] }), when: { empty: { status: 204 } } },
      empty204,
      0,
      null,
    ],
    ['with null in the place of an error', judged({ error: { at: '/error' } }), data('"error":null'), 0, null],
    ['of JSON that shows its end', {}, { body: '{"data":[1]}', framing: 'chunked' }, 1, null],
    ['of bytes', pdf, { body: '%PDF' }, null, null],
    [
      'of bytes in another charset',
      of('bytes', { types: ['text/plain'] }),
      { body: 'x', headers: { 'content-type': 'text/plain; charset=latin1' } },
      null,
      null,
    ],
    [
      'with a common alias of UTF-8',
      {},
      { ...ok, headers: { 'content-type': 'application/json; charset="utf8"' } },
      0,
      null,
    ],
  ])('%s', async (_, parts, response, reports, next) => {
    const fetched = await fetchFrom(parts, response);
    expect(fetched).toMatchObject({ reports, next });
  });

  it('without content has the content type of the description', async () => {
    const api = apiOf(noContent());
    const page = await pageFrom(
      rawResponse({ status: 204, body: '', headers: {} }),
      pageRequest({ api: apiOfRequest(describeApi(api)) }),
      { api },
    );
    expect(await readPage(page)).toBe('');
    expect(page).toMatchObject({ contentType: 'application/json', documentRoot: null });
  });

  it('of CSV has the document root of its first row', async () => {
    const api = apiOf(of('csv'));
    const page = await pageFrom(
      rawResponse({ headers: { 'content-type': 'text/csv' }, body: 'id,text\n' }),
      pageRequest({ api: apiOfRequest(describeApi(api)) }),
      { api },
    );
    expect([page.documentRoot, page.documentRootText()]).toEqual(['columns id,text', 'id,text']);
  });

  const html = '<!DOCTYPE html><html><body>Log in</body></html>';
  it.each<[string, object, Parts, string, RequestParts?]>([
    ['an error that quotes the key', withErrors, data(`"errors":${JSON.stringify(trickyApiKey)}`), 'an error: '],
    ['errors in a list', withErrors, data('"errors":[{"code":1}]'), 'an error: array at /errors'],
    ['another error than that there are no reports', oai, oaiError('badArgument'), 'an error: badArgument at'],
    // The page before has announced more.
    [
      'no reports after the first page',
      oai,
      oaiError('noRecordsMatch'),
      'nothing says whether it is the last page',
      sent('t'),
    ],
    ['a login page in place of bytes', pdf, { body: html, headers: { 'content-type': 'text/html' } }, 'content type'],
    ['another charset', {}, { ...ok, headers: { 'content-type': 'application/json; charset=latin1' } }, 'content type'],
    ['without a type', {}, { ...ok, headers: { 'content-type': '' } }, 'content type'],
    [
      'the key in its first row',
      of('csv'),
      { body: `id,${JSON.stringify(trickyApiKey).replaceAll('\\"', '""')}\n` },
      'contains the API key',
    ],
    ['NDJSON without a length', of('ndjson'), { body: '{}\n', framing: 'close' }, 'would go unnoticed'],
    ['CSV without a length', of('csv'), { body: 'a\n', framing: 'close' }, 'would go unnoticed'],
    ['bytes without a length', pdf, { body: 'x', framing: 'close' }, 'would go unnoticed'],
    ['no content', pdf, empty204, '204'],
    ['no content, where a document says that there are no reports', oai, empty204, '204'],
    ['a list that is not ready', {}, { ...ok, status: 202 }, '202'],
  ])('is a ContractError: %s', async (_, parts, response, message, request) => {
    expect(await failureOf(fetchFrom(parts, response, request))).toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining(message),
    });
  });
});
