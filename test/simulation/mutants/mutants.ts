/**
 * Ways to break the protocol: faults at its ports and in its decisions. If the simulation finds all of them, a
 * simulation without violations means something. Two name the same invariant only if they break it in another way.
 */

import { ExportError, isExportError } from '../../../lib/core/errors.ts';
import {
  asCursor,
  type Cursor,
  type ExportState,
  type JobRecord,
  type LogEntry,
  type LoopState,
  type Parents,
  type Run,
} from '../../../lib/core/model.ts';
import type {
  ChainRef,
  PageLog,
  PageRequest,
  PageSpool,
  Received,
  ReceivedPage,
  ReportService,
  Versioned,
} from '../../../lib/core/ports.ts';
import type { ExportPageOutcome, parkedOutcome } from '../../../lib/core/steps/loop-outcome.ts';
import type { foldContent } from '../../../lib/core/storage/run-content.ts';
import type { readLatestPointer } from '../../../lib/core/storage/published-runs.ts';
import type { coverParents, storeCoverage } from '../../../lib/core/parents/coverage.ts';
import { keyOf } from '../../../lib/core/parents/plan.ts';
import { epochMsOf, instantOf } from '../../../lib/core/timestamps.ts';
import type { Invariant } from '../invariants/invariant-names.ts';
import type { Command } from '../world/sdk-clients.ts';
import {
  type Call,
  type DecidedRun,
  type Fault,
  inDecision,
  inJobRecords,
  inLog,
  inPolls,
  inPorts,
  inReads,
  inRequests,
  inService,
  inSettings,
  inSlots,
  inSpools,
  inStatuses,
  inStep,
  inStore,
  inWatermark,
  inWrites,
  without,
} from './fault.ts';

export interface Mutant {
  /** What the broken protocol does. */
  readonly name: string;
  /** What the simulation must report. Other invariants may be violated in other histories. */
  readonly violates: Invariant;
  readonly faults: readonly Fault[];
  /** Where the search begins, for a mutant that few histories find. Absent: with seed 1. */
  readonly firstSeed?: number;
  /** Whether the histories have report jobs. */
  readonly jobs?: boolean;
}

const valuesOf = (parents: Parents | undefined): readonly string[] =>
  parents !== undefined && 'values' in parents ? parents.values : [];
const keyIn = ({ input }: Command): string => (input as { readonly Key?: string }).Key ?? '';
const sortKeyIn = ({ input }: Command): string =>
  (input as { readonly Item?: { readonly sk?: { readonly S?: string } } }).Item?.sk?.S ?? '';

/** Each page is stored as soon as it is received. */
const storedWhenReceived: readonly Fault[] = inPorts(
  ({ service, store }) => {
    const stored = new Map<PageSpool, ReturnType<PageSpool['put']>>();
    /** The spool whose `fill` was called last. */
    let filled: PageSpool | undefined;
    return {
      service: {
        async fetch(request, options) {
          let own: PageSpool | undefined;
          const sink: typeof options.sink = (body) => {
            const filling = options.sink(body);
            own = filled;
            return filling;
          };
          filled = undefined;
          const received = await service.fetch(request, { ...options, sink });
          if (own !== undefined && received.kind === 'page') {
            const put = own.put(received);
            // It may fail before the step waits for it.
            put.catch(() => {});
            stored.set(own, put);
          }
          return received;
        },
      },
      store: {
        ...store,
        spool(identity) {
          const spool = store.spool(identity);
          return {
            ...spool,
            fill(body) {
              filled = spool;
              return spool.fill(body);
            },
            put: (received) => stored.get(spool) ?? spool.put(received),
          };
        },
      },
    };
  },
  ['ExportPage'],
);

/** The entries of a pass, whose reports have the IDs 1, 2, 3, and so on. */
async function* numbered(entries: AsyncIterable<LogEntry>): AsyncGenerator<LogEntry> {
  let count = 0n;
  for await (const entry of entries) {
    if (entry.kind === 'end' || entry.ids === undefined) yield entry;
    else {
      const ids = Buffer.from(entry.ids, 'base64');
      for (let at = 0; at < ids.length; at += 8) ids.writeBigUInt64LE((count += 1n), at);
      yield { ...entry, ids: ids.toString('base64') };
    }
  }
}

/** The entries of a pass, without the IDs that an earlier page has, too. */
async function* withoutRepeatedIds(entries: AsyncIterable<LogEntry>): AsyncGenerator<LogEntry> {
  const seen = new Set<string>();
  for await (const entry of entries) {
    const { ids = '' } = entry.kind === 'page' ? entry : {};
    const added = (Buffer.from(ids, 'base64').toString('hex').match(/.{16}/g) ?? []).filter((id) => !seen.has(id));
    for (const id of added) seen.add(id);
    yield entry.kind === 'page' ? { ...entry, ids: Buffer.from(added.join(''), 'hex').toString('base64') } : entry;
  }
}

/** The pages of the pass before, as though the last one of them were the last page. */
async function* passBefore(log: PageLog, chain: ChainRef): AsyncGenerator<LogEntry> {
  const { attempt = 1, slice: _, ...run } = chain;
  const before = attempt > 2 ? { ...chain, attempt: attempt - 1 } : run;
  const last = await log.last(before);
  for await (const entry of log.entries(attempt > 1 ? before : chain))
    yield entry.kind === 'page' && entry.page === last?.page ? { ...entry, nextCursor: null } : entry;
}

/** The body without its last chunk. */
async function* cutOff(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let before: Uint8Array | undefined;
  for await (const chunk of body) {
    if (before !== undefined) yield before;
    before = chunk;
  }
}

const withoutRepeats = <Entry extends LogEntry | undefined>(entry: Entry): Entry =>
  entry?.kind === 'page' ? { ...entry, repeats: false } : entry;

const isProof = ({ since, until, cursor }: PageRequest): boolean => cursor === null && since === until;

const withoutRoot = (received: Received): Received =>
  received.kind === 'page' ? { ...received, documentRoot: null } : received;

const emptyPage: ReceivedPage = {
  kind: 'page',
  nextCursor: null,
  reports: 0,
  serviceTime: null,
  documentRoot: null,
  contentType: 'application/xml',
  timing: { requestedAt: instantOf(0), latencyMs: 0 },
  documentRootText: () => '',
  excerpt: () => '',
  hints: () => ({}),
};

/** The ID of a new job is in memory until the next write. */
const heldIds = (): readonly Fault[] => {
  const held = new Map<string, Versioned<JobRecord>>();
  return inJobRecords((record, key) => ({
    read: async () => held.get(key) ?? (await record.read()),
    async replace(read, content) {
      held.delete(key);
      const isFirst = read.content?.phase === 'creating' && content.phase === 'waiting';
      if (!isFirst) return await record.replace(read, content);
      held.set(key, { ...read, content });
      return { ...read, content };
    },
  }));
};

/** A file is known by its number, in whichever list. */
const fileByNumber = (fetch: ReportService['fetch']): ReportService['fetch'] => {
  const digests = new Map<string, string>();
  return async (request, options) => {
    const { job = '', cursor } = request;
    const ofList = (each: Cursor | null) => each && asCursor(each.replace(/\w+$/, digests.get(job) ?? '$&'));
    const onNextCursor: typeof options.onNextCursor = (next) => options.onNextCursor?.(next);
    try {
      return await fetch(request, options);
    } catch (error) {
      if (!isExportError(error) || error.isOtherResult !== true) throw error;
      const learn = (next: Cursor | null) => digests.set(job, /\w+$/.exec(next ?? '')?.[0] ?? '');
      const sink: typeof options.sink = async (body) => {
        for await (const _ of body);
      };
      await fetch({ ...request, cursor: null }, { ...options, sink, onNextCursor: learn });
      return await fetch({ ...request, cursor: ofList(cursor) }, { ...options, onNextCursor });
    }
  };
};

const isNew = ({ kind }: DecidedRun): boolean => kind !== 'resume';

/** The execution of the step seems to own the run. */
const ownedByCaller = (state: ExportState, _: unknown, { execution }: Call): ExportState => ({
  ...state,
  active: state.active && { ...state.active, execution },
});

/** Keeps back the writes of documents that `isLate` names until `isDue` is written. */
const reordered = (isLate: (key: string) => boolean, isDue: (key: string) => boolean): readonly Fault[] =>
  inStore(
    (store) => {
      const late: (() => Promise<void>)[] = [];
      const write = async (key: string, put: () => Promise<void>): Promise<void> => {
        if (isLate(key)) return void late.push(put);
        await put();
        if (isDue(key)) for (const each of late.splice(0)) await each();
      };
      return {
        putDocument: (key, chunks) => write(key, () => store.putDocument(key, chunks)),
        putLatest: (key, ...rest) => write(key, () => store.putLatest(key, ...rest)),
      };
    },
    ['FinishRun'],
  );

async function* withOtherSizes(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const chunk of chunks) yield chunk.replace(/"bytes":\d+/, '"bytes":1');
}

/** The chain of a page, by its key. */
function chainOf(exportName: string, key: string): (ChainRef & { readonly page: number }) | undefined {
  const [, run, slice, attempt = '1', page] = /run=([^/]+)\/page-(?:(\d{6})(?:\.(\d+))?-)?(\d+)\./.exec(key) ?? [];
  if (run === undefined) return undefined;
  const ref = { export: exportName, run: run as Run['run'], page: Number(page) };
  return slice === undefined ? ref : { ...ref, slice: Number(slice), attempt: Number(attempt) };
}

/** ExportPage says that the run has all its pages. */
const finishing = (isEarly: (loop: LoopState) => boolean): Fault =>
  inStep<never, ExportPageOutcome>('ExportPage', (real) => async (deps, command) => {
    const outcome = await real(deps, command);
    return outcome.next === 'page' && isEarly(outcome) ? { ...outcome, next: 'finish' } : outcome;
  });

/** The newest page of each slice seems to be its last one. */
const endedEarly: readonly Fault[] = inLog(
  (log) => {
    const ended = <Entry extends LogEntry | undefined>(entry: Entry): Entry =>
      entry?.kind === 'page' ? { ...entry, nextCursor: null } : entry;
    return {
      last: async (chain) => ended(await log.last(chain)),
      async *entries(chain) {
        const last = await log.last(chain);
        for await (const entry of log.entries(chain)) yield entry.page === last?.page ? ended(entry) : entry;
      },
      async *runEntries(...run) {
        let held: LogEntry | undefined;
        for await (const entry of log.runEntries(...run)) {
          if (held !== undefined) yield held.slice === entry.slice ? held : ended(held);
          held = entry;
        }
        if (held !== undefined) yield ended(held);
      },
    };
  },
  ['FinishRun'],
);

export const mutants: readonly Mutant[] = [
  // How a page is stored and logged
  {
    name: 'a page is stored without a condition',
    violates: 'a visible object never changes',
    faults: [inRequests('S3', (command, perform) => perform(without(command, 'IfNoneMatch')))],
  },
  {
    name: 'a page that is not stored is logged',
    violates: 'a page is stored before it is logged',
    faults: [
      inRequests('S3', (command, perform) => {
        const isPage = command.constructor.name === 'PutObjectCommand' && keyIn(command).includes('/page-');
        return isPage ? { ETag: '"lost"' } : perform(command);
      }),
    ],
  },
  {
    name: 'a log entry is written without a condition',
    violates: 'a log entry never changes',
    faults: [
      inRequests('DynamoDb', (command, perform) =>
        perform(sortKeyIn(command).startsWith('run#') ? without(command, 'ConditionExpression') : command),
      ),
    ],
  },
  {
    name: 'a prefetched page is stored before its predecessor',
    violates: 'pages are stored in order',
    faults: storedWhenReceived,
  },
  {
    name: 'a page counts as logged before its entry is written',
    violates: 'the page log has no gaps',
    faults: inLog((log, { runtime }) => ({
      async append(entry) {
        const delayMs = entry.page % 2 === 0 ? 0 : 2_000;
        const written = runtime.sleep(delayMs).then(() => log.append(entry));
        written.catch(() => {});
        return entry;
      },
    })),
  },
  {
    name: 'the log has another cursor than that of the request',
    violates: 'cursors form a chain',
    faults: inLog((log) => ({
      append: (entry) => log.append(entry.kind === 'page' ? { ...entry, cursor: entry.nextCursor } : entry),
    })),
  },
  {
    name: 'the end of a body is lost',
    violates: 'a page is stored byte for byte',
    faults: inService(
      (fetch) => (request, options) => fetch(request, { ...options, sink: (body) => options.sink(cutOff(body)) }),
    ),
  },
  {
    name: 'a run ends although the service has another page',
    violates: 'a run ends only where the service has ended it',
    faults: inService(
      (fetch) => async (request, options) =>
        request.cursor === null ? await fetch(request, options) : { kind: 'end', reason: 'last', status: 204 },
    ),
  },

  // Stored pages that a later attempt adopts
  {
    name: 'adopting a page ignores its stored next cursor',
    violates: 'the page log agrees with the stored pages',
    faults: inSpools((spool) => ({
      async put(received) {
        const { stored, page } = await spool.put(received);
        return { stored, page: { ...page, nextCursor: received.nextCursor } };
      },
    })),
  },
  {
    name: 'a refused cursor starts the run over although its page is stored',
    violates: 'a run does not start over while its next page is stored',
    faults: inStore(() => ({ find: async () => undefined })),
  },

  // Cursors that repeat, and errors of the service
  {
    name: 'a run with a cursor cycle continues',
    violates: 'no page is logged after a cursor cycle closes',
    faults: inLog((log) => ({
      append: async (entry) => withoutRepeats(await log.append(entry)),
      last: async (chain) => withoutRepeats(await log.last(chain)),
    })),
  },
  {
    name: 'the service asks for half of its Retry-After',
    violates: 'no request is sent before its Retry-After has passed',
    faults: inService((fetch) => async (request, options) => {
      try {
        return await fetch(request, options);
      } catch (error) {
        if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
        const retryAfterSeconds = error.retryAfterSeconds / 2;
        throw new ExportError('ServiceThrottledError', error.message, { retryAfterSeconds });
      }
    }),
  },

  // Limits of the service
  {
    name: 'a slot is returned before its pages are requested',
    violates: 'no more pages are requested at once than maxConcurrentPages',
    faults: inPorts(({ slots }) => ({
      slots: slots && {
        async acquire(options) {
          const slot = await slots.acquire(options);
          await slot?.release();
          return slot;
        },
      },
    })),
  },
  {
    name: 'a slot is taken although none is free',
    violates: 'no more slots are held than maxConcurrentPages',
    faults: [inSlots((real) => (options) => real({ ...options, limit: options.limit + 1 }))],
  },
  {
    name: 'the lease of a slot does not end',
    violates: 'a slot of a killed function becomes free',
    faults: inPorts(({ slots }) => ({
      slots: slots && { acquire: (options) => slots.acquire({ ...options, leaseMs: 86_400_000 }) },
    })),
  },
  {
    name: 'a request takes no place of the rate',
    violates: 'no more requests are sent in a period than rate allows',
    faults: inPorts(({ rate }) => ({ rate: rate && { ...rate, take: async () => {} } })),
  },

  // The export state, and the runs that executions begin
  {
    name: 'export state is replaced without a condition',
    violates: 'export state replaces the version that was read',
    faults: [
      inRequests('DynamoDb', (command, perform) => {
        const condition = ['ConditionExpression', 'ExpressionAttributeValues'];
        return perform(sortKeyIn(command) === 'state' ? without(command, ...condition) : command);
      }),
    ],
  },
  {
    name: 'export state loses the fields of a later release',
    violates: 'export state keeps the fields of a later release',
    faults: inReads((state) => Object.assign({ ...state }, { addedBy: undefined })),
  },
  {
    name: 'a step does not see that another execution owns the run',
    violates: 'an export has one active run',
    faults: inReads(ownedByCaller, ['ExportPage', 'FinishRun']),
  },
  {
    name: 'a run is taken over while its execution is running',
    violates: 'an export has one active run',
    faults: inStatuses((isOwn) => (isOwn ? undefined : 'ended')),
  },
  {
    name: 'FailRun changes a run of another execution',
    violates: 'an export has one active run',
    faults: inReads(ownedByCaller, ['FailRun']),
  },
  {
    name: 'an execution that has ended restarts the export',
    violates: 'an execution that has ended begins no run with restart or since',
    faults: inStatuses((isOwn) => (isOwn ? 'unknown' : undefined)),
  },
  {
    name: 'one scheduled time makes two runs',
    violates: 'one scheduled time begins one run',
    faults: [inDecision.before((state, ...rest) => [{ ...state, lastScheduledTime: undefined }, ...rest])],
  },
  {
    name: 'restart is ignored',
    violates: 'a start with restart begins a new run',
    faults: [
      inStep<{ readonly input: object }, unknown>(
        'BeginRun',
        (real) => (deps, command) => real(deps, { ...command, input: { ...command.input, restart: undefined } }),
      ),
    ],
  },

  // The watermark
  {
    name: 'the watermark moves when a run starts',
    violates: 'the watermark moves only when a run completes',
    faults: [
      inDecision.after((decision) => {
        const { startedAt, request } = decision.run;
        const { source, filter, api } = request;
        const watermark = { instant: startedAt, source, filter, requestSha256: api.requestSha256 };
        return isNew(decision) ? { state: { ...decision.state, watermark } } : {};
      }),
    ],
  },
  {
    name: 'the watermark is later than the first response',
    violates: 'the watermark never passes a report that is not exported',
    faults: [
      inWatermark((real, ...given) => {
        const watermark = real(...given);
        return watermark && instantOf(epochMsOf(watermark) + 600_000);
      }),
    ],
  },
  {
    name: 'the watermark moves back',
    violates: 'the watermark never moves back',
    faults: [inWatermark((_, _state, _definition, { since }) => since)],
  },
  {
    name: 'the watermark stays where it is',
    violates: 'the watermark is where the exported dates end',
    faults: [inWatermark((_, { watermark }) => watermark?.instant)],
  },
  {
    name: 'the watermark is that of the last slice',
    violates: 'the watermark passes nothing that was not requested',
    faults: [
      {
        at: 'lib/core/storage/run-content.ts#foldContent',
        replace: (real: typeof foldContent) => (run: Run) => {
          const folded = real(run);
          let newest: LogEntry | undefined;
          const add: typeof folded.add = (first, last) => {
            newest = first;
            folded.add(first, last);
          };
          const firstPage = () => (newest?.kind === 'page' ? { firstPage: newest } : {});
          return { add, content: () => ({ ...folded.content(), ...firstPage() }) };
        },
      },
    ],
  },

  // How a run is published
  {
    name: 'a run is published before its log is complete',
    violates: 'only a complete run is published',
    faults: [finishing(({ page, slices }) => slices === undefined && page === 3), ...endedEarly],
  },
  {
    name: 'FinishRun publishes a run with an open slice',
    violates: 'only a complete run is published',
    faults: [finishing(({ slices }) => slices !== undefined), ...endedEarly],
  },
  {
    name: 'a slice that was set aside counts as exported',
    violates: 'no PageConflictError occurs',
    faults: [finishing(({ slices }) => slices !== undefined)],
  },
  {
    name: 'a page in the folder of a run that was never logged is ignored',
    violates: 'no page in the folder of a run is missing from its manifest',
    faults: inStore(
      (store, { definition, log }) => ({
        async *list(folder) {
          for await (const object of store.list(folder)) {
            const chain = chainOf(definition.name, object.key);
            const last = chain && (await log.last(chain));
            if (chain === undefined || chain.page <= (last?.page ?? 0)) yield object;
          }
        },
      }),
      ['FinishRun'],
    ),
  },
  {
    name: 'a run with fewer reports than expected is published',
    violates: 'a run with fewer reports than expected does not complete',
    faults: inSettings(() => ({ expect: undefined }), 'FinishRun'),
  },
  {
    name: 'latest.json is written before the manifest',
    violates: 'latest.json points to a published run',
    faults: reordered(
      (key) => !key.endsWith('/latest.json'),
      (key) => key.endsWith('/latest.json'),
    ),
  },
  {
    name: 'a run is listed before its manifest is written',
    violates: 'only a published run is listed',
    faults: reordered(
      (key) => key.endsWith('/manifest.json'),
      (key) => key.endsWith('/run.json'),
    ),
  },
  {
    name: 'a run is completed without its manifest',
    violates: 'a completed run has a manifest',
    faults: inStore(() => ({ putDocument: async () => {}, putLatest: async () => {} }), ['FinishRun']),
  },
  {
    name: 'a manifest has other sizes than the log',
    violates: 'a manifest lists exactly the page log of its run',
    faults: inStore((store) => ({ putDocument: (key, chunks) => store.putDocument(key, withOtherSizes(chunks)) })),
  },

  // Parents
  {
    name: 'the pages of each parent are requested with the last one',
    violates: 'a run requests what its manifest states',
    faults: inPorts(
      ({ service, definition: { parents } }) => ({
        service: { fetch: (request, sent) => service.fetch({ ...request, parent: valuesOf(parents).at(-1) }, sent) },
      }),
      ['ExportPage'],
    ),
  },
  {
    name: 'the parents of a manifest are in another order',
    violates: 'a manifest lists exactly the page log of its run',
    faults: inSettings(
      ({ parents }) => ({ parents: parents && { values: valuesOf(parents).toReversed() } }),
      'ExportPage',
    ),
  },

  {
    name: 'any number of parents may be gone',
    violates: 'a run is published only if few of its parents are gone',
    faults: [{ at: 'lib/core/parents/gone-parents.ts#tooManyGoneError', replace: () => () => undefined }],
  },
  {
    name: 'a parent is gone that has a page',
    violates: 'a run ends only where the service has ended it',
    faults: inService((fetch) => async (request, options) => {
      const isLater = request.cursor !== null && request.parent !== undefined;
      return await fetch(request, options).catch((error: unknown) => {
        if (isLater && isExportError(error, 'CursorRejectedError')) return { kind: 'end', reason: 'gone', status: 404 };
        throw error;
      });
    }),
  },
  {
    name: 'a manifest does not count the parents that are gone or skipped',
    violates: 'a manifest lists exactly the page log of its run',
    faults: [
      {
        at: 'lib/core/storage/run-content.ts#foldContent',
        replace: (real: typeof foldContent) => (run: Run) => {
          const folded = real(run);
          return { ...folded, content: () => ({ ...folded.content(), missing: [] }) };
        },
      },
    ],
  },

  // Parents that are reports of another export
  {
    name: 'all parents begin where the newest run has ended',
    violates: 'a chain begins where its parent is covered',
    faults: [
      {
        at: 'lib/core/parents/coverage.ts#coverParents',
        replace:
          (real: typeof coverParents): typeof coverParents =>
          (parents, coverage) => {
            const covered = [...coverage.values()].flatMap((parent) => parent.covered ?? []);
            const newest = covered.toSorted().at(-1);
            return real(parents, new Map(parents.map((parent) => [keyOf(parent), { ...parent, covered: newest }])));
          },
      },
    ],
  },
  {
    name: 'a parent is known by its place in the list',
    violates: 'a chain begins where its parent is covered',
    faults: [
      {
        at: 'lib/core/parents/coverage.ts#coverParents',
        replace:
          (real: typeof coverParents): typeof coverParents =>
          (parents, coverage) => {
            const covered = [...coverage.values()];
            const byPlace = parents.map((parent, index) => [keyOf(parent), covered[index] ?? parent] as const);
            return real(parents, new Map(byPlace));
          },
      },
    ],
  },
  {
    name: 'a parent that is gone counts as walked',
    violates: 'a chain begins where its parent is covered',
    faults: [
      {
        at: 'lib/core/parents/coverage.ts#storeCoverage',
        replace:
          (real: typeof storeCoverage): typeof storeCoverage =>
          (store, run, state, { reached }) =>
            real(store, run, state, { reached, unwalked: new Set() }),
      },
    ],
  },
  {
    name: 'a run with a named since covers what it leaves out',
    violates: 'a chain begins where its parent is covered',
    firstSeed: 581,
    faults: [
      {
        at: 'lib/core/parents/coverage.ts#storeCoverage',
        replace:
          (real: typeof storeCoverage): typeof storeCoverage =>
          (store, run, state, facts) =>
            real(store, run.parents?.coverage?.isSinceNamed ? { ...run, since: instantOf(0) } : run, state, facts),
      },
    ],
  },
  {
    name: 'the coverage stays that of the run before, if a run is not published',
    violates: 'a chain begins where its parent is covered',
    faults: inWrites(
      (state) => {
        const { watermark, lastCompleted } = state;
        const isUnpublished = state.active === undefined && lastCompleted?.result.manifest === null;
        return isUnpublished && watermark !== undefined
          ? { ...state, watermark: { ...watermark, coverage: [] } }
          : state;
      },
      ['FinishRun'],
    ),
  },
  {
    name: 'a start makes another plan for an unfinished run',
    violates: 'the plan of a run never changes',
    faults: inReads(
      (state) => {
        const { active } = state;
        if (active?.parents?.parts === undefined || active.executionNumber === 1) return state;
        const { parts: _, ...parents } = active.parents;
        return { ...state, active: { ...active, parents } };
      },
      ['ExportPage'],
    ),
  },
  {
    name: 'the parents are those of an earlier run than the newest',
    violates: 'a plan has the parents in the newest run of their export',
    faults: [
      {
        at: 'lib/core/storage/published-runs.ts#readLatestPointer',
        replace: (real: typeof readLatestPointer) => {
          const known = new WeakMap<object, Awaited<ReturnType<typeof real>>>();
          return async (...[store, ...rest]: Parameters<typeof real>) => {
            const pointer = known.get(store) ?? (await real(store, ...rest));
            known.set(store, pointer);
            return pointer;
          };
        },
      },
    ],
  },

  // Report jobs
  {
    name: 'a report job is recorded once it is created',
    violates: 'a report job is created only after it is recorded',
    faults: inJobRecords((record) => ({
      replace: async (read, content) =>
        content.phase === 'creating' ? { ...read, content } : await record.replace(read, content),
    })),
    jobs: true,
  },
  {
    name: 'the ID of a report job is recorded with its first poll',
    violates: 'a report job is polled only once its ID is recorded',
    faults: heldIds(),
    jobs: true,
  },
  {
    name: 'a request for a report job without an answer is repeated at once',
    violates: 'a report job is ordered again only if it is needed',
    faults: inJobRecords((record) => ({
      async read() {
        const read = await record.read();
        const { content } = read;
        return content?.phase === 'creating' ? { ...read, content: { ...content, phase: 'notCreated' } } : read;
      },
    })),
    jobs: true,
  },
  {
    name: 'a status of a report job that is not described means that it waits',
    violates: 'a status of a report job that is not described ends the execution',
    faults: inPolls((poll) => async (request, options) => {
      try {
        return await poll(request, options);
      } catch (error) {
        if (isExportError(error) && /no condition of api.job.when names/.test(error.message))
          return { kind: 'waiting', status: 'PAUSED' };
        throw error;
      }
    }),
    firstSeed: 30,
    jobs: true,
  },
  {
    name: 'a file is known by its place in the list',
    violates: 'a page is stored byte for byte',
    faults: inService(fileByNumber),
    jobs: true,
  },
  {
    name: 'the files of a result are those that any poll lists',
    violates: 'page metadata holds the next cursor of its response',
    faults: [{ at: 'lib/service/client/job-documents.ts#polledJob', replace: () => () => ({ kind: 'done' }) }],
    jobs: true,
  },
  {
    name: 'a wait for a report job is a consecutive wait',
    violates: 'waits for report jobs are no consecutive waits',
    faults: [
      {
        at: 'lib/core/steps/loop-outcome.ts#parkedOutcome',
        replace:
          (real: typeof parkedOutcome): typeof parkedOutcome =>
          (deps, loop, until) =>
            real(deps, { ...loop, waits: loop.waits + 1 }, until),
      },
    ],
    jobs: true,
  },
  {
    name: 'the URL of a file is in the message about it',
    violates: 'the URL of a result is in no log, state or error',
    faults: inService((fetch) => async (request, options) => {
      try {
        return await fetch(request, options);
      } catch (error) {
        const isOther =
          !isExportError(error) || error.retryAfterSeconds !== undefined || error.parkSeconds !== undefined;
        if (isOther || request.job === undefined) throw error;
        throw new ExportError(error.name, `${error.message} (/results/${request.job}/part-1)`);
      }
    }),
    jobs: true,
  },

  // The document root
  {
    name: 'the root element of a page is not compared',
    violates: 'every page has the root element of the service',
    faults: inService(
      (fetch) =>
        async (...request) =>
          withoutRoot(await fetch(...request)),
    ),
  },

  // Executions and functions
  {
    name: 'a run never continues in a new execution',
    violates: 'an execution continues in a new one after iterationsPerExecution',
    faults: inSettings(
      ({ limits }) => ({ limits: { ...limits, iterationsPerExecution: Number.POSITIVE_INFINITY } }),
      'ExportPage',
    ),
  },
  {
    name: 'a page counts the attempt that exports it as failed',
    violates: 'a log entry counts no delay that did not happen',
    faults: [
      inStep<{ readonly retries?: number }, unknown>(
        'ExportPage',
        (real) => (deps, command) => real(deps, { ...command, retries: (command.retries ?? 0) + 1 }),
      ),
    ],
  },
  {
    name: 'a deployment in mid-run changes what a run requests',
    violates: 'every page of a published run is requested as the run is',
    faults: inReads(
      (state, { definition: { request } }) => ({ ...state, active: state.active && { ...state.active, request } }),
      ['ExportPage'],
    ),
    firstSeed: 101,
  },

  // Slices and bounds
  {
    name: 'a run without an upper bound ends when it began',
    violates: 'a run requests what its manifest states',
    faults: inService(
      (fetch) => (request, options) => fetch({ ...request, until: request.until ?? request.begunAt }, options),
    ),
  },
  {
    name: 'another attempt cuts a run as the settings now say',
    violates: 'the slices of a run never change',
    faults: [
      inDecision.after((decision) => {
        const { run } = decision;
        const slices = run.slices && { ...run.slices, lengthMs: (run.slices.lengthMs ?? 0) * 2 };
        return isNew(decision) ? {} : { run: { ...run, slices } };
      }),
    ],
  },
  {
    name: 'the lookback window of a first run that was abandoned is forgotten',
    violates: 'a run begins where its start says',
    faults: [inDecision.after(({ state }) => ({ state: { ...state, firstStart: undefined } }))],
  },
  {
    name: 'a run without a page keeps its upper bound',
    violates: 'a run ends where its start says',
    faults: [
      inDecision.after(({ kind, run }, { active }) =>
        kind === 'replace' ? { run: { ...run, until: active?.until ?? run.until } } : {},
      ),
    ],
  },
  {
    name: 'a run with a lag ends when it begins',
    violates: 'a run ends where its start says',
    faults: [
      inDecision.after((decision) => {
        const { run } = decision;
        const hasLag = run.until !== undefined && run.bounded === undefined;
        return isNew(decision) && hasLag ? { run: { ...run, until: run.startedAt } } : {};
      }),
    ],
  },
  {
    name: 'a rejected cursor starts every slice over',
    violates: 'a slice starts over only on its own',
    faults: inWrites(
      (state) => {
        const { slices, attempts: before } = state.active ?? {};
        if (state.active === undefined || slices === undefined || before === undefined) return state;
        const newest = Math.max(...Object.values(before));
        const numbers = Array.from({ length: slices.count }, (_, index) => index + 1);
        const attempts = Object.fromEntries(numbers.map((number) => [number, newest]));
        return { ...state, active: { ...state.active, attempts } };
      },
      ['ExportPage'],
    ),
  },
  {
    name: 'an open slice is recorded as complete',
    violates: 'the recorded progress is what the log has',
    faults: inLog((log) => ({
      progress(stateName) {
        const record = log.progress(stateName);
        return { ...record, replace: (read, content) => record.replace(read, { ...content, open: [] }) };
      },
    })),
  },
  {
    name: 'a slice starts over as often as its cursors are rejected',
    violates: 'a slice starts over only on its own',
    faults: inSettings(
      ({ limits }) => ({ limits: { ...limits, maxCursorRestarts: Number.POSITIVE_INFINITY } }),
      'ExportPage',
    ),
  },
  {
    name: 'the upper bound is not proven',
    violates: 'a run begins only if the service honors its upper bound',
    faults: inService(
      (fetch) => async (request, options) => (isProof(request) ? emptyPage : await fetch(request, options)),
    ),
  },
  {
    name: 'a document that is no page proves the upper bound',
    violates: 'a run begins only if the service honors its upper bound',
    faults: inService((fetch) => async (request, options) => {
      const received = await fetch(request, options);
      return isProof(request) ? withoutRoot(received) : received;
    }),
  },
  {
    name: 'a bounded run moves a watermark',
    violates: 'a bounded run changes nothing of its export',
    faults: inWrites(
      (state) => {
        const { export: name, active, lastCompleted } = state;
        if (!name.includes('/') || active !== undefined || lastCompleted === undefined) return state;
        return { ...state, watermark: { instant: lastCompleted.completedAt, ...lastCompleted.selection } };
      },
      ['FinishRun'],
    ),
  },
  {
    name: 'counted pages are published after one pass',
    violates: 'counted pages are those of two passes with the same reports',
    faults: [{ at: 'lib/core/steps/passes.ts#assertProved', replace: () => async () => {} }],
  },
  {
    name: 'two passes are compared by how many reports they have',
    violates: 'no report is missing from a run',
    faults: inLog((log) => ({ entries: (chain) => numbered(log.entries(chain)) }), ['ExportPage']),
    firstSeed: 170,
  },
  {
    name: 'a report may come twice in a pass',
    violates: 'no report appears twice in a run',
    faults: inLog((log) => ({ entries: (chain) => withoutRepeatedIds(log.entries(chain)) }), ['ExportPage']),
    firstSeed: 374,
  },
  {
    name: 'a pass ends at a page that is not full',
    violates: 'page metadata holds the next cursor of its response',
    faults: inPorts(
      ({ service, definition: { provedBy } }) => ({
        service: {
          ...service,
          async fetch(request, options) {
            const received = await service.fetch(request, { ...options, onNextCursor: () => {} });
            const isFull = provedBy === undefined || received.kind === 'end' || (received.reports ?? 0) > 1;
            return isFull ? received : { ...received, nextCursor: null };
          },
        },
      }),
      ['ExportPage'],
    ),
    firstSeed: 31,
  },
  {
    name: 'the pass before the last one is published',
    violates: 'no PageConflictError occurs',
    faults: inLog((log) => ({ entries: (chain) => passBefore(log, chain) }), ['FinishRun']),
    firstSeed: 41,
  },
  {
    name: 'the watermark is that of the last pass',
    violates: 'the watermark passes nothing that was not requested',
    faults: inLog(
      (log) => ({
        append: (entry) => log.append(entry.kind === 'page' ? { ...entry, earlierPassAt: undefined } : entry),
      }),
      ['ExportPage'],
    ),
    firstSeed: 46,
  },
  {
    name: 'each pass has a report job of its own',
    violates: 'a report job is ordered again only if it is needed',
    faults: inJobRecords((record) => ({
      replace: (read, content) => record.replace(read, { ...content, isKept: undefined }),
    })),
    jobs: true,
  },
];
