/**
 * The simulated Report Export Service: responds to a request as docs/service-contract.md says, by its own clock. It
 * remembers every page it has served, so that the invariants can compare stored pages with them.
 */

import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { MissingParents } from '../histories/scenario.ts';
import {
  createReportJobs,
  filesHost,
  isAboutJob,
  type JobChecks,
  type JobForm,
  type ReportJob,
  type ReportJobs,
} from './report-jobs.ts';
import type { ReportTimeline, SimulatedReport } from './reports.ts';
import type { Rng } from './rng.ts';
import type { Process } from './process.ts';
import type { ApiKeys } from './secrets.ts';
import type { ExportRequest, PageContent, ServiceApi } from './service-apis.ts';
import type { World } from './world.ts';

/**
 * What the service does with the upper bound of a request: honors it, honors it but rejects an empty interval, ignores
 * it, or includes reports that are dated exactly at it.
 */
export type UpperBounds = 'honored' | 'empty rejected' | 'ignored' | 'included';

export interface ServiceRequest {
  /** The host that it is sent to. */
  readonly host: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface ServiceResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Buffer;
  /** The connection ends after so many bytes of the body. */
  readonly truncatedAt?: number | undefined;
  /** Milliseconds between chunks of the body. */
  readonly chunkIntervalMs?: number;
  /** Between reading the reports and sending the response. */
  readonly latencyMs?: number;
  /** How long the service sends nothing at all. */
  readonly silentMs?: number;
}

/** A complete page as the service made it. */
export interface ServedPage {
  readonly sha256: string;
  readonly since: number;
  /** Infinity if the request has no upper bound. */
  readonly until: number;
  readonly cursor: string | null;
  readonly nextCursor: string | null;
  readonly reports: readonly SimulatedReport[];
  /** The moment, by the service's clock, whose reports the page shows. */
  readonly asOf: number;
  /** What the service did with the upper bound. */
  readonly upperBounds: UpperBounds;
  /** The mark of the version whose request it was (`Version.requestMark`). */
  readonly requestMark: string | undefined;
  /** The value of `{parent}` in the request. */
  readonly parent: string | undefined;
  /** The run of the invocation that has requested it. */
  readonly run: string | undefined;
  /** The ID of the job whose result it is. */
  readonly job: string | undefined;
}

/** The response to a request for the empty interval at `at`. */
export interface Proof {
  readonly at: number;
  /** Undefined: the service rejected the request. */
  readonly page: ServedPage | undefined;
}

export interface SimulatedService {
  respond(request: ServiceRequest, site: string, process: Process): ServiceResponse;
  /** Every complete page served for this cursor. */
  servedPages(cursor: string | null): readonly ServedPage[];
  /** Whether it has answered the first request for this parent with this status, which says that it is gone. */
  hasGone(parent: string, status: number | null): boolean;
  /** When it last answered this cursor with the status that ends the pages, by its clock. Undefined: never. */
  endedAt(cursor: string | null): number | undefined;
  /** The status that ends the pages. */
  readonly endStatus: number | undefined;
  /** The responses to requests of the process for an empty interval. */
  proofs(processId: string): readonly Proof[];
  /** Whether its pages are counted. */
  readonly counts: boolean;
  /** Whether its requests must have an upper bound. */
  readonly needsUpperBound: boolean;
  /** Whether its requests have no dates, so that each walk has all reports. */
  readonly listsAll: boolean;
  /** The milliseconds between two dates that a request can have. */
  readonly dateUnitMs: number;
  /** Its report jobs, if requests for pages need one. */
  readonly jobs: ReportJobs | undefined;
  /** How many responses have asked for a wait so far. */
  readonly retryAfterCount: () => number;
  /** The service's clock. */
  now(): number;
}

export interface ServiceOptions {
  readonly world: World;
  readonly vendor: string;
  readonly api: ServiceApi;
  readonly apiKeys: Pick<ApiKeys, 'check'>;
  readonly timeline: ReportTimeline;
  /** What it does with upper bounds at a moment. */
  readonly upperBoundsAt: (time: number) => UpperBounds;
  readonly needsUpperBound: boolean;
  readonly listsAll: boolean;
  readonly dateUnitMs: number;
  /** Called with each request for the first page of an empty interval, before the service responds. */
  readonly onProof: (process: Process, at: number, earlier: readonly Proof[]) => void;
  /** Difference between its clock and virtual time. */
  readonly skewMs: number;
  readonly hasDate: boolean;
  /** How far the Date header may be behind the service's clock, as a proxy's may be. */
  readonly maxDateLagMs: number;
  /** Whether a single Date may be ahead of the service's clock. */
  readonly datesMayLead: boolean;
  /** Whether a cursor is refused once it has been answered with a page. */
  readonly singleUseCursors: boolean;
  /** Whether all pages show the reports as of the first page, or each as of its own request. */
  readonly snapshots: boolean;
  /** In the contract's form, or longer than S3 metadata can hold. */
  readonly cursors: 'contract' | 'long';
  /** Whether a page that is requested again has another next cursor. */
  readonly freshCursors: boolean;
  /** What marks the end of a body; `none`: the end of the connection. */
  readonly framing: 'length' | 'chunked' | 'none';
  /** Whether it compresses pages. */
  readonly compresses: boolean;
  /** Bytes added to each page. */
  readonly padding: Buffer;
  /** Whether the process must know which root element page 1 of its run has. */
  readonly knowsRoot: (process: Process) => boolean;
  readonly maxLatencyMs: number;
  readonly pageSize: number;
  readonly missingParents: readonly MissingParents[];
  /** In which form jobs have their result. Undefined: there are none. */
  readonly jobForm: JobForm | undefined;
  readonly jobChecks: JobChecks;
  /** Every page with reports has a cursor, and that of the last page is answered with this status. */
  readonly endStatus: number | undefined;
  /** Whether pages are counted: a cursor is how many reports come before the page. */
  readonly counts: boolean;
}

const hour = 3_600_000;

/** The position that a cursor names. */
interface CursorPosition {
  readonly since: number;
  readonly until: number;
  /** The request without its cursor: it must stay the same from page to page. */
  readonly query: string;
  /** The last report of the previous page. */
  readonly after: SimulatedReport;
  /** When the run's first page was made, by the service's clock. */
  readonly firstPageAt: number;
  readonly page: number;
  /** The cursors of the pages before. */
  readonly previousCursors: readonly string[];
}

export function createSimulatedService(options: ServiceOptions): SimulatedService {
  const { world, vendor, api, apiKeys, timeline, skewMs, hasDate, snapshots, pageSize } = options;
  const positions = new Map<string, CursorPosition>();
  const served = new Map<string | null, ServedPage[]>();
  /** Cursors that are replaced by an earlier one. */
  const cycles = new Map<string, string>();
  /** Cursors that have been answered with a page. */
  const used = new Set<string>();
  /** Cursors that have been answered with the end. */
  const ended = new Map<string, number>();
  const gone = new Set<string>();
  const proofs = new Map<string, Proof[]>();
  let retryAfterCount = 0;
  const now = () => Math.floor(world.time.now() + skewMs);

  const jobs =
    options.jobForm &&
    createReportJobs({
      world,
      form: options.jobForm,
      checks: options.jobChecks,
      now,
      matching: (since, until, parent) => timeline.matching(since, now(), parent).filter(({ date }) => date < until),
      pageSize,
    });

  function respond(request: ServiceRequest, site: string, process: Process): ServiceResponse {
    const response =
      request.host === filesHost ? respondWithFile(request, site, process) : answer(request, site, process);
    if (response.status === 429 || response.headers['retry-after'] !== undefined) retryAfterCount += 1;
    return response;
  }

  function answer(request: ServiceRequest, site: string, process: Process): ServiceResponse {
    const apiKey = apiKeys.check(headerOf(request, `x-${vendor.toLowerCase()}-api-key`));
    const isOfJob = jobs !== undefined && isAboutJob(request);
    const received = isOfJob ? aboutJob : api.read(request, options.listsAll || jobs !== undefined);
    if (apiKey === 'unknown') return rejectAsViolation('no API key');
    if (typeof received === 'string') return rejectAsViolation(received);
    if (apiKey === 'rejected') return { status: 401, headers: dateHeader(), body: Buffer.from('Unknown API key') };
    if (isOfJob) return respondAboutJob(request, site, process);
    const { cursor, ...exportRequest } = received;
    const rng = world.rng(`${site}/response`);
    const job = jobs?.get(received.job);
    if (jobs !== undefined && job?.isOver !== true) return rejectAsViolation(`there is no result of ${received.job}`);
    const { gte, lt } = exportRequest.filter.date;
    const isEmpty = cursor === null && lt !== undefined && Date.parse(gte) === Date.parse(lt);
    const known = proofs.get(process.id) ?? [];
    if (isEmpty) options.onProof(process, Date.parse(lt), known);
    const noteProof = (page: ServedPage | undefined) => {
      if (isEmpty) proofs.set(process.id, [...known, { at: Date.parse(lt), page }]);
    };
    const error = injectErrorResponse(world, rng, site, cursor !== null, now());
    if (job !== undefined && (jobs?.isExpired(job) || (error?.status ?? 200) >= 400)) job.isDoubtful = true;
    if (job !== undefined && jobs?.isExpired(job)) return errorResponse(rng.pick([404, 410]), dateHeader());
    if (error !== undefined) {
      if ([302, 400, 422].includes(error.status)) noteProof(undefined);
      return { ...error, headers: { ...dateHeader(), ...error.headers } };
    }
    if (isEmpty && options.upperBoundsAt(world.time.now()) === 'empty rejected') {
      noteProof(undefined);
      return errorResponse(400, dateHeader());
    }

    const missing = job === undefined ? missingNow(exportRequest.parent, cursor, rng) : undefined;
    if (missing !== undefined) return missing;

    const position = cursor === null ? undefined : positions.get(cursor);
    if (cursor !== null && position === undefined && !options.counts)
      return rejectAsViolation(`unknown cursor ${cursor}`);
    const query = JSON.stringify(exportRequest);
    if (position !== undefined && position.query !== query) {
      return rejectAsViolation(`the request changed with the cursor: from ${position.query} to ${query}`);
    }
    if (cursor !== null && options.singleUseCursors && used.has(cursor)) {
      return errorResponse(rng.pick([400, 404, 410]), dateHeader());
    }
    const created = createPage(request, received, position, rng, { query, process, job, site });
    const latencyMs = rng.integerBelow(options.maxLatencyMs);
    const headers = dateHeader(latencyMs - rng.integerBelow(options.maxDateLagMs + 1));
    if (created === 'end') {
      const end = writeEnd(options.endStatus);
      return { ...end, headers: { ...headers, ...end.headers }, latencyMs };
    }
    const { content, page: servedPage } = created;
    // Without this knowledge, the exporter cannot notice it (docs/guarantees.md).
    const isNoticeable = cursor !== null || isEmpty || api.describesPages || options.knowsRoot(process);
    const { response, isOther, isIntact } = send(content, site, rng, { isNoticeable, headers, latencyMs });
    if (!isOther) noteProof(servedPage);
    // Whether or not the client receives it.
    if (cursor !== null && response.truncatedAt === undefined && isIntact) used.add(cursor);
    return response;
  }

  /** The response with the page, which may have a defect. */
  function send(
    content: PageContent,
    site: string,
    rng: Rng,
    {
      isNoticeable,
      headers,
      latencyMs,
      isFile = false,
    }: {
      readonly isNoticeable: boolean;
      readonly headers: ServiceResponse['headers'];
      readonly latencyMs: number;
      readonly isFile?: boolean;
    },
  ): { readonly response: ServiceResponse; readonly isOther: boolean; readonly isIntact: boolean } {
    const respondWith = (written: Pick<ServiceResponse, 'headers' | 'body'>): ServiceResponse => {
      const framed = {
        ...written,
        status: 200,
        headers: { ...headers, ...written.headers, ...framing(written.body) },
        latencyMs,
      };
      return options.compresses && written.headers['content-encoding'] === undefined ? compressed(framed) : framed;
    };
    const isOther = isNoticeable && api.isChecked && world.injectFault('other-document', site);
    const page = isOther ? api.otherDocument(world.rng(`${site}/other-document`), content) : api.write(content);
    const encoded = respondWith(page);
    // A file says nothing of the next one.
    const wrong = () =>
      (isFile ? [{ ...page, headers: { ...page.headers, 'content-encoding': 'compress' } }] : api.wrong(content)).map(
        respondWith,
      );
    const response = injectWrongDate(injectDefect(encoded, wrong, rng, site), site);
    return { response, isOther, isIntact: !isOther && response.body.equals(encoded.body) };
  }

  /** The response to a request that creates a job or asks for it. */
  function respondAboutJob(request: ServiceRequest, site: string, process: Process): ServiceResponse {
    if (jobs === undefined) return rejectAsViolation(`unexpected ${request.path}`);
    const rng = world.rng(`${site}/response`);
    const isCreate = request.method === 'POST';
    if (isCreate) options.jobChecks.onCreate(process);
    const error = injectErrorResponse(world, rng, site, false, now());
    if (error !== undefined) {
      // It may have created the job all the same.
      const isLost = isCreate && (error.silentMs !== undefined || [500, 502, 504].includes(error.status));
      if (isLost && rng.chance(0.5)) jobs.create(request, site, process);
      return { ...error, headers: { ...dateHeader(), ...error.headers } };
    }
    const missing = isCreate ? missingNow(jobs.parentIn(request), null, rng) : undefined;
    if (missing !== undefined) return missing;
    const written = jobs.respond(request, site, process);
    if (typeof written === 'string') return rejectAsViolation(written);
    const latencyMs = rng.integerBelow(options.maxLatencyMs);
    const headers = { ...dateHeader(latencyMs - rng.integerBelow(options.maxDateLagMs + 1)), ...written.headers };
    const length = { 'content-length': String(written.body.length) };
    const response = injectWrongDate({ ...written, headers: { ...headers, ...length }, latencyMs }, site);
    if (!world.injectFault('body-truncated', site)) return response;
    return { ...response, truncatedAt: rng.integerBelow(written.body.length - 1) };
  }

  /** The response of the host with the files of results. It must not get the credentials of the service. */
  function respondWithFile(request: ServiceRequest, site: string, process: Process): ServiceResponse {
    const file = jobs?.fileIn(request);
    const hasKey = Object.keys(request.headers).some((name) => /key|authorization/i.test(name));
    if (hasKey) return rejectAsViolation('a host of files gets credentials');
    if (file === undefined || jobs === undefined) return rejectAsViolation(`unexpected ${request.path}`);
    if (file.isExpired) return errorResponse(403);
    const { job, name } = file;
    const rng = world.rng(`${site}/response`);
    const error = injectErrorResponse(world, rng, site, true, now());
    if (error !== undefined) {
      job.isDoubtful = true;
      return error;
    }
    const reports = jobs.reportsOfFile(job, name);
    const content = contentOf(reports, null, job.createdAt);
    const places = jobs.cursorsOfFile(job, name);
    for (const place of places) {
      addServed(content, { ...pageOfJob(job), ...place, reports, asOf: job.createdAt, run: runOf(process) });
    }
    // As for a page without a cursor: the file is page 1 in an order in which the exporter may have the files.
    const canBeFirst = places.some(({ cursor }) => cursor === null);
    const isNoticeable = !canBeFirst || api.describesPages || options.knowsRoot(process);
    const latencyMs = rng.integerBelow(options.maxLatencyMs);
    return send(content, site, rng, { isNoticeable, headers: {}, latencyMs, isFile: true }).response;
  }

  const contentOf = (reports: readonly SimulatedReport[], nextCursor: string | null, asOf: number): PageContent => ({
    reports: reports.map((each) => stateOf(each, asOf)),
    nextCursor,
    padding: options.padding,
  });

  /** Remembers the page, and returns it. */
  function addServed(content: PageContent, page: Omit<ServedPage, 'sha256'>): ServedPage {
    const sha256 = createHash('sha256').update(api.write(content).body).digest('hex');
    const added = { ...page, sha256 };
    served.set(page.cursor, [...(served.get(page.cursor) ?? []), added]);
    return added;
  }

  /** The response about a parent that does not exist now, or fails. */
  function missingNow(parent: string | undefined, cursor: string | null, rng: Rng): ServiceResponse | undefined {
    const at = world.time.now();
    const isNow = ({ parents, from, until }: MissingParents) =>
      parents.includes(parent ?? '') && from <= at && at < until;
    const kinds = options.missingParents.filter(isNow).map(({ kind }) => kind);
    if (parent !== undefined && cursor === null && kinds.includes('gone')) {
      const status = rng.pick([404, 410]);
      gone.add(`${parent} ${status}`);
      return errorResponse(status, dateHeader());
    }
    return kinds.includes('failing') ? errorResponse(rng.pick([403, 422]), dateHeader()) : undefined;
  }

  function rejectAsViolation(problem: string): ServiceResponse {
    world.violate('requests follow the service contract', problem);
    return { status: 400, headers: {}, body: Buffer.from(problem) };
  }

  function createPage(
    request: ServiceRequest,
    { filter, size = pageSize, cursor, parent }: ExportRequest,
    position: CursorPosition | undefined,
    rng: Rng,
    {
      query,
      process,
      job,
      site,
    }: {
      readonly query: string;
      readonly process: Process;
      readonly job: ReportJob | undefined;
      readonly site: string;
    },
  ): { readonly content: PageContent; readonly page: ServedPage } | 'end' {
    const { lt } = filter.date;
    const since = job?.since ?? Date.parse(filter.date.gte);
    const until = job?.until ?? (lt === undefined ? Number.POSITIVE_INFINITY : Date.parse(lt));
    const asOf = job?.createdAt ?? (snapshots && position !== undefined ? position.firstPageAt : now());
    const upperBounds = options.upperBoundsAt(world.time.now());
    const end = upperBounds === 'ignored' ? Number.POSITIVE_INFINITY : until + (upperBounds === 'included' ? 1 : 0);
    const matching = job?.reports ?? timeline.matching(since, asOf, parent).filter(({ date }) => date < end);
    const from = options.counts ? Number(cursor ?? 0) : 0;
    const remaining =
      position === undefined ? matching.slice(from) : matching.filter((report) => isAfter(report, position.after));
    // The last report of the page before comes again, in the place of another one.
    const repeated = from > 0 && remaining.length > 0 ? matching[from - 1] : undefined;
    if (repeated !== undefined && world.injectFault('reports-swapped', site)) remaining[0] = repeated;
    if (cursor !== null && remaining.length === 0 && options.endStatus !== undefined) {
      ended.set(cursor, asOf);
      return 'end';
    }
    const reports = remaining.slice(0, size);
    const last = reports.at(-1);
    let nextCursor = options.counts && last !== undefined ? String(from + reports.length) : null;
    if (
      !options.counts &&
      last !== undefined &&
      (reports.length < remaining.length || options.endStatus !== undefined)
    ) {
      const previousCursors = cursor === null ? [] : [...(position?.previousCursors ?? []), cursor];
      const next: CursorPosition = {
        since,
        until,
        query,
        after: last,
        firstPageAt: position?.firstPageAt ?? asOf,
        page: (position?.page ?? 0) + 1,
        previousCursors,
      };
      nextCursor = api.toCursor(createCursor(next, options, rng), request);
      const canRepeat = previousCursors.length > 0 && !options.freshCursors;
      if (canRepeat && world.injectFault('cursor-cycle', `at ${nextCursor}`)) {
        cycles.set(nextCursor, rng.pick(previousCursors));
        if (job !== undefined) job.isDoubtful = true;
      }
      if (!positions.has(nextCursor)) positions.set(nextCursor, next);
      nextCursor = cycles.get(nextCursor) ?? nextCursor;
      // Once only: the pages continue from there, and may then be others.
      if (canRepeat && world.injectFault('cursor-repeated', `at ${nextCursor}`)) {
        nextCursor = rng.chance(0.5) ? (previousCursors.at(-1) ?? nextCursor) : rng.pick(previousCursors);
        if (job !== undefined) job.isDoubtful = true;
      }
    }
    const content = contentOf(reports, nextCursor, job?.createdAt ?? now());
    const requestMark = /other-request-[\w.-]+/.exec(JSON.stringify(request))?.[0];
    const requested = job ? pageOfJob(job) : { since, until, upperBounds, requestMark, parent, job: undefined };
    return {
      content,
      page: addServed(content, { ...requested, cursor, nextCursor, reports, asOf, run: runOf(process) }),
    };
  }

  function framing(body: Buffer): Record<string, string> {
    if (options.framing === 'none') return {};
    return options.framing === 'length'
      ? { 'content-length': String(body.length) }
      : { 'transfer-encoding': 'chunked' };
  }

  /** The page as it is, or with a defect that the client must notice. `wrong`: those that its API can have. */
  function injectDefect(
    page: ServiceResponse,
    wrong: () => readonly ServiceResponse[],
    rng: Rng,
    site: string,
  ): ServiceResponse {
    // Truncated within the closing tag of the root at the latest: without a stated length, missing white space after it
    // cannot be noticed.
    if (world.injectFault('body-truncated', site)) {
      return { ...page, truncatedAt: rng.integerBelow(page.body.length - 1) };
    }
    if (world.injectFault('body-stalls', site)) {
      return { ...page, chunkIntervalMs: rng.pick([20_000, 45_000, 100_000]) };
    }
    // Corruption shows in a format that is checked, and in a checksum.
    if ((api.isChecked || options.compresses) && world.injectFault('body-corrupted', site)) {
      const body = Buffer.from(page.body);
      const at = rng.integerBelow(body.length);
      if (options.compresses) body.writeUInt8(body.readUInt8(at) ^ 1, at);
      else body.write(api.corruption(rng), at);
      return { ...page, body };
    }
    return world.injectFault('invalid-headers', site) ? rng.pick(wrong()) : page;
  }

  /** One Date of a wrong clock, such as that of a proxy, among good ones. */
  function injectWrongDate(page: ServiceResponse, site: string): ServiceResponse {
    if (page.headers.date === undefined || !world.injectFault('wrong-date', site)) return page;
    const offsets = [
      -72 * hour,
      -5 * hour,
      -hour / 2,
      ...(options.datesMayLead ? [hour / 2, 5 * hour, 72 * hour] : []),
    ];
    const date = new Date(now() + world.rng(`${site}/date`).pick(offsets)).toUTCString();
    return { ...page, headers: { ...page.headers, date } };
  }

  /** `inMs`: how long from now the response is sent. */
  const dateHeader = (inMs = 0): Record<string, string> =>
    hasDate ? { date: new Date(now() + inMs).toUTCString() } : {};

  return {
    respond,
    now,
    jobs,
    retryAfterCount: () => retryAfterCount,
    counts: options.counts,
    needsUpperBound: options.needsUpperBound,
    listsAll: options.listsAll,
    dateUnitMs: options.dateUnitMs,
    servedPages: (cursor) => served.get(cursor) ?? [],
    hasGone: (parent, status) => gone.has(`${parent} ${status}`),
    endedAt: (cursor) => ended.get(cursor ?? ''),
    endStatus: options.endStatus,
    proofs: (processId) => proofs.get(processId) ?? [],
  };
}

export const headerOf = ({ headers }: ServiceRequest, name: string): string | undefined =>
  Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];

/** A response that is no page, and ends the pages. */
const writeEnd = (status = 204): ServiceResponse =>
  status === 204
    ? { status, headers: {}, body: Buffer.of() }
    : { status, headers: { 'content-type': 'application/json' }, body: Buffer.from('{"code": "no more pages"}\n') };

/** A request about a job has none of the fields of a request for a page. */
const aboutJob: ExportRequest = { filter: { date: { gte: '' } }, cursor: null };

/** What was requested when the job was created. */
const pageOfJob = ({ id, since, until, parent, requestMark }: ReportJob) =>
  ({ job: id, since, until, parent, requestMark, upperBounds: 'honored' }) as const;

const runOf = ({ payload }: Process): string | undefined =>
  (payload.input as { readonly run?: string } | undefined)?.run;

const errorResponse = (status: number, headers: ServiceResponse['headers'] = {}): ServiceResponse => ({
  status,
  headers: { 'content-type': 'text/html', ...headers },
  body: Buffer.from(`<html><body>${status}</body></html>`),
});

/** A response without a page, if one of these faults occurs. */
function injectErrorResponse(
  world: World,
  rng: Rng,
  site: string,
  hasCursor: boolean,
  now: number,
): ServiceResponse | undefined {
  const response = errorResponse;
  if (world.injectFault('no-response', site)) return { ...response(200), silentMs: rng.between(61_000, 400_000) };
  if (world.injectFault('service-throttles', site)) {
    const retryAfter = rng.pick<Record<string, string>>([
      {},
      { 'retry-after': '0' },
      { 'retry-after': '7' },
      { 'retry-after': '90' },
    ]);
    return response(rng.pick([429, 503]), retryAfter);
  }
  if (world.injectFault('service-requests-long-wait', site)) {
    const seconds = rng.pick([300, 1_200, 9_000]);
    const until = new Date(now + seconds * 1_000).toUTCString();
    return response(rng.pick([429, 503]), { 'retry-after': rng.chance(0.5) ? String(seconds) : until });
  }
  if (world.injectFault('service-error', site)) return response(rng.pick([500, 502, 503, 504, 408, 206, 599]));
  if (world.injectFault('service-rejects-key', site)) return response(rng.pick([401, 403]));
  if (world.injectFault('service-redirects', site)) return response(302, { location: 'https://elsewhere.example/' });
  if (hasCursor && world.injectFault('cursor-rejected', site)) return response(rng.pick([400, 404, 410]));
  if (!hasCursor && world.injectFault('service-rejects-request', site)) return response(rng.pick([400, 422]));
  return undefined;
}

const isAfter = (report: SimulatedReport, other: SimulatedReport): boolean =>
  report.date > other.date || (report.date === other.date && report.ordinal > other.ordinal);

/** At the level at which zlib stores what it cannot compress: so corruption may show in the checksum only. */
function compressed(page: ServiceResponse): ServiceResponse {
  const body = gzipSync(page.body, { level: 0 });
  const headers: Record<string, string | string[]> = { ...page.headers, 'content-encoding': 'gzip' };
  if (headers['content-length'] !== undefined) headers['content-length'] = String(body.length);
  return { ...page, headers, body };
}

/** In the contract's form: 13 digits, a comma, hyphenated hexadecimal groups. */
function createCursor(
  { after, firstPageAt, page, since, until }: CursorPosition,
  { cursors, freshCursors }: Pick<ServiceOptions, 'cursors' | 'freshCursors'>,
  rng: Rng,
): string {
  const hex = (value: number, digits: number) =>
    Math.abs(Math.floor(value)).toString(16).padStart(digits, '0').slice(-digits);
  const bound = Number.isFinite(until) ? until * 7 : 0;
  const number = String(Math.floor(after.date)).padStart(13, '0').slice(-13);
  const stable = `${number},${hex(after.ordinal, 8)}-${hex(page, 4)}-4000-8000-${hex(firstPageAt * 31 + since + bound, 12)}`;
  const cursor = freshCursors ? `${stable.slice(0, -6)}${hex(rng.integerBelow(0x1000000), 6)}` : stable;
  return cursors === 'contract' ? cursor : `${cursor}-${'c'.repeat(900)}`;
}

const stateOf = ({ id, revisedAt, date }: SimulatedReport, at: number) => ({
  id,
  revision: revisedAt !== undefined && revisedAt <= at ? 2 : 1,
  date,
});
