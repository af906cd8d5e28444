/** The next request of a planned run, for a person to read; and what the service responds to it. */

import { ExportError } from '../../core/errors.ts';
import { createRootCheck, describeRoot, expectedRoot } from '../../core/document-root.ts';
import { addPage, type RunTotals, zeroTotals } from '../../core/model.ts';
import type { PageRequest, ReceivedPage, RequestRate, Runtime } from '../../core/ports.ts';
import { atRate, createRequestRate } from '../../core/slots/request-rate.ts';
import { createMemoryRecord } from '../../core/slots/memory-record.ts';
import { capitalize, toPrintable, truncate } from '../../core/sanitize.ts';
import { shownCredentials } from '../../service/api/auth/kinds.ts';
import { httpRequest } from '../../service/client/request.ts';
import type { Description } from '../../service/api/description.ts';
import { rateLimitOf } from '../../settings/settings.ts';
import { placeOfNext } from '../../service/api/next/kinds.ts';
import { probePage } from '../../service/client/probe-service.ts';
import type { ExportTarget, DeployedService } from '../target.ts';
import type { PlannedWalk } from '../plan-run.ts';
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

/** `equalPages`: how many consecutive pages have the same reports, up to and including this one. */
function requestedPage(
  request: PlannedRequest,
  { received, bytes: size }: Pick<PageContent, 'received' | 'bytes'>,
  equalPages: number,
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
    equalPages,
    hints: received.hints(),
  };
}

/** What advice depends on, beside the pages. */
export interface Checks {
  /** undefined: nothing was asked. */
  readonly proof: BoundsProof | undefined;
  /** Why `next.by` identifies no report. */
  readonly idProblem: string | undefined;
}

interface WalkOptions {
  readonly notify: (text: string) => void;
  readonly runtime: Runtime;
  readonly toEnd: boolean;
}

/**
 * Requests the first page and the one after it, which may be that of the next chain; with `toEnd`, all pages of the
 * first chain. Then requests empty intervals, as runs with an upper bound do. Stores nothing. `found` has what is known
 * at any moment, and so also after an error.
 * @throws as `probePage` and `planProof` do; RepeatedCursorError if a cursor comes again, or too many pages are equal
 */
export async function requestPages(
  target: Pick<ExportTarget, 'name' | 'definition' | 'service' | 'log'>,
  { first, further, begun }: PlannedWalk,
  found: Requested,
  options: WalkOptions,
): Promise<Checks> {
  const { definition, service, log } = target;
  const { notify, runtime } = options;
  await using connection = await service.connect(notify);
  const client = { fetch: atRate(connection.fetch, rateOf(service, runtime)) };
  const roots = createRootCheck(expectedRoot(definition, await log.exportState(definition.name)));
  const walk = new PageWalk(target, found, options);
  const nextChain = async () => (await further?.next())?.value;
  const nextAfterGone = createGoneCheck(nextChain, notify);
  for (let asked: PageRequest | undefined = first; asked !== undefined;) {
    const request = (found.unanswered = plannedRequest(service, asked));
    const probing = { notify, runtime, keepsBody: walk.needsIds };
    const { received, ...content } = await probePage(client, asked, roots, probing);
    found.unanswered = undefined;
    if (received.kind === 'page') {
      const next = await walk.add(request, { received, ...content });
      asked = next === 'next chain' ? await nextChain() : next && { ...asked, ...next };
    } else if (received.reason === 'gone')
      asked = await nextAfterGone(asked, received.status, found.pages?.length === 0);
    else {
      walk.end(request, received.status);
      asked = undefined;
    }
  }
  const { firstReports, idProblem } = walk;
  const proof = begun && (await planProof(target, client, begun, { firstReports, roots, notify, runtime }));
  return { proof, idProblem };
}

/** One page may be the only one; the second shows that its cursor is accepted. */
const shownPages = 2;

interface PageContent {
  readonly received: ReceivedPage;
  readonly bytes: number;
  readonly sha256: string;
  readonly body: readonly Uint8Array[];
}

/** The pages that were received so far. */
class PageWalk {
  /** A digest of the reports of page 1, if it has some. */
  firstReports: string | undefined;
  idProblem: string | undefined;
  readonly #target: Pick<ExportTarget, 'name' | 'definition' | 'service'>;
  readonly #found: Requested;
  readonly #pages: RequestedPage[];
  readonly #options: WalkOptions;
  readonly #cursors = new Set<string>();
  #sum = zeroTotals;
  /** The page before in the same chain. */
  #previous: { readonly page: RequestedPage; readonly compared: Parameters<typeof countEqualPages>[1] } | undefined;

  constructor(target: Pick<ExportTarget, 'name' | 'definition' | 'service'>, found: Requested, options: WalkOptions) {
    this.#target = target;
    this.#found = found;
    this.#pages = found.pages = [];
    this.#options = options;
  }

  /** Whether the next page is compared with `next.by`. */
  get needsIds(): boolean {
    return this.#target.definition.provedBy !== undefined && this.#sum.pages === 0;
  }

  /** Resolves to what is requested next. Undefined: nothing. */
  async add(
    request: PlannedRequest,
    { received, sha256, body, bytes: size }: PageContent,
  ): Promise<Pick<PageRequest, 'cursor' | 'label'> | 'next chain' | undefined> {
    const { toEnd } = this.#options;
    const compared = { ...received, sha256 };
    const equalPages = countEqualPages(compared, this.#previous?.compared);
    const page = requestedPage(request, { received, bytes: size }, equalPages, this.#target.service.api);
    const { cursor } = page.next;
    this.#previous = cursor === null ? undefined : { page, compared: { ...compared, equalPages } };
    this.#sum = { pages: this.#sum.pages + 1, ...addPage(this.#sum, page) };
    if (toEnd) this.#found.walk = { ...this.#sum, last: cursor === null ? page : undefined };
    this.#show(page);
    if (this.#sum.pages === 1 && page.reports !== 0) {
      this.firstReports = received.reportsDigest;
      this.idProblem = await findIdProblem(this.#target, body);
    }
    if (cursor !== null) this.#assertAdvances(cursor, equalPages);
    if (!toEnd && this.#pages.length === shownPages) return undefined;
    if (cursor !== null) return { cursor, label: `page ${this.#sum.pages + 1}` };
    return toEnd ? undefined : 'next chain';
  }

  /** The response to the newest cursor says that there is no further page. */
  end(request: PlannedRequest, status: number): void {
    this.#found.end = { request, status };
    if (this.#options.toEnd) this.#found.walk = { ...this.#sum, last: this.#previous?.page };
  }

  #show(page: RequestedPage): void {
    if (this.#pages.length < shownPages) this.#pages.push(page);
    else this.#options.notify(`${this.#target.name}: page ${this.#sum.pages} · ${contentText(page)}`);
  }

  /** A person waits for the end of the walk. @throws RepeatedCursorError if it does not come forward */
  #assertAdvances(cursor: string, equalPages: number): void {
    const { pages: page } = this.#sum;
    if (this.#cursors.has(cursor)) {
      const shown = truncate(toPrintable(cursor), 100);
      throw repetition(`Page ${page} has a cursor that an earlier page had: ${shown}. Check next.at and next.to`);
    }
    this.#cursors.add(cursor);
    if (equalPages < maxEqualPages) return;
    throw repetition(
      `Pages ${page - maxEqualPages + 1} to ${page} have the same reports, although each has another cursor: the service seems to ignore ` +
        'the cursor that it is sent. Check next.to',
    );
  }
}

const repetition = (message: string): ExportError => new ExportError('RepeatedCursorError', message);

/** The request after a parent that is gone: that of the next one. */
function createGoneCheck(nextChain: () => Promise<PageRequest | undefined>, notify: WalkOptions['notify']) {
  let gone = 0;
  /**
   * Undefined: no other parent is left, or enough are gone. `isFirst`: none has had a page so far.
   * @throws RequestRejectedError if a run would stop there, too
   */
  return async ({ label }: PageRequest, status: number, isFirst: boolean): Promise<PageRequest | undefined> => {
    gone += 1;
    const next = gone < firstParents ? await nextChain() : undefined;
    const reason = `(status ${status}, when.gone)`;
    if (next === undefined && isFirst) {
      throw new ExportError(
        'RequestRejectedError',
        `Report service says of each parent that was requested (${gone}) that it no longer exists ${reason}. A run continues with the other ` +
          'parents. If they do exist, correct the request of the export, or when.gone',
      );
    }
    const more = next === undefined ? '' : '. Requesting the next one';
    notify(`${capitalize(label)}: the parent no longer exists ${reason}${more}`);
    return next;
  };
}

/** The rate of the service, as if no other process sent requests. */
function rateOf({ settings }: Pick<DeployedService, 'settings'>, runtime: Runtime): RequestRate | undefined {
  const limit = rateLimitOf(settings);
  return limit && createRequestRate({ record: createMemoryRecord(), limit, runtime });
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
