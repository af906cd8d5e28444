/**
 * Builds complete, plausible values, so that a test specifies only what matters to it.
 * Names and keys are unique, so that tests can share a bucket, a table or a directory.
 */

import { createHash, randomBytes } from 'node:crypto';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import {
  asCursor,
  asRunId,
  type Cursor,
  type EndEntry,
  type ExportDefinition,
  type ExportRequest,
  type ExportState,
  type Instant,
  type JobRecord,
  type LatestPointer,
  type PageEntry,
  type ProgressRecord,
  type PageTiming,
  type Run,
  type RunId,
  type RunLimits,
  type RunResult,
  type Watermark,
} from '../../lib/core/model.ts';
import type {
  ChainRef,
  FetchOptions,
  PageIdentity,
  PageLog,
  PageRequest,
  PageSpool,
  PageStore,
  ReceivedPage,
  ReportService,
} from '../../lib/core/ports.ts';
import type { LocalExport } from '../../lib/local/settings.ts';
import type { ExportSettings } from '../../lib/settings/settings.ts';
import { aDeployment } from './settings.ts';

/** `text`, which must be in canonical form, as an Instant. */
export const at = (text: string): Instant => text as Instant;

export const sha256Of = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** A unique name, such as `reports-1f3a5c2e4b6d`. */
export const anExportName = (prefix = 'reports'): string => `${prefix}-${randomBytes(6).toString('hex')}`;

export const aRunId = (): RunId => asRunId(`20261120T020000Z-${randomBytes(6).toString('hex')}`);

/** A cursor in the form of docs/service-contract.md, section 2.2: 13 digits, a comma, hyphenated hexadecimal groups. */
export function aCursor(): Cursor {
  const hex = randomBytes(16).toString('hex');
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)];
  return asCursor(`1588888888888,${groups.join('-')}`);
}

export function anExportRequest(overrides: Partial<ExportRequest> = {}): ExportRequest {
  const sha256 = sha256Of('the settings of the service');
  const api = { sha256, requestSha256: sha256 };
  const reportsAt = { kind: 'xml', path: '/*/*' } as const;
  return { source: 'simulator', filter: {}, format: 'XML', container: 'NONE', reportsAt, api, ...overrides };
}

/** On this machine, of a simulator unless `service` has a base URL. */
export const aLocalExport = ({
  service = {},
  export: settings = {},
}: {
  service?: object;
  export?: object;
}): LocalExport => {
  const { baseUrl } = service as { readonly baseUrl?: string };
  const parsed = aDeployment({ baseUrl: 'http://127.0.0.1', ...service }, { name: 'a', ...settings });
  return {
    service: { ...parsed.service, baseUrl },
    export: parsed.exports[0] as ExportSettings,
    apiKeyEnv: 'KEY',
  };
};

export function someLimits(overrides: Partial<RunLimits> = {}): RunLimits {
  return {
    iterationsPerExecution: 2_000,
    pagesPerInvocation: 1,
    maxCursorRestarts: 1,
    maxInlineWaitSeconds: 10,
    maxRetryAfterSeconds: 86_400,
    maxConsecutiveWaits: 5,
    goneAtMostPercent: 2,
    maxEmptyPages: 1_000,
    ...overrides,
  };
}

export function anExportDefinition(overrides: Partial<ExportDefinition> = {}): ExportDefinition {
  const { name = anExportName() } = overrides;
  return {
    name,
    stateName: name,
    request: anExportRequest(),
    dates: { unitMs: 1_000, zone: 'UTC', upperBound: 'date.lt' },
    since: { from: 'watermark', overlapMs: 0 },
    lagMs: 0,
    slicing: { parallel: 1 },
    publishEmptyRuns: true,
    limits: someLimits(),
    ...overrides,
  };
}

export function aRun(overrides: Partial<Run> = {}): Run {
  return {
    export: anExportName(),
    run: aRunId(),
    sequence: 1,
    since: at('2026-11-01T00:00:00Z'),
    lagMs: 0,
    request: anExportRequest(),
    startedAt: at('2026-11-20T02:00:00Z'),
    startedBy: `execution-${randomBytes(6).toString('hex')}`,
    execution: `execution-${randomBytes(6).toString('hex')}`,
    executionNumber: 1,
    ...overrides,
  };
}

export const aJobRecord = (overrides: Partial<JobRecord> = {}): JobRecord => ({
  run: aRunId(),
  attempt: 1,
  execution: 'execution-1',
  phase: 'waiting',
  createdAt: at('2026-11-20T02:00:00Z'),
  asOf: at('2026-11-20T02:00:00Z'),
  id: '7f3a',
  status: 'IN_PROGRESS',
  statusSince: at('2026-11-20T02:01:00Z'),
  pollAt: at('2026-11-20T02:02:00Z'),
  unanswered: 0,
  ...overrides,
});

export function aProgressRecord(overrides: Partial<ProgressRecord> = {}): ProgressRecord {
  return {
    run: aRunId(),
    generation: 0,
    begun: 5,
    open: [4, 5],
    setAside: [2],
    failures: [{ slice: 2, error: 'ContractError', message: 'no XML' }],
    done: { pages: 7, reports: null, bytes: 700 },
    gone: 1,
    skipped: 0,
    documentRoot: asDocumentRoot('reports'),
    loggedAt: at('2026-11-20T02:00:09.123Z'),
    ...overrides,
  };
}

/** A run with all optional fields and a request with unusual values, to test that a store keeps them. */
export function aFullRun(overrides: Partial<Run> = {}): Run {
  return aRun({
    until: at('2026-11-19T00:00:00Z'),
    bounded: true,
    lagMs: 60_000,
    slices: {
      count: 18,
      lengthMs: 86_400_000,
      parallel: 4,
    },
    attempts: { 3: 2 },
    restarts: { 3: 1 },
    passes: { 3: { ids: null, reports: 3, serviceTime: null } },
    generation: 2,
    request: anExportRequest({
      source: 'https://service.example/api',
      filter: {
        region: 'Zürich "北" \u2028 🜁',
        nested: { list: [1, 2.5, -0.25, true, null, '', { '': 'empty name' }], none: {}, nothing: [] },
      },
      size: 10,
    }),
    scheduledTime: '2026-11-20T02:00:00Z',
    documentRoot: asDocumentRoot('{https://service.example/}reports'),
    completion: {
      at: at('2026-11-20T03:00:00.123Z'),
      watermark: at('2026-11-20T01:59:58Z'),
      isPublished: true,
    },
    lastFailure: {
      error: 'ServiceUnavailableError',
      message: 'Report service responded with 503\nfor page 7',
      at: at('2026-11-20T02:30:00Z'),
    },
    ...overrides,
  });
}

/** A watermark of `anExportRequest`. */
export function aWatermark(overrides: Partial<Watermark> = {}): Watermark {
  const { source, filter, api } = anExportRequest();
  return { instant: at('2026-11-19T02:00:00Z'), source, filter, requestSha256: api.requestSha256, ...overrides };
}

/** A state of version 1 without an active run. */
export function anExportState(overrides: Partial<ExportState> = {}): ExportState {
  return { export: anExportName(), version: 1, sequence: 0, ...overrides };
}

export function aRunResult(overrides: Partial<RunResult> = {}): RunResult {
  const exportName = overrides.export ?? anExportName();
  const run = overrides.run ?? aRunId();
  return {
    export: exportName,
    run,
    since: at('2026-11-01T00:00:00Z'),
    watermark: at('2026-11-20T02:00:01Z'),
    pages: 3,
    reports: 250,
    bytes: 123_456,
    manifest: `${aRunFolder(exportName, run)}/manifest.json`,
    ...overrides,
  };
}

/** What the export state has of its newest completed run. */
export function aCompletion(
  execution: string,
  overrides: Partial<RunResult> = {},
): NonNullable<ExportState['lastCompleted']> {
  const completedAt = at('2026-11-20T02:10:00Z');
  const { instant: _, ...selection } = aWatermark();
  return { execution, completedAt, lastReportsAt: completedAt, result: aRunResult(overrides), selection };
}

/** Where a run's objects are stored (docs/architecture.md, "Stored data"). */
export const aRunFolder = (exportName = anExportName(), run = aRunId()): string =>
  `${exportName}/date=2026-11-20/run=${run}`;

/** By default, `page-000001.xml` in the folder of a new run; with `compression`, `page-000001.xml.gz`. */
export function aPageIdentity(overrides: Partial<PageIdentity> & { readonly folder?: string } = {}): PageIdentity {
  const { folder, ...given } = overrides;
  const run = given.run ?? aRunId();
  const page = given.page ?? 1;
  return {
    key: `${folder ?? aRunFolder(anExportName(), run)}/page-${String(page).padStart(6, '0')}.xml${given.compression ? '.gz' : ''}`,
    run,
    page,
    cursor: page === 1 ? null : aCursor(),
    ...given,
  };
}

/** By default, the entry of page 1 of a new run, with a next cursor. */
export function aPageEntry(overrides: Partial<PageEntry> = {}): PageEntry {
  const exportName = overrides.export ?? anExportName();
  const identity = aPageIdentity({
    run: overrides.run ?? aRunId(),
    page: overrides.page ?? 1,
  });
  const bytes = overrides.bytes ?? 4_096;
  const reports = overrides.reports === undefined ? 100 : overrides.reports;
  return {
    kind: 'page',
    export: exportName,
    run: identity.run,
    page: identity.page,
    key: `${aRunFolder(exportName, identity.run)}/page-${String(identity.page).padStart(6, '0')}.xml`,
    bytes,
    sha256: sha256Of(`${identity.run}/${identity.page}`),
    revision: null,
    reports,
    documentRoot: reports === null ? null : asDocumentRoot('reports'),
    cursor: identity.cursor,
    nextCursor: aCursor(),
    serviceTime: at('2026-11-20T02:00:01Z'),
    loggedAt: at('2026-11-20T02:00:02.345Z'),
    timing: { requestedAt: at('2026-11-20T02:00:01.250Z'), latencyMs: 480 },
    totals: { reports: reports === null ? null : reports * identity.page, bytes: bytes * identity.page },
    cycle: null,
    repeats: false,
    emptyPages: 0,
    equalPages: 1,
    ...overrides,
  };
}

/** The end after `page`. */
export function anEndEntry(page: PageEntry, overrides: Partial<EndEntry> = {}): EndEntry {
  const { export: exportName, run, slice, attempt, nextCursor, totals, serviceTime, documentRoot } = page;
  return {
    kind: 'end',
    export: exportName,
    run,
    ...(slice !== undefined && { slice, attempt }),
    page: page.page + 1,
    reason: 'last',
    status: 204,
    cursor: nextCursor,
    loggedAt: page.loggedAt,
    totals,
    serviceTime,
    documentRoot,
    ...overrides,
  };
}

/** The entries of the chain that are pages. */
export async function loggedPages(log: Pick<PageLog, 'entries'>, chain: ChainRef): Promise<PageEntry[]> {
  return (await collect(log.entries(chain))).filter((entry) => entry.kind === 'page');
}

export function aLatest(overrides: Partial<LatestPointer> = {}): LatestPointer {
  const exportName = overrides.export ?? anExportName();
  const run = overrides.run ?? aRunId();
  return {
    export: exportName,
    run,
    sequence: 1,
    completedAt: at('2026-11-20T03:00:00Z'),
    manifest: `${aRunFolder(exportName, run)}/manifest.json`,
    ...overrides,
  };
}

export interface FetchedPageParts {
  /** Text and bytes are one chunk, or none if empty. An iterable is passed through, including its errors. */
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly nextCursor?: Cursor | null;
  readonly serviceTime?: Instant | null;
  readonly contentType?: string;
  readonly transferredBytes?: number;
  readonly timing?: PageTiming;
  readonly reports?: number | null;
  readonly reportsDigest?: string | undefined;
  /** Null by default if `reports` is, otherwise `reports`. */
  readonly documentRoot?: string | null;
}

/** A response of the service: what it says of a page, and the bytes of the page. */
export interface FetchedPage extends ReceivedPage {
  readonly body: AsyncIterable<Uint8Array>;
}

let fetchedPages = 0;

/** A valid response of the service, unless its body throws. Its reports are those of no other page. */
export function aFetchedPage(parts: FetchedPageParts = {}): FetchedPage {
  const { body = '<reports><report/></reports>', reports = 1 } = parts;
  const { documentRoot = reports === null ? null : 'reports' } = parts;
  async function* read(): AsyncGenerator<Uint8Array> {
    if (typeof body !== 'string' && !(body instanceof Uint8Array)) yield* body;
    else if (body.length > 0) yield Buffer.from(body);
  }
  return {
    kind: 'page',
    nextCursor: parts.nextCursor === undefined ? aCursor() : parts.nextCursor,
    serviceTime: parts.serviceTime === undefined ? at('2026-11-20T02:00:01Z') : parts.serviceTime,
    timing: parts.timing ?? { requestedAt: at('2026-11-20T02:00:00Z'), latencyMs: 0 },
    contentType: parts.contentType ?? 'application/xml;charset=UTF-8',
    transferredBytes: parts.transferredBytes,
    reportsDigest: parts.reportsDigest ?? String((fetchedPages += 1)),
    reports,
    documentRoot: documentRoot === null ? null : asDocumentRoot(documentRoot),
    documentRootText: () => documentRoot ?? '',
    excerpt: () => 'the beginning of the body',
    hints: () => ({}),
    body: read(),
  };
}

/** Passes the page on as `ReportService.fetch` does, with its next cursor in the headers. */
export async function respondWith(page: FetchedPage, { sink, onNextCursor }: FetchOptions): Promise<ReceivedPage> {
  await Promise.resolve();
  onNextCursor?.(page.nextCursor);
  await sink(page.body);
  return page;
}

/** Fetches a page into memory. */
export async function fetchPage(
  service: ReportService,
  request: PageRequest,
  signal?: AbortSignal,
): Promise<ReceivedPage & { readonly body: Buffer }> {
  let chunks: Uint8Array[] = [];
  const sink = async (body: AsyncIterable<Uint8Array>) => {
    chunks = await collect(body);
  };
  const received = await service.fetch(request, { sink, signal });
  if (received.kind === 'end') throw new Error('The page before was the last one');
  return { ...received, body: Buffer.concat(chunks) };
}

/** Stores a page at once. */
export async function putPage(store: PageStore, identity: PageIdentity, page: FetchedPage) {
  await using spool = store.spool(identity);
  await spool.fill(page.body);
  return await spool.put(page);
}

/** `store`, with spools of which `change` replaces some functions. */
export const withSpools = <Store extends PageStore>(
  store: Store,
  change: (spool: PageSpool, identity: PageIdentity) => Partial<PageSpool>,
): Store => ({
  ...store,
  spool(identity) {
    const spool = store.spool(identity);
    return { ...spool, ...change(spool, identity) };
  },
});

/** Random bytes, which a store that treats them as text would change. */
export const randomBody = (length: number): Uint8Array => new Uint8Array(randomBytes(length));

/** `bytes` in chunks of random size, up to `maxBytes` each. */
export function* inRandomChunks(bytes: Uint8Array, maxBytes = 65_536): Generator<Uint8Array> {
  for (let start = 0; start < bytes.length;) {
    const end = start + 1 + Math.floor(Math.random() * maxBytes);
    yield bytes.subarray(start, end);
    start = end;
  }
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
