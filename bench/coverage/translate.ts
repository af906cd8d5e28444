/**
 * A stream of a manifest as a description in our language, or the reasons why it has none. Nothing is guessed that the
 * manifest does not say: where it leaves something open, the description takes the stricter form.
 */

import { authenticatorOf, translateAuth } from './auth.ts';
import type { ManifestStream } from './manifest.ts';
import { type TranslatedPages, translatePages } from './pagination.ts';
import {
  customName,
  injectedInto,
  keyPathOf,
  type ManifestRequest,
  pageSizeOf,
  type Partition,
  partitionOf,
  partOf,
  fixedValuesOf,
  notBuilt,
  recordPathOf,
  requestOf,
  splitAtList,
  scopeWith,
} from './requests.ts';
import {
  durationMs,
  evaluateText,
  isPlain,
  Joined,
  parseDate,
  type Plain,
  Ref,
  type Scope,
  textOf,
  Untranslatable,
} from './templates.ts';

/** When all runs of the measurement begin. */
export const runTime = Date.parse('2026-11-28T00:00:00Z');

/** One export of a description. */
interface TranslatedExport {
  readonly name: string;
  readonly [field: string]: unknown;
}

export interface Translation {
  readonly settings: { readonly services: Plain; readonly exports: readonly TranslatedExport[] };
  /** The JSON of the secret. */
  readonly secret: Plain;
  /** The stream and the streams of its parents; the outermost first, as the exports are. */
  readonly nodes: readonly Plain[];
}

export type Outcome =
  | { readonly reasons: readonly string[] }
  | { readonly reasons: readonly []; readonly translation: Translation };

export function translate({ connector, stream, config, secrets }: ManifestStream): Outcome {
  const reasons = new Set<string>();
  const attempt: Attempt = (action) => {
    try {
      return action();
    } catch (error) {
      if (!(error instanceof Untranslatable)) throw error;
      reasons.add(error.message);
      return undefined;
    }
  };
  for (const reason of componentReasons(stream)) reasons.add(reason);
  if (reasons.size > 0 && (stream.retriever as Plain | undefined)?.type !== 'SimpleRetriever')
    return { reasons: [...reasons] };
  const hidden = withoutIdsInPath(stream, withoutClientId(stream, config, secrets));
  const scope: Scope = { config: hideSecrets(config, hidden), now: runTime };
  const nodes = attempt(() => withParents(stream, scope)) ?? [stream];
  for (const parent of nodes.slice(0, -1)) for (const reason of componentReasons(parent)) reasons.add(`${reason}`);
  const exports: TranslatedExport[] = [];
  const auth = attempt(() => translateAuth(nodes, scope, { config, now: runTime }));
  for (const [index, node] of nodes.entries()) {
    const of: Node = {
      stream: node,
      scope,
      name: nameOf(node, index),
      parentName: exports.at(-1)?.name,
      isParent: index < nodes.length - 1,
    };
    const translated = attempt(() => translateNode(of, attempt));
    if (translated !== undefined) exports.push(translated);
  }
  if (reasons.size > 0 || auth === undefined) return { reasons: [...reasons] };
  const origins = new Set(exports.map(({ origin }) => origin));
  if (origins.size > 1) return { reasons: ['parents of another host'] };
  const [baseUrl] = origins;
  const send = Object.assign({}, ...exports.map(({ secretHeaders }) => secretHeaders)) as Plain;
  const query = Object.assign({}, ...exports.map(({ secretQuery }) => secretQuery)) as Plain;
  const described = attempt(() => atLogin(auth.withParts(send, query), auth.login, String(baseUrl)));
  if (described === undefined) return { reasons: [...reasons] };
  const service = { baseUrl, api: { auth: described } };
  const settings = {
    services: { [serviceName(connector)]: service },
    exports: exports.map(
      ({ origin: _origin, secretHeaders: _headers, secretQuery: _query, ...each }) => each as TranslatedExport,
    ),
  };
  return { reasons: [], translation: { settings, secret: auth.secret, nodes } };
}

/** A login has the path of its URL, or the whole URL if that is not one of the API. */
function atLogin(auth: Plain, login: URL | undefined, baseUrl: string): Plain {
  if (login === undefined) return auth;
  const { origin, pathname, search, href } = login;
  const { kind, ...others } = auth;
  return { kind, ...(origin === baseUrl ? { path: `${pathname}${search}` } : { url: href }), ...others };
}

type Attempt = <Result>(action: () => Result) => Result | undefined;

interface Node {
  readonly stream: Plain;
  readonly scope: Scope;
  readonly name: string;
  readonly parentName: string | undefined;
  /** Whether others are cut by its records. Then all of them are listed. */
  readonly isParent: boolean;
}

const serviceName = (connector: string): string =>
  connector
    .replace(/^source-/, '')
    .slice(0, 30)
    .replace(/^[^a-z]+|[^a-z0-9]+$/g, '') || 'vendor';

const nameOf = (stream: Plain, index: number): string =>
  `${index}-${String(stream.name).replaceAll(/[^A-Za-z0-9_-]/g, '-')}`.slice(0, 40);

/** The stream below the streams that it is cut by. */
function withParents(stream: Plain, scope: Scope): readonly Plain[] {
  const partition = partitionOf(stream, scope);
  return partition.kind === 'parent' ? [...withParents(partition.stream, scope), stream] : [stream];
}

/** The ID of an OAuth client is no secret (RFC 6749, section 2.2): descriptions have it in the clear. */
function withoutClientId(stream: Plain, config: unknown, secrets: ReadonlySet<string>): ReadonlySet<string> {
  const hidden = { config: hideSecrets(config, secrets), now: runTime };
  try {
    const { type, client_id: id } = authenticatorOf(stream, hidden) ?? {};
    const value = type === 'OAuthAuthenticator' ? evaluateText(textOf(id), hidden) : undefined;
    return new Set([...secrets].filter((name) => !(value instanceof Ref) || value.path[0] !== name));
  } catch (error) {
    if (!(error instanceof Untranslatable)) throw error;
    return secrets;
  }
}

/** Nor is the ID of an account in the path of a URL, which some connectors hide. */
function withoutIdsInPath(stream: Plain, secrets: ReadonlySet<string>): ReadonlySet<string> {
  const { path, url, url_base: base } = partOf(stream.retriever, 'requester');
  const texts = JSON.stringify([path, url, base]);
  return new Set([...secrets].filter((name) => !/(^|_)id$/.test(name) || !texts.includes(name)));
}

/** Refs in the place of secrets. */
function hideSecrets(config: unknown, secrets: ReadonlySet<string>): unknown {
  if (!isPlain(config)) return config;
  return Object.fromEntries(
    Object.entries(config).map(([name, value]) => [
      name,
      secrets.has(name) && !isPlain(value) ? new Ref('secret', [name]) : hideSecrets(value, secrets),
    ]),
  );
}

// Components that have no counterpart

function componentReasons(stream: Plain): readonly string[] {
  const reasons: string[] = [];
  if (stream.type === 'DynamicDeclarativeStream') return ['streams that are found at run time'];
  const retriever = stream.retriever as Plain | undefined;
  if (retriever?.type === 'AsyncRetriever') return [...customPartsOf(retriever), notBuilt.jobs];
  const selector = partOf(retriever, 'record_selector');
  const requester = partOf(retriever, 'requester');
  const paginator = partOf(retriever, 'paginator');
  const handlers = [
    requester.error_handler,
    ...((partOf(requester, 'error_handler').error_handlers ?? []) as unknown[]),
  ];
  // What is done with records, such as CustomTransformation, is left to the readers of the pages.
  const parts = [
    retriever,
    requester,
    paginator,
    paginator.pagination_strategy,
    selector,
    selector.extractor,
    stream.incremental_sync,
    retriever?.decoder,
    ...[retriever?.partition_router ?? []].flat(),
    ...handlers,
    ...handlers.flatMap((handler) => (isPlain(handler) ? ((handler.backoff_strategies ?? []) as unknown[]) : [])),
  ];
  for (const part of parts) {
    const name = customName(part);
    if (name !== undefined) reasons.push(`custom Python component: ${name}`);
  }
  const { type } = partOf(retriever, 'decoder');
  if (typeof type === 'string' && !['JsonDecoder', 'JsonlDecoder'].includes(type) && !type.startsWith('Custom'))
    reasons.push(`responses of a ${type}`);
  if (
    partOf(requester, 'query_properties').type !== undefined ||
    JSON.stringify(requester).includes('"QueryProperties"')
  )
    reasons.push('fields that are requested in groups (QueryProperties)');
  return reasons;
}

/** The parts in Python of a retriever of reports of jobs. */
function customPartsOf(retriever: Plain): readonly string[] {
  const requesters = ['creation_requester', 'polling_requester', 'download_target_requester', 'download_requester'];
  const parts = [
    ...requesters.flatMap((name) => [partOf(retriever, name), partOf(retriever, name).authenticator]),
    ...['status_extractor', 'download_target_extractor', 'download_extractor', 'download_decoder', 'decoder'].map(
      (name) => retriever[name],
    ),
    partOf(retriever, 'download_decoder').decoder,
  ];
  const names = new Set(parts.map(customName).filter((name) => name !== undefined));
  return [...names].map((name) => `custom Python component: ${name}`);
}

// One stream

function translateNode(
  { stream, scope: outer, name, parentName, isParent }: Node,
  attempt: Attempt,
): TranslatedExport | undefined {
  const period = isParent ? undefined : attempt(() => periodOf(stream, outer));
  const partition = attempt(() => partitionOf(stream, outer)) ?? { kind: 'none' };
  const scope = { ...outer, ...runScope(stream, partition, period) };
  const recordPath = attempt(() => recordPathOf(stream, scope)) ?? [];
  const size = attempt(() => pageSizeOf(stream, scope));
  const assemble = (token: unknown) => {
    const interval = period && { start_time: period.start, end_time: period.end };
    const sized = size === undefined ? undefined : new Ref('size');
    const values = { interval, partition: { [fieldOf(partition)]: new Ref('parent') }, size: sized, token };
    const page = token === undefined ? undefined : { next_page_token: token };
    return requestOf(stream, { ...scope, next_page_token: page }, injectedInto(stream, values, scope));
  };
  const texts = new Texts(period?.isInclusive ?? false);
  const first = attempt(() => texts.request(assemble(undefined)));
  const pages = attempt(() => translatePages(stream, scope, recordPath));
  const later = attempt(() => texts.request(assemble(pages?.token)));
  const parents = attempt(() =>
    parentsOf(partition, { parentName, fields: [...texts.fieldsOfParent.values()], used: texts.also, scope: outer }),
  );
  const dates = attempt(() => texts.dates());
  if (first === undefined || later === undefined || pages === undefined) return undefined;
  const { origin, request, secretHeaders, secretQuery } = first;
  const { number } = pages;
  const counted = number === undefined ? undefined : attempt(() => texts.request(assemble(number)).request);
  const requests = { first: request, later: later.request, counted };
  const next = attempt(() => withToken(pages, { ...requests, shifts: texts.shifts, stream }));
  const isNumberInText = next?.from === 'count' && next.to === undefined;
  const usesDates = texts.usesDates;
  const since = sinceOf(period, usesDates);
  return {
    name,
    origin,
    secretHeaders,
    secretQuery,
    ...(since === undefined ? {} : { since }),
    ...(parents === undefined ? {} : { parents }),
    ...(JSON.stringify([request, next]).includes('{size}') ? { size } : {}),
    api: {
      request: isNumberInText ? later.request : request,
      ...(usesDates ? { dates } : {}),
      next,
      ...(pages.last === undefined ? {} : { last: pages.last }),
      page: { format: formatOf(stream), ...(formatOf(stream) === 'json' ? { reports: reportsAt(recordPath) } : {}) },
    },
  };
}

/** What templates know of the run. */
function runScope(stream: Plain, partition: Partition, period: Period | undefined): Scope {
  const sync = partOf(stream, 'incremental_sync');
  const interval = period && {
    start_time: period.start,
    end_time: period.end,
    [textOf(sync.partition_field_start ?? 'start_time')]: period.start,
    [textOf(sync.partition_field_end ?? 'end_time')]: period.end,
  };
  const also =
    partition.kind === 'parent'
      ? partition.extra.map((path) => [path.join('.'), new Ref('also', [alsoName(path)])])
      : [];
  const own = {
    ...fixedValuesOf(stream),
    ...(partition.kind === 'none'
      ? {}
      : { [partition.field]: new Ref('parent'), parent_slice: new Ref('grandparent') }),
  };
  const extra = Object.fromEntries(also) as Plain;
  const slice = { ...own, ...interval, extra_fields: extra };
  return {
    stream_interval: interval ?? {},
    stream_partition: { ...own, extra_fields: extra },
    stream_slice: slice,
    stream_state: {},
  };
}

const alsoName = (path: readonly string[]): string =>
  path
    .join('_')
    .replaceAll(/[^A-Za-z0-9_-]/g, '-')
    .slice(0, 40);
const fieldOf = (partition: Partition): string => (partition.kind === 'none' ? '' : partition.field);

interface Period {
  readonly start: Ref;
  readonly end: Ref;
  /** Milliseconds since the epoch. */
  readonly from: number;
  /** Whether the end is the last unit of the period, not the first after it. */
  readonly isInclusive: boolean;
}

/** The period of a first run. */
export function periodOf(stream: Plain, outer: Scope): Period | undefined {
  const sync = stream.incremental_sync;
  if (!isPlain(sync)) return undefined;
  if (sync.type === 'IncrementingCountCursor') throw new Untranslatable('an incremental sync by a number');
  const scope = scopeWith(sync, outer);
  const { start_datetime: given, datetime_format: format, cursor_granularity: granularity } = sync;
  const start = isPlain(given)
    ? evaluateText(String(given.datetime), scopeWith(given, outer))
    : evaluateText(String(given), scope);
  const ownFormat =
    isPlain(given) && typeof given.datetime_format === 'string' ? given.datetime_format : String(format);
  const from = parseDate(textOf(start), ownFormat);
  if (Number.isNaN(from)) throw new Untranslatable('a start date that cannot be read');
  const form = `|${String(evaluateText(String(format), scope))}`;
  const isInclusive = typeof granularity === 'string' && durationMs(granularity) >= 86_400_000;
  // A user may choose when the first run starts: not in the future, and not more than ten years ago.
  const chosen = Math.max(Math.min(from, runTime - 86_400_000), runTime - 3_650 * 86_400_000);
  return { start: new Ref('since', [form]), end: new Ref('until', [form]), from: chosen, isInclusive };
}

const sinceOf = (period: Period | undefined, usesDates: boolean): Plain | undefined =>
  period === undefined || !usesDates
    ? undefined
    : { initial: new Date(period.from).toISOString().replace('.000Z', 'Z') };

function parentsOf(
  partition: Partition,
  {
    parentName,
    fields,
    used,
    scope,
  }: {
    parentName: string | undefined;
    fields: readonly (readonly string[])[];
    used: ReadonlySet<string>;
    scope: Scope;
  },
): Plain | undefined {
  if (partition.kind === 'none') return undefined;
  if (partition.kind === 'list') {
    const { values } = partition;
    if (values instanceof Ref || !Array.isArray(values)) throw new Untranslatable('a list of parents that is none');
    return { values: values.map(textOf) };
  }
  // Each report of the parent may have the record in a field.
  const { inner } = splitAtList(recordPathOf(partition.stream, scope));
  const key = [...inner, ...keyPathOf(partition)];
  const [id = [], ...others] = fields;
  const also = Object.fromEntries([
    ...partition.extra
      .filter((path) => used.has(alsoName(path)))
      .map((path) => [alsoName(path), pointerTo([...inner, ...path])] as const),
    ...others.map((path) => [alsoName(path), pointerTo([...key, ...path])] as const),
  ]);
  return {
    export: parentName ?? '(refused)',
    id: pointerTo([...key, ...id]),
    ...(Object.keys(also).length === 0 ? {} : { also }),
  };
}

const pointerTo = (path: readonly (string | number)[]): string =>
  path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

const formatOf = (stream: Plain): 'json' | 'ndjson' =>
  partOf(stream.retriever, 'decoder').type === 'JsonlDecoder' ? 'ndjson' : 'json';

function reportsAt(path: readonly string[]): string {
  const { list, inner } = splitAtList(path);
  if (inner.includes('*')) throw new Untranslatable('records of several lists in a response');
  return `${pointerTo(list)}/*`;
}

/** Where the cursor of `next` goes, in the words of our language. */
function withToken(
  { next, token, number = 0 }: TranslatedPages,
  {
    first,
    later,
    counted,
    shifts,
    stream,
  }: {
    first: Plain;
    later: Plain;
    /** The first request with the first number. */
    counted: Plain | undefined;
    shifts: ReadonlySet<number>;
    stream: Plain;
  },
): Plain {
  if (next.from === 'none' || next.from === 'link' || 'to' in next) return next;
  const [shift = 0, ...otherShifts] = shifts;
  if (otherShifts.length > 0 || (shift !== 0 && next.from !== 'count'))
    throw new Untranslatable('a template that calculates with a value of the run');
  const option = partOf(partOf(stream.retriever, 'paginator'), 'page_token_option');
  if (option.type === 'RequestPath') return { ...next, to: 'url' };
  const names = (Array.isArray(option.field_path) ? option.field_path : [option.field_name]) as readonly string[];
  const [name = ''] = names;
  const to: Record<string, Plain> = {
    request_parameter: { query: name },
    header: { header: name },
    body_data: { form: name },
    body_json: { body: pointerTo(names) },
  };
  const place = to[String(option.inject_into)];
  const changed = Object.keys(later).filter((field) => JSON.stringify(first[field]) !== JSON.stringify(later[field]));
  const field = { request_parameter: 'query', header: 'headers', body_data: 'form', body_json: 'body' }[
    String(option.inject_into)
  ];
  const isOnlyToken =
    token instanceof Ref &&
    place !== undefined &&
    changed.length === 1 &&
    field !== undefined &&
    changed[0] === field &&
    isOnlyAdded(first[field], later[field], names);
  if (isOnlyToken && shift === 0) return { ...next, to: place };
  if (changed.length === 0) throw new Untranslatable('a cursor that no request has');
  if (next.from === 'count') {
    if (JSON.stringify(counted) !== JSON.stringify(first))
      throw new Untranslatable('counted pages whose first request is another one');
    return { ...next, first: number + shift };
  }
  return { ...next, request: Object.fromEntries(changed.map((each) => [each, later[each]])) };
}

/** Whether the later fields are the first ones and the token. */
function isOnlyAdded(first: unknown, later: unknown, [name = '', ...others]: readonly string[]): boolean {
  if (!isPlain(later)) return false;
  const rest = (fields: unknown) =>
    JSON.stringify(Object.entries(isPlain(fields) ? fields : {}).filter(([each]) => each !== name));
  if (rest(first) !== rest(later)) return false;
  return others.length === 0 || isOnlyAdded(isPlain(first) ? first[name] : {}, later[name], others);
}

// Texts with placeholders

/** Headers that the exporter sets itself. */
const ownHeaders = new Set(['content-type', 'user-agent', 'accept-encoding', 'connection', 'content-length', 'host']);

const withoutOwn = (headers: Plain): Plain =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.has(name.toLowerCase())));

/** Turns Refs into placeholders, and notes in which form dates are written. */
class Texts {
  readonly #forms = new Set<string>();
  readonly #isInclusive: boolean;
  readonly fieldsOfParent = new Map<string, readonly string[]>();
  readonly also = new Set<string>();
  /** What requests add to the number of a page. */
  readonly shifts = new Set<number>();

  constructor(isInclusive: boolean) {
    this.#isInclusive = isInclusive;
  }

  get usesDates(): boolean {
    return this.#forms.size > 0;
  }

  dates(): unknown {
    const [form, ...others] = new Set([...this.#forms].map((each) => JSON.stringify(datesOf(each))));
    if (others.length > 0) throw new Untranslatable('dates in several forms');
    return form === undefined ? undefined : JSON.parse(form);
  }

  request({ method, url, query, headers, body, form }: ManifestRequest) {
    const full = this.#text(url);
    // A placeholder is no character of a URL.
    const { origin = '', path = '' } = /^(?<origin>https?:\/\/[^/?]+)(?<path>[^]*)$/.exec(full)?.groups ?? {};
    if (origin === '') throw new Untranslatable('a URL that is none');
    if (/[{]secret/.test(full)) throw new Untranslatable('a secret in the path of the URL');
    if (origin.includes('{')) throw new Untranslatable('a host that is a value of the run');
    const open = this.#fields(withoutOwn(headers));
    if (method === 'GET' && isPlain(body) && Object.keys(body).length > 0)
      throw new Untranslatable('a GET with a body');
    const isSecret = ([, text]: readonly [string, unknown]) => String(text).includes('{secret');
    const lists = Object.entries(query).filter(([, value]) => Array.isArray(value));
    const single = Object.fromEntries(Object.entries(query).filter(([, value]) => !Array.isArray(value)));
    const parameters = Object.entries(this.#fields(single));
    const openQuery = Object.fromEntries(parameters.filter((entry) => !isSecret(entry)));
    const parts = { query: openQuery, form: form && this.#fields(form), body: this.#value(body) };
    if (JSON.stringify([parts.form, parts.body]).includes('{secret')) throw new Untranslatable('a secret in the body');
    if (!['GET', 'POST'].includes(method)) throw new Untranslatable(`the method ${method}`);
    const hasFields = (fields: unknown) => isPlain(fields) && Object.keys(fields).length > 0;
    const openHeaders = Object.fromEntries(Object.entries(open).filter((entry) => !isSecret(entry)));
    const request: Plain = {
      ...(method === 'GET' ? {} : { method }),
      path: `${path === '' ? '/' : path}${this.#lists(lists, path)}`,
      ...(hasFields(parts.query) ? { query: parts.query } : {}),
      ...(hasFields(openHeaders) ? { headers: openHeaders } : {}),
      ...(hasFields(parts.body) ? { body: parts.body } : {}),
      ...(hasFields(parts.form) ? { form: parts.form } : {}),
    };
    const secretHeaders = Object.fromEntries(Object.entries(open).filter(isSecret));
    return { origin, request, secretHeaders, secretQuery: Object.fromEntries(parameters.filter(isSecret)) };
  }

  #fields(fields: Plain): Plain {
    return Object.fromEntries(
      Object.entries(fields).flatMap(([name, value]) =>
        value === '' || value === undefined || value === null ? [] : [[name, this.#text(value)]],
      ),
    );
  }

  /** A parameter that comes several times is a part of the path. */
  #lists(lists: readonly (readonly [string, unknown])[], path: string): string {
    const parameters = lists.flatMap(([name, values]) =>
      (values as readonly unknown[]).map((value) => `${encodeURIComponent(name)}=${this.#text(value)}`),
    );
    return parameters.length === 0 ? '' : `${path.includes('?') ? '&' : '?'}${parameters.join('&')}`;
  }

  #value(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each) => this.#value(each));
    if (!isPlain(value)) return value instanceof Ref || value instanceof Joined ? this.#text(value) : value;
    return Object.fromEntries(
      Object.entries(value).flatMap(([name, each]) =>
        each === undefined || each === null ? [] : [[name, this.#value(each)]],
      ),
    );
  }

  #text(value: unknown): string {
    if (value instanceof Joined) return value.parts.map((part) => this.#text(part)).join('');
    if (value instanceof Ref) return this.#placeholder(value);
    if (Array.isArray(value)) throw new Untranslatable('a parameter with a list of values');
    return typeof value === 'object' ? JSON.stringify(value) : textOf(value);
  }

  /** Of a parent that is an object, the first field that requests have is the ID, and others are `also`. */
  #fieldOfParent(path: readonly (string | number)[]): string {
    const names = path.map(String);
    if (names.some((name) => name.startsWith('|'))) throw new Untranslatable('a parent in another form');
    const [first = names] = this.fieldsOfParent.values();
    this.fieldsOfParent.set(names.join('.'), names);
    return first.join('.') === names.join('.') ? '{parent}' : `{parent.${alsoName(names)}}`;
  }

  #placeholder({ base, path }: Ref): string {
    if (base === 'secret') return `{secret.${String(path[0])}}`;
    if (base === 'cursor') this.shifts.add(Number(path[0] ?? 0));
    if (base === 'size' || base === 'cursor') return `{${base}}`;
    if (base === 'parent' && path.length > 0) return this.#fieldOfParent(path);
    if (base === 'parent') return '{parent}';
    if (base === 'also') {
      this.also.add(String(path[0]));
      return `{parent.${String(path[0])}}`;
    }
    if (base === 'since' || base === 'until') {
      const form = String(path.at(-1)).slice(1);
      this.#forms.add(form);
      const bound = base === 'until' && this.#isInclusive && /%d/.test(form) && !/%H/.test(form) ? 'until-1' : base;
      return `{${bound}}`;
    }
    if (base === 'grandparent') throw new Untranslatable("a value of the parent's parent");
    throw new Untranslatable(`a request with a value of ${base}`);
  }
}

const knownForms: Readonly<Record<string, string>> = {
  '%s': 'epoch',
  '%ms': 'epoch-ms',
  '%Y-%m-%dT%H:%M:%SZ': 'iso',
  '%Y-%m-%dT%H:%M:%S.%_msZ': 'iso-ms',
};
const patterns: Readonly<Record<string, string>> = {
  '%Y': 'yyyy',
  '%m': 'MM',
  '%d': 'dd',
  '%H': 'HH',
  '%M': 'mm',
  '%S': 'ss',
  '%_ms': 'SSS',
  '%f': "SSS'000'",
  '%z': "'+0000'",
};

/** The form of dates in our language for that of Python. */
function datesOf(format: string): unknown {
  const known = knownForms[format];
  if (known !== undefined) return known;
  const parts = format.match(/%(?:epoch_microseconds|s_as_float|_ms|[A-Za-z])|[^%]+/g) ?? [];
  const pattern = parts.map((part) => {
    if (!part.startsWith('%')) return /[A-Za-z]/.test(part) ? `'${part}'` : part;
    const written = patterns[part];
    if (written === undefined) throw new Untranslatable(`dates with ${part}`);
    return written;
  });
  return { form: pattern.join('').replaceAll("''", ''), zone: 'UTC' };
}
