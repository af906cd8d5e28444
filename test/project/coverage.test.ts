/** The translator of `npm run bench -- coverage`, with small manifests, and what its runs find wrong. */

import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type ManifestStream, streamsOf } from '../../bench/coverage/manifest.ts';
import { findFailure, startVendors } from '../../bench/coverage/measure.ts';
import { withoutLists } from '../../bench/coverage/requests.ts';
import { runTime, translate, type Translation } from '../../bench/coverage/translate.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const tickets = `
definitions:
  requester:
    type: HttpRequester
    url_base: https://{{ config['subdomain'] }}.vendor.example/v1/
    path: "{{ parameters['path'] }}"
    http_method: GET
    request_parameters: { sort: id, limit: "{{ config.page_size }}" }
    authenticator: { type: BearerAuthenticator, api_token: "{{ config['token'] }}" }
streams:
  - type: DeclarativeStream
    $parameters: { name: tickets, path: /tickets }
    retriever:
      type: SimpleRetriever
      requester: { $ref: "#/definitions/requester" }
      record_selector: { type: RecordSelector, extractor: { type: DpathExtractor, field_path: [data, items] } }
      paginator:
        type: DefaultPaginator
        page_token_option: { type: RequestOption, inject_into: request_parameter, field_name: after }
        pagination_strategy:
          type: CursorPagination
          cursor_value: "{{ response.get('meta', {}).get('next') }}"
          stop_condition: "{{ not response.meta.has_more }}"
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: updated_at
      datetime_format: "%Y-%m-%d"
      cursor_granularity: P1D
      start_datetime: "{{ config['start_date'] }}"
      start_time_option: { type: RequestOption, inject_into: request_parameter, field_name: from }
      end_time_option: { type: RequestOption, inject_into: request_parameter, field_name: to }
spec:
  connection_specification:
    properties:
      subdomain: { type: string, examples: [acme] }
      token: { type: string, airbyte_secret: true }
      page_size: { type: integer, default: 50 }
      start_date: { type: string, format: date-time }
`;

const ticketsSettings = {
  services: {
    vendor: {
      baseUrl: 'https://acme.vendor.example',
      api: { auth: { kind: 'key', send: { Authorization: 'Bearer {secret.token}' } } },
    },
  },
  exports: [
    {
      name: '0-tickets',
      since: { initial: '2026-11-01T00:00:00Z' },
      api: {
        request: { path: '/v1/tickets', query: { sort: 'id', limit: '50', from: '{since}', to: '{until-1}' } },
        dates: { form: 'yyyy-MM-dd', zone: 'UTC' },
        next: { from: 'body', at: '/meta/next', to: { query: 'after' } },
        last: { at: '/meta/has_more', is: false },
        page: { format: 'json', reports: '/data/items/*' },
      },
    },
  ],
};

/** A stream without pages, with these lines in its retriever and its requester. */
const single = (retriever: string, requester = '', after = '') => `
definitions:
  stream:
    type: DeclarativeStream
    name: things
    retriever:
      type: SimpleRetriever
      requester: { type: HttpRequester, url_base: "https://vendor.example", path: /things, ${requester} }
      record_selector: { type: RecordSelector, extractor: { type: DpathExtractor, field_path: [things] } }
${retriever}
streams:
  - $ref: "#/definitions/stream"
${after}`;

const paginator = (
  strategy: string,
  option = 'type: RequestOption, inject_into: request_parameter, field_name: page',
) => `
      paginator:
        type: DefaultPaginator
        page_token_option: { ${option} }
        pagination_strategy: { ${strategy} }`;

const comments = `
  - type: DeclarativeStream
    name: comments
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: https://vendor.example
        path: "/things/{{ stream_partition.thing }}/comments"
      record_selector: { type: RecordSelector, extractor: { type: DpathExtractor, field_path: [] } }
      partition_router:
        type: SubstreamPartitionRouter
        parent_stream_configs:
          - { parent_key: id, partition_field: thing, stream: { $ref: "#/definitions/stream" } }`;

const lastOf = (manifest: string): ManifestStream => streamsOf('source-vendor', manifest).at(-1) as ManifestStream;

function translated(manifest: string): Translation {
  const outcome = translate(lastOf(manifest));
  if (!('translation' in outcome)) throw new Error(outcome.reasons.join());
  return outcome.translation;
}

async function failureOf(
  manifest: string,
  translation: Translation = translated(manifest),
): Promise<string | undefined> {
  await using vendors = await startVendors();
  await using directory = await temporaryDirectory();
  return await findFailure(lastOf(manifest), translation, { vendors, out: join(directory.path, 'run') });
}

/** A description with another API of its last export. */
const withApi = ({ settings, ...others }: Translation, api: object): Translation => {
  const [last, ...before] = settings.exports.toReversed();
  const changed = { ...last, name: last?.name ?? '', api: { ...(last?.api as object), ...api } };
  return { ...others, settings: { ...settings, exports: [...before.toReversed(), changed] } };
};

it('translates references, parameters, settings, dates, a cursor and a flag', async () => {
  expect(translated(tickets)).toMatchObject({ settings: ticketsSettings, secret: { token: 'a-token' } });
  expect(await failureOf(tickets)).toBeUndefined();
});

it('translates parents to those of another export', async () => {
  const manifest = single(
    paginator('type: CursorPagination, cursor_value: "{{ response.next }}"', 'type: RequestPath'),
    '',
    comments,
  );
  expect(translated(manifest).settings.exports).toMatchObject([
    { name: '0-things', api: { next: { from: 'body', at: '/next', to: 'url' } } },
    {
      name: '1-comments',
      parents: { export: '0-things', id: '/id' },
      api: { request: { path: '/things/{parent}/comments' }, next: { from: 'none' } },
    },
  ]);
  expect(await failureOf(manifest)).toBeUndefined();
});

it.each([
  ["cursor_value: \"{{ headers['link']['next']['url'] }}\"", { from: 'link' }, undefined],
  ['cursor_value: "{{ headers[\'X-Next\'] }}"', { from: 'header', at: 'X-Next', to: { query: 'page' } }, undefined],
  [
    'cursor_value: "{{ last_record[\'key\'] }}", stop_condition: "{{ last_page_size == 0 }}"',
    { from: 'report', at: '/key', to: { query: 'page' } },
    { reports: 0 },
  ],
  [
    'cursor_value: "{{ response.next if response.more else None }}"',
    { from: 'body', at: '/next', to: { query: 'page' } },
    { at: '/more', is: false },
  ],
  [
    'cursor_value: "{{ response.next | regex_search(\'page=([^&]+)\') }}"',
    { from: 'body', at: '/next', to: { query: '*' } },
    undefined,
  ],
])('translates pages with %s', async (strategy, next, last) => {
  const option = 'link' === next.from ? 'type: RequestPath' : undefined;
  const manifest = single(paginator(`type: CursorPagination, ${strategy}`, option));
  expect(translated(manifest).settings.exports.at(-1)?.api).toMatchObject({ next, ...(last && { last }) });
  expect(await failureOf(manifest)).toBeUndefined();
});

it.each([
  ['type: PageIncrement, start_from_page: 1, inject_on_first_request: true', 'id', { by: '/id' }],
  ['type: PageIncrement', '[[meta, key]]', { first: 0, by: '/meta/key' }],
  ['type: PageIncrement', '[a, b]', { first: 0, by: ['/a', '/b'] }],
  ['type: PageIncrement', '""', { first: 0, by: '' }],
])('translates pages that are counted by %s', async (strategy, key, parts) => {
  const manifest = single(paginator(strategy)).replace('name: things', `name: things\n    primary_key: ${key}`);
  const next = { from: 'count', to: { query: 'page' }, proof: 'twice', ...parts };
  expect(translated(manifest).settings.exports.at(-1)?.api).toMatchObject({ next });
  expect(await failureOf(manifest)).toBeUndefined();
});

it('translates an offset, unless it is sent as the number of a page', async () => {
  const manifest = (name: string) => {
    const pages = paginator(
      'type: OffsetIncrement, page_size: 100',
      `inject_into: request_parameter, field_name: ${name}`,
    );
    return single(pages).replace('name: things', 'name: things\n    primary_key: id');
  };
  const next = { to: { query: 'offset' }, first: 0, step: 'reports' };
  expect(translated(manifest('offset')).settings.exports.at(-1)?.api).toMatchObject({ next });
  expect(await failureOf(manifest('offset'))).toBeUndefined();
  expect(await failureOf(manifest('page'))).toContain('must be 1 if page counts pages');
});

it('translates an offset that a response says with the size of its pages', async () => {
  const stop = "{{ response.get('isLast') or response.startAt + response.maxResults >= response.get('total') }}";
  const cursor = "{{ response.get('startAt') + response['maxResults'] }}";
  const strategy = `type: CursorPagination, cursor_value: "${cursor}", stop_condition: "${stop}"`;
  const manifest = single(paginator(strategy, 'inject_into: request_parameter, field_name: from'));
  const translation = translated(manifest);
  const next = { from: 'count', first: 0, step: 'reports', proof: 'twice', by: '', to: { query: 'from' } };
  expect(translation.settings.exports.at(-1)?.api).toMatchObject({ next });
  expect(await failureOf(manifest)).toBeUndefined();
  const wrong = withApi(translation, { next: { ...next, step: 1 } });
  expect(await failureOf(manifest, wrong)).toMatch(/^pages: refused GET \/things\?from=1: /);
});

it.each([
  [
    "'{{ next_page_token['next_page_token'] or '0' }},50'",
    { query: { q: '{cursor},50' } },
    { first: 0, step: 'reports' },
  ],
  [
    'from t where at > \'{{ stream_slice.start_time[:-2] + ":" + stream_slice.start_time[-2:] }}\' startposition {{ (next_page_token.next_page_token or 0) + 1 }}',
    { query: { q: "from t where at > '{since}:00' startposition {cursor}" } },
    { first: 1, step: 'reports' },
  ],
])('translates a number in a text of the request: %s', async (text, request, next) => {
  const pages = `
      paginator:
        type: DefaultPaginator
        pagination_strategy: { type: OffsetIncrement, page_size: 50 }`;
  const dates = `    incremental_sync:
      type: DatetimeBasedCursor
      datetime_format: "%Y-%m-%dT%H:%M:%S%z"
      start_datetime: "2026-11-01T00:00:00+0000"
`;
  const parameters = `request_parameters: { q: ${JSON.stringify(text)} }`;
  const manifest = single(pages, parameters).replace('streams:', `${dates}streams:`);
  const { api } = translated(manifest).settings.exports.at(-1) as unknown as {
    readonly api: { readonly next: object };
  };
  expect(api).toMatchObject({ request, next });
  expect(api.next).not.toHaveProperty('to');
  expect(await failureOf(manifest)).toBeUndefined();
});

/** A token for a GET with a key in a header. */
const loginAt = (
  host: string,
  parts = 'http_method: GET, authenticator: { type: ApiKeyAuthenticator, api_token: "{{ config[\'api_key\'] }}", inject_into: { inject_into: header, field_name: X-Key } }',
) =>
  [
    'authenticator: { type: SessionTokenAuthenticator, session_token_path: [a, token]',
    'request_authentication: { type: Bearer }',
    `login_requester: { url_base: "https://${host}/auth", path: token, ${parts} } }`,
  ].join(', ');

it.each([
  [undefined, { headers: { 'X-Key': '{secret.api_key}' } }],
  [
    'http_method: POST, authenticator: { type: BasicHttpAuthenticator, username: a, password: "{{ config[\'api_key\'] }}" }',
    { headers: { Authorization: 'Basic {secret.basic}' }, form: {} },
  ],
])('translates a login with the key in a header: %s', async (request, parts) => {
  const manifest = single('', loginAt('vendor.example', request));
  const auth = { kind: 'login', path: '/auth/token', ...parts, token: '/a/token' };
  expect(Object.values(translated(manifest).settings.services)).toMatchObject([{ api: { auth } }]);
  expect(await failureOf(manifest)).toBeUndefined();
});

it.each([
  [undefined, { headers: { 'X-Key': '{secret.api_key}' } }],
  [
    'http_method: POST, authenticator: { type: NoAuth }, request_body_data: { grant: x, key: "{{ config[\'api_key\'] }}" }',
    { form: { grant: 'x', key: '{secret.api_key}' } },
  ],
])('translates a login at another host: %s', async (request, parts) => {
  const manifest = single('', loginAt('login.example', request));
  const translation = translated(manifest);
  const auth = { kind: 'login', url: 'https://login.example/auth/token', ...parts };
  expect(Object.values(translation.settings.services)).toMatchObject([{ api: { auth } }]);
  expect(await failureOf(manifest)).toBeUndefined();
  const elsewhere = JSON.parse(JSON.stringify(translation).replace('login.example', 'other.example')) as Translation;
  expect(await failureOf(manifest, elsewhere)).toMatch(/^pages: .* it rejects the login.*The header authorization/);
  const other = { ...translation, secret: { api_key: 'another key' } };
  expect(await failureOf(manifest, other)).toMatch(/^pages: .* it rejects the login.*The login is another one/);
});

it.each([
  'request_parameters: { key: "{{ config[\'api_key\'] }}" }',
  'authenticator: { type: ApiKeyAuthenticator, api_token: "{{ config[\'api_key\'] }}", inject_into: { type: RequestOption, inject_into: request_parameter, field_name: key } }',
])('translates a key in the query: %s', async (requester) => {
  const manifest = single(
    paginator('type: CursorPagination, cursor_value: "{{ response.next }}"', 'type: RequestPath'),
    requester,
  );
  const auth = { kind: 'key', query: { key: '{secret.api_key}' } };
  expect(Object.values(translated(manifest).settings.services)).toMatchObject([{ api: { auth } }]);
  expect(await failureOf(manifest)).toBeUndefined();
});

it.each([
  [
    single('', '').replace('path: /things', 'path: "/{{ config[\'api_key\'] }}/things"'),
    ['a secret in the path of the URL'],
  ],
  [
    single('', 'authenticator: { type: CustomAuthenticator, class_name: some.Login }'),
    ['custom Python component: Login'],
  ],
  [
    single(paginator('type: CursorPagination, cursor_value: "{{ response.page + 1 }}"')),
    ['a cursor that is calculated'],
  ],
  [
    single(paginator('type: CursorPagination, cursor_value: "{{ response.prefix + response.key }}"')),
    ['a cursor that is put together'],
  ],
  [
    single(
      paginator('type: CursorPagination, cursor_value: "{{ response.c }}", stop_condition: "{{ last_page_size < 9 }}"'),
    ),
    ['an end at a short page'],
  ],
  [single('      decoder: { type: XmlDecoder }'), ['responses of a XmlDecoder']],
  ['streams: [{ type: DeclarativeStream, retriever: { type: AsyncRetriever } }]', ['reports of jobs (not built)']],
  [
    'streams: [{ type: DeclarativeStream, retriever: { type: AsyncRetriever, download_decoder: { class_name: a.Lines } } }]',
    ['custom Python component: Lines', 'reports of jobs (not built)'],
  ],
])('names the reason why a stream is not described, %#', (manifest, reasons) => {
  expect(translate(lastOf(manifest)).reasons).toEqual(reasons);
});

it.each([
  [
    'a parameter is missing',
    { request: { path: '/v1/tickets', query: { from: '{since}' } } },
    /^pages: refused GET .* query: /,
  ],
  ['the list is another one', { page: { format: 'json', reports: '/data/*' } }, /^pages: .*ContractError/],
  ['the next page is ignored', { next: { from: 'none' }, last: null }, /^pages: 2 records, not 6/],
  ['the settings refuse it', { page: { format: 'json' } }, /^refused by the settings: /],
])('does not count a description if %s', async (_, api, failure) => {
  const { last: _last, ...rest } = ticketsSettings.exports[0]?.api ?? {};
  const changed = withApi(translated(tickets), 'last' in api ? { ...rest, ...api, last: undefined } : api);
  expect(await failureOf(tickets, changed)).toMatch(failure);
});

it('translates a stream that is cut by several lists to an export for each value of one of them', async () => {
  const lists = ['[red, blue]', '[s, l]'].map(
    (values, index) => `
        - type: ListPartitionRouter
          values: ${values}
          cursor_field: list${index}
          request_option: { type: RequestOption, inject_into: request_parameter, field_name: of${index} }`,
  );
  const requester = 'request_headers: { X-Both: "{{ stream_slice.list0 }}/{{ stream_partition.list1 }}" }';
  const given = lastOf(single(`      partition_router:${lists.join('')}`, requester));
  const parts = withoutLists(given.stream, { config: given.config, now: runTime });
  await using vendors = await startVendors();
  await using directory = await temporaryDirectory();
  const exports = [];
  for (const stream of parts) {
    const outcome = translate({ ...given, stream });
    if (!('translation' in outcome)) throw new Error(outcome.reasons.join());
    exports.push(outcome.translation.settings.exports[0]);
    const out = join(directory.path, 'run');
    expect(await findFailure({ ...given, stream }, outcome.translation, { vendors, out })).toBeUndefined();
  }
  expect(exports).toMatchObject(
    ['red', 'blue'].map((color) => ({
      parents: { values: ['s', 'l'] },
      api: { request: { query: { of0: color, of1: '{parent}' }, headers: { 'X-Both': `${color}/{parent}` } } },
    })),
  );
});

it('has the ID of an OAuth client in the clear, in other headers too', async () => {
  const oauth = [
    'request_headers: { X-Client: "{{ config.client_id }}" }',
    'authenticator: { type: OAuthAuthenticator, token_refresh_endpoint: "https://vendor.example/token"',
    'grant_type: client_credentials',
    'client_id: "{{ config.client_id }}"',
    'client_secret: "{{ config.client_secret }}" }',
  ].join(', ');
  const secret = '{ type: string, airbyte_secret: true }';
  const spec = `
spec: { connection_specification: { properties: { client_id: ${secret}, client_secret: ${secret} } } }`;
  const manifest = single('', oauth, spec);
  expect(translated(manifest).settings.exports[0]?.api).toMatchObject({
    request: { headers: { 'X-Client': 'a-client-id' } },
  });
  expect(await failureOf(manifest)).toBeUndefined();
});

it('has the ID of an account in the clear in the path of the URL', async () => {
  const spec = `
spec: { connection_specification: { properties: { realm_id: { type: string, airbyte_secret: true } } } }`;
  const manifest = single('', '', spec).replace('path: /things', 'path: "/{{ config.realm_id }}/things"');
  expect(translated(manifest).settings.exports[0]?.api).toMatchObject({ request: { path: '/a-realm-id/things' } });
  expect(await failureOf(manifest)).toBeUndefined();
});

it('does not count a description that takes an error document for the last page', async () => {
  const manifest = single('');
  const lenient = withApi(translated(manifest), { page: { format: 'bytes', types: ['application/json'] } });
  expect(await failureOf(manifest, lenient)).toBe('error on page 1: published an error document');
});
