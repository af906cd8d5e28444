/** What a stream requests, as the interpreter of manifests assembles it. Its scope has values, or Refs. */

import {
  evaluateAll,
  evaluateText,
  isPlain,
  Joined,
  type Plain,
  Ref,
  type Scope,
  textOf,
  Untranslatable,
} from './templates.ts';

/** Features that are designed but not built. They are reasons of their own. */
export const notBuilt = {
  jobs: 'reports of jobs (not built)',
} as const;

/** Values may be Refs or Joined. */
export interface ManifestRequest {
  readonly method: string;
  /** Absolute. It may have a query. */
  readonly url: unknown;
  readonly query: Plain;
  readonly headers: Plain;
  readonly body: unknown;
  readonly form: Plain | undefined;
}

/** A value that an option of a component adds to each request. */
export interface Injected {
  readonly option: unknown;
  readonly value: unknown;
}

export const partOf = (component: unknown, name: string): Plain =>
  isPlain(component) && isPlain(component[name]) ? component[name] : {};

/** The name of the Python class of a component that is written in Python. */
export function customName(component: unknown): string | undefined {
  if (!isPlain(component)) return undefined;
  const { type, class_name: className } = component;
  const isCustom = typeof className === 'string' || (typeof type === 'string' && type.startsWith('Custom'));
  return isCustom
    ? String(className ?? type)
        .split('.')
        .at(-1)
    : undefined;
}

export const scopeWith = (component: Plain, scope: Scope): Scope => ({
  ...scope,
  parameters: component.$parameters,
  options: component.$parameters,
});

export function requestOf(stream: Plain, given: Scope, injected: readonly Injected[]): ManifestRequest {
  const requester = partOf(stream.retriever, 'requester');
  const scope = scopeWith(requester, given);
  const fields = (name: string): Plain => {
    const value = evaluateAll(requester[name] ?? {}, scope);
    if (!isPlain(value)) throw new Untranslatable(`${name} that is a text`);
    return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null && each !== undefined));
  };
  const parts = {
    query: { ...fields('request_parameters') },
    headers: { ...fields('request_headers') },
    ...bodyOf(requester, scope),
  };
  for (const { option, value } of injected) {
    if (isPlain(option) && value !== undefined) inject(parts, evaluateAll(option, scope) as Plain, value);
  }
  const method = String(evaluateText(textOf(requester.http_method ?? 'GET'), scope)).toUpperCase();
  return { method, url: urlOf(requester, scope), ...parts };
}

interface Parts {
  readonly query: Record<string, unknown>;
  readonly headers: Record<string, unknown>;
  body: unknown;
  form: Plain | undefined;
}

function inject(parts: Parts, option: Plain, value: unknown): void {
  const { inject_into: place, field_name: name, field_path: path } = option;
  const names = (Array.isArray(path) ? path : [name]).map(String);
  const [first = ''] = names;
  if (place === 'request_parameter') parts.query[first] = value;
  else if (place === 'header') parts.headers[first] = value;
  else if (place === 'body_data') parts.form = { ...parts.form, [first]: value };
  else if (place === 'body_json') parts.body = withField(parts.body, names, value);
  else throw new Untranslatable(`an option that is injected into ${String(place ?? option.type)}`);
}

function withField(body: unknown, [name = '', ...others]: readonly string[], value: unknown): Plain {
  const object = isPlain(body) ? body : {};
  return { ...object, [name]: others.length === 0 ? value : withField(object[name], others, value) };
}

function bodyOf(requester: Plain, scope: Scope): Pick<Parts, 'body' | 'form'> {
  const given = requester.request_body;
  const typed = isPlain(given) && 'value' in given ? given : undefined;
  const json = requester.request_body_json ?? (typed?.type === 'RequestBodyUrlEncodedForm' ? undefined : typed?.value);
  const data = requester.request_body_data ?? (typed?.type === 'RequestBodyUrlEncodedForm' ? typed.value : undefined);
  const body = json === undefined ? undefined : evaluateAll(json, scope);
  const form = data === undefined ? undefined : evaluateAll(data, scope);
  if (body instanceof Joined || (typeof body === 'string' && body !== ''))
    throw new Untranslatable('a body that is a text');
  if (form !== undefined && !isPlain(form)) {
    if (form === '') return { body, form: undefined };
    throw new Untranslatable('a body that is a text');
  }
  return { body, form };
}

function urlOf(requester: Plain, scope: Scope): unknown {
  const [base, path] = [
    requester.url_base ?? requester.url,
    requester.url_base === undefined ? undefined : requester.path,
  ].map((text) => evaluateText(textOf(text), scope));
  if (base instanceof Ref) throw new Untranslatable('a URL from a value of the run');
  const parts = [base, path].map((value) =>
    value instanceof Joined ? value.parts : value instanceof Ref ? [value] : [textOf(value ?? undefined)],
  );
  const [start = [], end = []] = parts;
  const isEmpty = end.length === 0 || (end.length === 1 && end[0] === '');
  if (isEmpty) return joinedOf(start);
  const head = start.map((part, index) =>
    index === start.length - 1 && typeof part === 'string' ? part.replace(/\/+$/, '') : part,
  );
  const tail = end.map((part, index) => (index === 0 && typeof part === 'string' ? part.replace(/^\/+/, '') : part));
  return joinedOf([...head, '/', ...tail]);
}

const joinedOf = (parts: readonly (string | Ref)[]): string | Joined =>
  parts.every((part) => typeof part === 'string') ? parts.join('') : new Joined(parts);

// What goes with the requests of a stream

/** How a stream is cut into partitions: by a list, by the records of another stream, or not. */
export type Partition =
  | { readonly kind: 'none' }
  | { readonly kind: 'list'; readonly field: string; readonly values: unknown; readonly option: unknown }
  | {
      readonly kind: 'parent';
      readonly field: string;
      readonly stream: Plain;
      readonly key: string;
      readonly extra: readonly (readonly string[])[];
      readonly option: unknown;
    };

/** Where a record of the parent has the value of a partition. `/` is the record itself. */
export const keyPathOf = ({ key }: { readonly key: string }): readonly string[] =>
  key.split(/[./]/).filter((name) => name !== '');

export function partitionOf(stream: Plain, scope: Scope): Partition {
  const given = (stream.retriever as Plain | undefined)?.partition_router;
  const routers: readonly Plain[] = Array.isArray(given) ? given : isPlain(given) ? [given] : [];
  const [router] = routers;
  if (router === undefined) return { kind: 'none' };
  if (routers.length > 1) throw new Untranslatable('each combination of several lists of parents');
  const custom = customName(router);
  if (custom !== undefined) throw new Untranslatable(`custom Python component: ${custom}`);
  const inner = scopeWith(router, scope);
  const text = (value: unknown) => String(evaluateText(String(value), inner));
  if (router.type === 'ListPartitionRouter') {
    const { values, cursor_field: field, request_option: option } = router;
    return { kind: 'list', field: text(field), values: evaluateAll(values, inner), option };
  }
  if (router.type !== 'SubstreamPartitionRouter')
    throw new Untranslatable(`the partition router ${String(router.type)}`);
  const parents = router.parent_stream_configs as readonly Plain[];
  const [parent = {}] = parents;
  if (parents.length > 1) throw new Untranslatable('parents from several streams');
  return {
    kind: 'parent',
    field: text(parent.partition_field),
    stream: parent.stream as Plain,
    key: text(parent.parent_key),
    extra: (parent.extra_fields ?? []) as readonly (readonly string[])[],
    option: parent.request_option,
  };
}

/** A partition router that has a list of values, and the value that each request has in its place. */
interface FixedValue {
  readonly field: string;
  readonly value: unknown;
  readonly option: unknown;
}

/** The values of partitions that all requests of a stream share. */
export const fixedValuesOf = ({ fixed = [] }: Plain): Plain =>
  Object.fromEntries((fixed as readonly FixedValue[]).map(({ field, value }) => [field, value]));

/**
 * A stream that is cut by several lists as one stream for each value of all but one of them: exports of their own in
 * our language. A stream that is cut by the records of several streams stays as it is.
 */
export function withoutLists(stream: Plain, scope: Scope): readonly Plain[] {
  const retriever = stream.retriever as Plain | undefined;
  const routers: readonly Plain[] = [retriever?.partition_router ?? []].flat() as Plain[];
  const list = routers.find(({ type }) => type === 'ListPartitionRouter');
  if (routers.length < 2 || list === undefined) return [stream];
  const inner = scopeWith(list, scope);
  const values = evaluateAll(list.values, inner);
  if (!Array.isArray(values)) return [stream];
  const field = String(evaluateText(String(list.cursor_field), inner));
  const others = routers.filter((router) => router !== list);
  return values.flatMap((value: unknown) => {
    const fixed = [...((stream.fixed ?? []) as unknown[]), { field, value, option: list.request_option }];
    return withoutLists({ ...stream, fixed, retriever: { ...retriever, partition_router: others } }, scope);
  });
}

/** What is appended to each request for the period, the partition, and the page. */
export function injectedInto(
  stream: Plain,
  {
    interval,
    partition,
    size,
    token,
  }: { interval: Plain | undefined; partition: Plain; size: unknown; token: unknown },
  scope: Scope,
): readonly Injected[] {
  const sync = partOf(stream, 'incremental_sync');
  const parent = partitionOf(stream, scope);
  const paginator = partOf(stream.retriever, 'paginator');
  const tokenOption = partOf(paginator, 'page_token_option');
  return [
    { option: sync.start_time_option, value: interval?.start_time },
    { option: sync.end_time_option, value: interval?.end_time },
    ...((stream.fixed ?? []) as readonly FixedValue[]),
    ...(parent.kind === 'none' ? [] : [{ option: parent.option, value: partition[parent.field] }]),
    { option: paginator.page_size_option, value: size },
    ...(tokenOption.type === 'RequestPath' ? [] : [{ option: paginator.page_token_option, value: token }]),
  ];
}

/** The number of records a page that requests ask for. */
export function pageSizeOf(stream: Plain, scope: Scope): number | undefined {
  const { page_size: size } = partOf(partOf(stream.retriever, 'paginator'), 'pagination_strategy');
  if (size === undefined || size === null) return undefined;
  const value = Number(evaluateText(textOf(size), scope));
  return Number.isInteger(value) ? value : undefined;
}

/** How pages are counted; undefined if they are not. */
export function countedPagesOf(stream: Plain, scope: Scope): CountedPages | undefined {
  const strategy = partOf(partOf(stream.retriever, 'paginator'), 'pagination_strategy');
  const { type, start_from_page: start = 0, inject_on_first_request: isInFirst = false } = strategy;
  if (type === 'OffsetIncrement') return { first: 0, step: 'reports', isInFirst: isInFirst === true };
  if (isOffsetAndSize(strategy)) return { first: 0, step: 'reports', isInFirst: false };
  if (type !== 'PageIncrement') return undefined;
  const first = Number(evaluateText(textOf(start), scopeWith(strategy, scope)));
  return { first, step: 1, isInFirst: isInFirst === true };
}

/** Whether the cursor is the offset of a page and its size: an offset that the response says, where pages are full. */
function isOffsetAndSize({ type, cursor_value: cursor }: Plain): boolean {
  if (type !== 'CursorPagination' || typeof cursor !== 'string' || !cursor.includes('+')) return false;
  try {
    const sum = evaluateText(cursor, { response: new Ref('response') });
    const names = sum instanceof Joined ? sum.parts.map((part) => (part instanceof Ref ? part.path.at(-1) : '')) : [];
    return /^(startAt|start|offset) (maxResults|count|limit)$/.test(names.join(' '));
  } catch (error) {
    if (error instanceof Untranslatable) return false;
    throw error;
  }
}

export interface CountedPages {
  readonly first: number;
  readonly step: 1 | 'reports';
  /** Whether the first request has the number, too. */
  readonly isInFirst: boolean;
}

/** Where records have their primary key: one or several paths. None: they have no key. */
export const primaryKeyOf = ({ primary_key: key }: Plain): readonly (readonly string[])[] =>
  [key ?? []].flat().flatMap((part) => (part === '' ? [] : [[part].flat().map(String)]));

/** The path of the list of records, and what each item has around the record. */
export function splitAtList(path: readonly string[]): {
  readonly list: readonly string[];
  readonly inner: readonly string[];
} {
  const star = path.indexOf('*');
  return star < 0 ? { list: path, inner: [] } : { list: path.slice(0, star), inner: path.slice(star + 1) };
}

/** Where a response has its records. */
export function recordPathOf(stream: Plain, scope: Scope): readonly string[] {
  const extractor = partOf(partOf(stream.retriever, 'record_selector'), 'extractor');
  const path = (extractor.field_path ?? []) as readonly unknown[];
  return path.map((part) => String(evaluateText(String(part), scopeWith(extractor, scope))));
}
