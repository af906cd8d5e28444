/**
 * The API of a stream, as its manifest describes it: which requests it answers, and with which pages. It knows the
 * interpreter of manifests, and nothing of our language. A request that the interpreter would not send is refused.
 */

import { authenticatorOf } from './auth.ts';
import { keyInQuery, tokenResponse } from './vendor-auth.ts';
import type { ManifestStream } from './manifest.ts';
import {
  countedPagesOf,
  fixedValuesOf,
  keyPathOf,
  injectedInto,
  type ManifestRequest,
  pageSizeOf,
  partitionOf,
  partOf,
  primaryKeyOf,
  recordPathOf,
  requestOf,
  scopeWith,
} from './requests.ts';
import { buildPage, type Ending, pageFields } from './vendor-pages.ts';
import { durationMs, evaluateText, formatDate, isPlain, type Plain, type Scope, textOf } from './templates.ts';

/** What the API does: three pages, a period without records, or an error document in the place of a page. */
export type Mode = 'pages' | 'quiet' | 'error on page 1' | 'error on page 2';

export interface VendorRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
}

export interface VendorResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Vendor {
  readonly answer: (request: VendorRequest) => VendorResponse;
  /** The records of all pages of a node, in order of its partitions. */
  readonly recordsOf: (node: number) => readonly Plain[];
  /** Requests that the interpreter would not send. */
  readonly refused: string[];
}

/** The run that the API is asked by. */
export interface VendorRun {
  readonly mode: Mode;
  readonly origin: string;
  readonly now: number;
  /** Where the run of each node starts, in milliseconds since the epoch; undefined for a list of everything. */
  readonly since: readonly (number | undefined)[];
}

const pagesPerList = 3;
const recordsPerPage = 2;
/** Of counted pages: that after the last one has no records. */
const countedSizes = [recordsPerPage, recordsPerPage, 1, 0];
const countedTotal = 5;

interface PartitionValue {
  readonly value: unknown;
  readonly extra: Plain;
}

interface Chain {
  readonly node: number;
  readonly partition: PartitionValue;
  readonly pages: readonly Ending[];
}

export function createVendor({ config }: ManifestStream, nodes: readonly Plain[], run: VendorRun): Vendor {
  const base: Scope = { config, now: run.now };
  const records: Plain[][] = nodes.map(() => []);
  const chains: Chain[] = [];
  for (const [index, stream] of nodes.entries()) {
    const isLeaf = index === nodes.length - 1;
    for (const partition of partitionValues(stream, base, records[index - 1] ?? [])) {
      const number = chains.length;
      const isQuiet = isLeaf && run.mode === 'quiet';
      const count = hasPages(stream) ? pagesPerList : 1;
      const endings = pagesOf(
        { stream, child: nodes[index + 1], scope: base, origin: run.origin, name: `${index}-${number}` },
        isQuiet ? 0 : count,
      );
      chains.push({ node: index, partition, pages: endings });
      records[index]?.push(...endings.flatMap(({ records: each }) => each));
    }
  }
  const answers = chains.flatMap(({ node, partition, pages }) =>
    pages.map((page, index) => {
      const stream = nodes[node] as Plain;
      const { first, isInFirst } = countedPagesOf(stream, base) ?? {};
      const before = pages[index - 1]?.token;
      // Without its number, an API sends the first page, too.
      const tokens = index > 0 ? [before] : isInFirst === true ? [first] : [before, first];
      const asked = { partition, now: run.now, since: run.since[node] };
      const expected = tokens.flatMap((token) => expectedRequests(stream, base, { ...asked, token }));
      return { node, index, page, expected };
    }),
  );
  const apiHost = new URL(textOf(answers[0]?.expected[0]?.url)).host;
  const refused: string[] = [];
  const answer = (request: VendorRequest): VendorResponse => {
    const [stream] = nodes.slice(-1) as [Plain];
    const authenticator = authenticatorOf(stream, base);
    const token = tokenResponse(authenticator, request, { scope: base, apiHost });
    if (token !== undefined) return token;
    const url = new URL(request.target, run.origin);
    url.searchParams.delete(keyInQuery(authenticator, base)?.name ?? '');
    const differences: string[] = [];
    for (const { node, index, page, expected } of answers) {
      const found = expected.map((each) => differenceOf(each, request, url, page.url));
      differences.push(...found.filter((each) => each !== undefined));
      if (!found.includes(undefined)) continue;
      const failing = node === nodes.length - 1 && run.mode === `error on page ${index + 1}`;
      return failing ? errorDocument() : respond(page, nodes[node] as Plain);
    }
    const [shortest = 'no request is expected'] = differences.toSorted((a, b) => a.length - b.length);
    refused.push(`${request.method} ${request.target}: ${shortest}`);
    return json(400, { error: { message: `not what the interpreter sends: ${shortest}` } });
  };
  return { answer, recordsOf: (node) => records[node] ?? [], refused };
}

const json = (status: number, document: unknown): VendorResponse => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(document),
});

/** With the status of a page, as some APIs send it. */
const errorDocument = (): VendorResponse => json(200, { error: { code: 'internal', message: 'Try again later' } });

function respond({ document, headers, records }: Ending, stream: Plain): VendorResponse {
  const isLines = partOf(stream.retriever, 'decoder').type === 'JsonlDecoder';
  const page = isLines
    ? { ...json(200, null), body: records.map((each) => `${JSON.stringify(each)}\n`).join('') }
    : json(200, document);
  const type = isLines ? 'application/x-ndjson' : 'application/json';
  return { ...page, headers: { ...headers, 'content-type': type } };
}

// Pages

const hasPages = (stream: Plain): boolean => {
  const { type } = partOf(stream.retriever, 'paginator');
  return type !== undefined && type !== 'NoPagination';
};

function partitionValues(stream: Plain, scope: Scope, parents: readonly Plain[]): readonly PartitionValue[] {
  const partition = partitionOf(stream, scope);
  if (partition.kind === 'none') return [{ value: undefined, extra: {} }];
  if (partition.kind === 'list') return (partition.values as readonly unknown[]).map((value) => ({ value, extra: {} }));
  return parents.map((record) => ({
    value: valueAt(record, keyPathOf(partition)),
    extra: Object.fromEntries(partition.extra.map((path) => [path.join('.'), valueAt(record, path)])),
  }));
}

const valueAt = (record: unknown, path: readonly string[]): unknown =>
  path.reduce((value: unknown, name) => (isPlain(value) ? value[name] : undefined), record);

interface ListOfPages {
  readonly stream: Plain;
  /** The stream that is cut by the records. */
  readonly child: Plain | undefined;
  readonly scope: Scope;
  readonly origin: string;
  readonly name: string;
}

function pagesOf({ stream, child, scope, origin, name }: ListOfPages, count: number): readonly Ending[] {
  const fields = pageFields(stream, scope);
  const places = [['id'], ...primaryKeyOf(stream), ...fields.recordFields, ...placesOfChild(child, scope)];
  const recordPath = recordPathOf(stream, scope);
  const option = partOf(partOf(stream.retriever, 'paginator'), 'page_token_option');
  const isUrl = option.type === 'RequestPath';
  const make = (index: number, size: number) =>
    Array.from({ length: size }, (_, position) => {
      const text = `${name}-${index}-${position}`;
      return places.reduce<Plain>(
        (record, path) => withValue(record, path, path.join('') === 'id' ? text : `${path.join('-')}-${text}`),
        {},
      );
    });
  const page = (index: number, size: number, kind: 'middle' | 'last' | 'quiet', start?: number) => {
    const records = make(index, size);
    const token = isUrl ? `${origin}/next-of/${name}?page=${index + 1}` : `token-${name}-${index + 1}`;
    const url = isUrl && index > 0 ? `${origin}/next-of/${name}?page=${index}` : undefined;
    const counted =
      start === undefined ? undefined : { start, size: recordsPerPage, total: count === 0 ? 0 : countedTotal };
    return buildPage({ fields, records, recordPath, token, url, kind, tokenName: String(option.field_name), counted });
  };
  const counted = countedPagesOf(stream, scope);
  if (counted !== undefined) {
    const sizes = count === 0 ? [0] : countedSizes;
    let position = counted.first;
    return sizes.map((size, index) => {
      const start = fields.cursor === undefined ? undefined : position;
      position += counted.step === 1 ? 1 : size;
      const hasNext = start !== undefined && size > 0 && position < countedTotal;
      const kind = hasNext ? 'middle' : 'last';
      return { ...page(index, size, kind, start), token: size === 0 ? undefined : position };
    });
  }
  if (count === 0) return [page(0, 0, 'quiet')];
  const middle = Array.from({ length: count - 1 }, (_, index) => page(index, recordsPerPage, 'middle'));
  if (count === 1 && !hasPages(stream)) return [page(0, recordsPerPage, 'last')];
  try {
    return [...middle, page(count - 1, recordsPerPage, 'last')];
  } catch {
    // The end is a page without records.
    return [...middle, page(count - 1, recordsPerPage, 'middle'), page(count, 0, 'last')];
  }
}

/** Fields of records that the child stream is cut by. */
function placesOfChild(child: Plain | undefined, scope: Scope): readonly (readonly string[])[] {
  const partition = child && partitionOf(child, scope);
  if (child === undefined || partition?.kind !== 'parent') return [];
  const key = keyPathOf(partition);
  // Of a value that is an object, templates take fields.
  const name = String.raw`stream_(?:slice|partition)(?:\.|\[\\?["'])${partition.field}(?:\\?["']\])?(?:\.|\[\\?["'])(\w+)`;
  const requester = JSON.stringify(partOf(child.retriever, 'requester'));
  const fields = [...requester.matchAll(new RegExp(name, 'g'))].map(([, field = '']) => field);
  const own = fields.filter((field) => field !== 'get').map((field) => [...key, field]);
  return [...(own.length > 0 ? own : [key]), ...partition.extra];
}

function withValue(record: Plain, [name = '', ...others]: readonly string[], value: unknown): Plain {
  const inner = record[name];
  return { ...record, [name]: others.length === 0 ? value : withValue(isPlain(inner) ? inner : {}, others, value) };
}

// Requests

interface Expected {
  readonly partition: PartitionValue;
  readonly token: unknown;
  readonly now: number;
  readonly since: number | undefined;
}

/** What the interpreter may send for a page: the end of the period may be its last unit, or the first after it. */
function expectedRequests(
  stream: Plain,
  base: Scope,
  { partition, token, now, since }: Expected,
): readonly ManifestRequest[] {
  const sync = partOf(stream, 'incremental_sync');
  const inner = scopeWith(sync, base);
  const format = String(evaluateText(textOf(sync.datetime_format ?? '%s'), inner));
  const unit = typeof sync.cursor_granularity === 'string' ? durationMs(sync.cursor_granularity) : 0;
  return [...new Set([now, now - unit])].map((end) => {
    const interval =
      since === undefined ? undefined : { start_time: formatDate(since, format), end_time: formatDate(end, format) };
    return expectedRequest(stream, base, { partition, token, interval });
  });
}

function expectedRequest(
  stream: Plain,
  base: Scope,
  { partition, token, interval }: { partition: PartitionValue; token: unknown; interval: Plain | undefined },
): ManifestRequest {
  const sync = partOf(stream, 'incremental_sync');
  const router = partitionOf(stream, base);
  const bounds = interval && {
    ...interval,
    [textOf(sync.partition_field_start ?? 'start_time')]: interval.start_time,
    [textOf(sync.partition_field_end ?? 'end_time')]: interval.end_time,
  };
  const extra = { extra_fields: partition.extra };
  const own = {
    ...fixedValuesOf(stream),
    ...(router.kind === 'none' ? {} : { [router.field]: partition.value, parent_slice: {} }),
  };
  const scope: Scope = {
    ...base,
    stream_interval: bounds ?? {},
    stream_partition: { ...own, ...extra },
    stream_slice: { ...own, ...bounds, ...extra },
    stream_state: {},
    next_page_token: token === undefined ? undefined : { next_page_token: token },
  };
  const values = { interval: bounds, partition: own, size: pageSizeOf(stream, scope), token };
  return requestOf(stream, scope, injectedInto(stream, values, scope));
}

/** How a request differs from an expected one; undefined if it does not. `nextUrl` is the URL of a later page. */
function differenceOf(
  expected: ManifestRequest,
  sent: VendorRequest,
  url: URL,
  nextUrl: string | undefined,
): string | undefined {
  if (sent.method !== expected.method) return `method ${sent.method}, not ${expected.method}`;
  const full = new URL(nextUrl ?? textOf(expected.url));
  if (decodeURIComponent(url.pathname) !== decodeURIComponent(full.pathname))
    return `path ${url.pathname}, not ${full.pathname}`;
  const own = entriesOf(expected.query);
  const wanted = [...full.searchParams, ...(nextUrl === undefined ? own : [])];
  // Beside the URL of a later page, the interpreter sends its parameters, too.
  const isOwn = ([name, value]: readonly [string, string]) =>
    nextUrl !== undefined && own.some((each) => each[0] === name && each[1] === value);
  const query = differenceOfFields(
    [...url.searchParams].filter((each) => !isOwn(each)),
    wanted.filter((each) => !isOwn(each)),
  );
  if (query !== undefined) return `query: ${query}`;
  for (const [name, value] of entriesOf(expected.headers)) {
    // Clients set these themselves.
    if (['content-type', 'user-agent', 'accept-encoding', 'connection', 'host'].includes(name.toLowerCase())) continue;
    if (sent.headers[name.toLowerCase()] !== value)
      return `header ${name}: ${sent.headers[name.toLowerCase()]}, not ${value}`;
  }
  if (expected.form !== undefined) {
    const form = differenceOfFields([...new URLSearchParams(sent.body)], entriesOf(expected.form));
    return form && `form: ${form}`;
  }
  const body = stable(sent.body === '' ? {} : parsed(sent.body));
  const wantedBody = stable(expected.body ?? {});
  return body === wantedBody ? undefined : `body ${body}, not ${wantedBody}`;
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

/** Without fields that have no value. */
const entriesOf = (fields: Plain): (readonly [string, string])[] =>
  Object.entries(fields).flatMap(([name, value]) =>
    Array.isArray(value)
      ? value.map((each) => [name, textOf(each)] as const)
      : value === undefined || value === null || value === ''
        ? []
        : [[name, typeof value === 'object' ? JSON.stringify(value) : textOf(value)]],
  );

function differenceOfFields(
  sent: readonly (readonly [string, string])[],
  wanted: readonly (readonly [string, string])[],
): string | undefined {
  const texts = (fields: typeof sent) =>
    fields
      .filter(([, value]) => value !== '')
      .map(([name, value]) => `${name}=${value}`)
      .toSorted();
  const [a, b] = [texts(sent), texts(wanted)];
  return a.join('&') === b.join('&') ? undefined : `${a.join('&')}, not ${b.join('&')}`;
}

/** JSON with sorted names, and without null. */
function stable(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(stable).join(',')}]`;
  if (!isPlain(value)) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, each]) => each !== null && each !== undefined);
  return `{${fields
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, each]) => `${JSON.stringify(name)}:${stable(each)}`)
    .join(',')}}`;
}
