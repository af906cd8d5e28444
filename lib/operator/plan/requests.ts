/** The next request of a planned run, for a person to read; and what the service responds to it. */

import { createHash } from 'node:crypto';
import { ExportError } from '../../core/errors.ts';
import { createRootCheck, describeRoot, expectedRoot, type RootCheck } from '../../core/document-root.ts';
import { addPage, type Run, type RunTotals, zeroTotals } from '../../core/model.ts';
import type { ParentOf } from '../../core/parents/run-parents.ts';
import type { PageHints, PageRequest, ReceivedPage, ReportService, RequestRate, Runtime } from '../../core/ports.ts';
import { atRate, createRequestRate } from '../../core/slots/request-rate.ts';
import { createMemoryRecord } from '../../core/slots/memory-record.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { shownCredentials } from '../../service/api/auth/kinds.ts';
import { httpRequest } from '../../service/client/request.ts';
import type { Description } from '../../service/api/description.ts';
import { rateLimitOf } from '../../settings/settings.ts';
import { placeOfNext } from '../../service/api/next/kinds.ts';
import { probePage } from '../../service/client/probe-service.ts';
import type { ExportTarget, DeployedService } from '../target.ts';
import { apiOfPlannedRequest } from './job.ts';
import { bytes, plural, totals } from '../output/format.ts';
import { type BoundsProof, planProof } from './bounds.ts';
import { findIdProblem } from './ids.ts';
import { firstParents } from '../../core/parents/gone-parents.ts';
import { countEqualPages, maxEqualPages } from '../../core/steps/repeated-cursors.ts';

export type PlannedRequest = ReturnType<typeof plannedRequest>;

/** In `headers`, the API key is replaced by its source. `body` is JSON, or the text of a form; null: there is none. */
export function plannedRequest(
  { address, settings, api, keySource }: Pick<DeployedService, 'address' | 'settings' | 'api' | 'keySource'>,
  page: PageRequest,
  isWaiting = false,
) {
  const base = URL.parse(address) ?? new URL('http://simulator');
  const { method, path, headers, body } = httpRequest(base, apiOfPlannedRequest(api, page, isWaiting), page, settings);
  const shown = shownCredentials(settings.auth, keySource);
  const query = Object.entries(shown.query)
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
  return {
    method,
    url: `${base.origin}${path}${query && `${path.includes('?') ? '&' : '?'}${query}`}`,
    headers: { ...headers, ...shown.headers },
    body:
      body === undefined || headers['content-type'] !== 'application/json'
        ? (body ?? null)
        : (JSON.parse(body) as unknown),
  };
}

export interface Requested {
  /** The first two. */
  pages?: RequestedPage[];
  /** The request without a response: if there is an error, the one that failed. */
  unanswered?: PlannedRequest | undefined;
  /** The request after the last page, and the status of its response. Absent: the last page says that it is. */
  end?: { readonly request: PlannedRequest; readonly status: number };
  /** Only of a walk to the end: the totals, and the last page once it has been received. */
  walk?: RunTotals & { readonly last: RequestedPage | undefined };
}

export type RequestedPage = ReturnType<typeof requestedPage>;

function requestedPage(
  request: PlannedRequest,
  { received, bytes: size }: { readonly received: ReceivedPage; readonly bytes: number },
  { next, last }: Pick<Description, 'next' | 'last'>,
) {
  const { contentType, reports, serviceTime, nextCursor: cursor, documentRoot, documentRootText, timing } = received;
  return {
    request,
    contentType,
    bytes: size,
    /** null: the format is not counted. */
    reports,
    documentRoot: documentRoot === null ? null : describeRoot(documentRoot, documentRootText()),
    serviceTime,
    latencyMs: timing.latencyMs,
    /** The place of the next page, its value (null on the last page), and how the last page is recognized. */
    next: { at: placeOfNext(next), cursor, last },
  };
}

/** One page may be the only one; the second shows that its cursor is accepted. */
const shownPages = 2;

/** A page, and what advice on its description depends on. */
export interface SeenPage {
  readonly page: RequestedPage;
  readonly hints: PageHints;
  /** How many consecutive pages have the same reports, up to and including this one. */
  readonly equalPages: number;
}

export interface SeenPages {
  /** The first two. */
  readonly pages: readonly SeenPage[];
  readonly last: SeenPage | undefined;
  /** undefined: nothing was asked. */
  readonly proof: BoundsProof | undefined;
  /** Why `next.by` identifies no report. */
  readonly idProblem: string | undefined;
}

interface WalkOptions {
  /** A new run: its bounds are proved, too. */
  readonly run: Run | undefined;
  readonly parentOf: ParentOf;
  readonly notify: (text: string) => void;
  readonly runtime: Runtime;
  readonly toEnd: boolean;
}

/**
 * Requests the page and the one after it, if there is one; with `toEnd`, all pages up to the last one. Then requests
 * empty intervals, as runs with an upper bound do. Stores nothing. `found` has what is known at any moment, and so also
 * after an error.
 * @throws as `probePage` and `planProof` do; RepeatedCursorError if a cursor comes again, or too many pages are equal
 */
export async function requestPages(
  target: Pick<ExportTarget, 'name' | 'definition' | 'service' | 'log'>,
  first: PageRequest,
  found: Requested,
  { run, parentOf, notify, runtime, toEnd }: WalkOptions,
): Promise<SeenPages> {
  const { name, definition, service, log } = target;
  await using connection = await service.connect(notify);
  const client = { fetch: atRate(connection.fetch, rateOf(service, runtime)) };
  const roots = createRootCheck(expectedRoot(definition, await log.exportState(definition.name)));
  const shown: RequestedPage[] = (found.pages = []);
  const pages: SeenPage[] = [];
  const assertAdvances = createRepetitionCheck();
  const parents = followingParents(first, parentOf, notify);
  const probe = async (asked: PageRequest) => {
    const request = (found.unanswered = plannedRequest(service, asked));
    const keepsBody = definition.provedBy !== undefined && sum.pages === 0;
    const probed = await probeBody(client, asked, roots, { runtime, notify, keepsBody });
    found.unanswered = undefined;
    return { asked, request, ...probed };
  };
  let last: SeenPage | undefined;
  let newest: SeenPage | undefined;
  let sum = zeroTotals;
  let firstReports: string | undefined;
  let idProblem: string | undefined;
  let previous: Parameters<typeof countEqualPages>[1];
  const requestAfter = async (asked: PageRequest, cursor: PageRequest['cursor']): Promise<PageRequest | undefined> => {
    if (!toEnd && pages.length === shownPages) return undefined;
    if (cursor !== null) return { ...asked, cursor, label: `page ${sum.pages + 1}` };
    return toEnd ? undefined : await parents.next();
  };
  for (let next: PageRequest | undefined = first; next !== undefined;) {
    const { asked, request, received, bytes: size, body, sha256 } = await probeExisting(next, probe, parents);
    if (received.kind === 'end') {
      found.end = { request, status: received.status };
      last = newest;
      if (toEnd) found.walk = { ...sum, last: newest?.page };
      break;
    }
    const page = requestedPage(request, { received, bytes: size }, service.api);
    const compared = { ...received, sha256 };
    const equalPages = countEqualPages(compared, previous);
    const seen = (newest = { page, equalPages, hints: received.hints() });
    const { cursor } = page.next;
    // After the last page, the next request is that of another parent, whose reports may be equal.
    previous = cursor === null ? undefined : { ...compared, equalPages };
    sum = { pages: sum.pages + 1, ...addPage(sum, page) };
    if (toEnd) found.walk = { ...sum, last: cursor === null ? page : undefined };
    if (pages.length < shownPages) {
      pages.push(seen);
      shown.push(page);
    } else notify(`${name}: page ${sum.pages} · ${contentText(page)}`);
    if (sum.pages === 1 && page.reports !== 0) {
      firstReports = received.reportsDigest;
      idProblem = await findIdProblem(target, body);
    }
    if (cursor === null) last = seen;
    else assertAdvances(sum.pages, seen);
    next = await requestAfter(asked, cursor);
  }
  const proof = run && (await planProof(target, client, run, { firstReports, roots, notify, runtime, parentOf }));
  return { pages, last, proof, idProblem };
}

/** Probes a page. `sha256` and `body` are those of the last response, the one that is no longer waited for. */
async function probeBody(
  client: ReportService,
  asked: PageRequest,
  roots: RootCheck,
  { keepsBody, ...waits }: Pick<WalkOptions, 'runtime' | 'notify'> & { readonly keepsBody: boolean },
) {
  let body: Uint8Array[] = [];
  let digest = createHash('sha256');
  const onBody = () => {
    body = [];
    digest = createHash('sha256');
    return (chunk: Uint8Array) => {
      digest.update(chunk);
      if (keepsBody) body.push(chunk);
    };
  };
  const probed = await probePage(client, asked, roots, { ...waits, onBody });
  return { ...probed, body, sha256: digest.digest('hex') };
}

/** Probes a page, or if its parent is gone, that of the next parent. */
async function probeExisting<Probed extends Awaited<ReturnType<typeof probePage>>>(
  request: PageRequest,
  probe: (request: PageRequest) => Promise<Probed>,
  parents: ReturnType<typeof followingParents>,
): Promise<Probed> {
  const probed = await probe(request);
  const { received } = probed;
  if (received.kind !== 'end' || received.reason !== 'gone') return probed;
  return await probeExisting(await parents.afterGone(request, received.status), probe, parents);
}

/** The first requests of the parents after the first one. */
function followingParents(first: PageRequest, parentOf: ParentOf, notify: WalkOptions['notify']) {
  let slice = 1;
  let gone = 0;
  const next = async (): Promise<PageRequest | undefined> => {
    if (first.cursor !== null || first.parent !== (await parentOf({ slice: 1 }))?.id) return undefined;
    slice += 1;
    const { id: parent, also: parentAlso, since = first.since } = (await parentOf({ slice })) ?? {};
    return parent === undefined
      ? undefined
      : { ...first, parent, parentAlso, since, label: `page 1 of parent ${slice}` };
  };
  return {
    next,
    /** @throws RequestRejectedError if no other parent is left, or as many are gone as stop a run */
    async afterGone({ label }: PageRequest, status: number): Promise<PageRequest> {
      gone += 1;
      const following = gone < firstParents ? await next() : undefined;
      const all = gone === 1 ? `the parent of ${label} no longer exists` : `none of the first ${gone} parents exists`;
      if (following === undefined) throw goneError(all, status);
      notify(`The parent of ${label} no longer exists (status ${status}, when.gone): requesting the next one`);
      return following;
    },
  };
}

/** Why nothing is known of an API whose `parents` are all gone. */
const goneError = (parents: string, status: number): ExportError =>
  new ExportError(
    'RequestRejectedError',
    `Report service says that ${parents} (status ${status}, when.gone). A run continues with the other parents. ` +
      'If they do exist, correct the request of the export, or when.gone',
  );

/** The rate of the service, as if no other process sent requests. */
function rateOf({ settings }: Pick<DeployedService, 'settings'>, runtime: Runtime): RequestRate | undefined {
  const limit = rateLimitOf(settings);
  return limit && createRequestRate({ record: createMemoryRecord(), limit, runtime });
}

/** Throws if a walk does not come forward: a person waits for its end. */
function createRepetitionCheck(): (page: number, seen: SeenPage) => void {
  const cursors = new Set<string>();
  const repetition = (message: string) => new ExportError('RepeatedCursorError', message);
  return (page, { page: { next }, equalPages }) => {
    const { cursor } = next;
    if (cursor === null) return;
    if (cursors.has(cursor)) {
      const shown = truncate(toPrintable(cursor), 100);
      throw repetition(`Page ${page} has a cursor that an earlier page had: ${shown}. Check next.at and next.to`);
    }
    cursors.add(cursor);
    if (equalPages < maxEqualPages) return;
    throw repetition(
      `Pages ${page - maxEqualPages + 1} to ${page} have the same reports, although each has another cursor: the service seems to ignore ` +
        'the cursor that it is sent. Check next.to',
    );
  };
}

/** Indented, as the details of a plan. */
export function requestLines({ method, url, headers, body }: PlannedRequest): string[] {
  return [
    `  request  ${method} ${url}`,
    ...Object.entries(headers).map(([name, value]) => `           ${name}: ${value}`),
    ...(body === null ? [] : [`           ${JSON.stringify(body)}`]),
  ];
}

/** `9.1 kB · 10 reports`. */
const contentText = ({ reports, bytes: size }: Pick<RequestedPage, 'reports' | 'bytes'>): string =>
  `${bytes(size)} · ${reports === null ? 'reports are not counted' : plural(reports, 'report')}`;

export function responseLines(page: RequestedPage): string[] {
  const { contentType, documentRoot, latencyMs, serviceTime, next } = page;
  const content = [
    truncate(toPrintable(contentType), 100),
    contentText(page),
    documentRoot,
    `after ${latencyMs} ms`,
    serviceTime === null ? null : `at ${serviceTime}`,
  ];
  const found = next.cursor === null ? 'none: this is the last page' : truncate(toPrintable(next.cursor), 100);
  return [`  response ${content.filter((text) => text !== null).join(' · ')}`, `  next     ${next.at}: ${found}`];
}

/** The findings of a walk, whose last page is `last`. `end` is the response after it, if that has ended the walk. */
export function walkLine(walk: RunTotals, { next: { at, last } }: RequestedPage, end: Requested['end']): string {
  const ofPage = last === undefined ? `there is no next page (${at})` : JSON.stringify(last);
  const reason = end === undefined ? ofPage : `the response to its cursor has status ${end.status}`;
  return `  end      ${totals(walk)}. Page ${walk.pages} is the last one: ${reason}`;
}
