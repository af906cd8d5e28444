/** Whole runs with several slices, and bounded runs, in memory: the rules of docs/architecture.md, "Slices". */

import { describe, expect, it } from 'vitest';
import { boundedDefinition, boundedStateName } from '../../../lib/core/bounded-runs.ts';
import { type ErrorName, ExportError } from '../../../lib/core/errors.ts';
import { asRunId, type ExportDefinition, type ExportState, type LoopState } from '../../../lib/core/model.ts';
import type { PageRequest, PageStore, ReportService, Runtime } from '../../../lib/core/ports.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { aFetchedPage, at, someLimits } from '../../support/builders.ts';
import {
  anExportBench,
  begin,
  type Bench,
  type BenchOptions,
  completed,
  failed,
  manifestsIn,
  pagesIn,
  reportIdsOf,
} from '../../support/export/export-bench.ts';
import { createMemorySlotStore } from '../../support/export/memory-adapters.ts';
import { cursorAt, failsAt, type Script, someReports } from '../../support/export/scripted-service.ts';
import { createPageSlots } from '../../../lib/core/slots/page-slots.ts';

const minute = 60_000;
/** Twelve reports, a minute apart, from here on. */
const since = at('2026-11-01T00:00:00Z');
const until = at('2026-11-01T00:12:00Z');
const ids = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => `r${from + index}`);
const all = ids(1, 12);
const bounds = { since, until };
/** Four slices of three reports: two pages each. */
const sliced = { ...bounds, parallel: 2, slice: 'PT3M' };

const aBench = (options: BenchOptions = {}) => anExportBench({ reports: someReports(12), ...options });

const isProof = (request: Pick<PageRequest, 'since' | 'until'>) => request.since === request.until;
const stateOf = async ({ log, deps }: Bench, of = bounds) =>
  await log.exportState(boundedStateName(deps.definition.name, of));
/** Which of the slices of three minutes is requested; 0: a proof. */
const sliceIn = (request: PageRequest): number =>
  isProof(request) ? 0 : 1 + (Date.parse(request.since) - Date.parse(since)) / (3 * minute);

/** A bounded run that has begun, and an invocation of ExportPage that has time for one page of each slice. */
async function begunRun(bench: Bench, input: object) {
  const deps = { ...bench.deps, definition: boundedDefinition(bench.deps.definition, bounds) };
  const begun = await begin(bench.deps, 'one', input);
  const invoke = async (loop: LoopState, changed: Partial<typeof deps> = {}) =>
    await exportPage({ ...deps, ...changed }, { loop, execution: 'one', hasTime: () => false });
  return { deps, begun, invoke };
}

/** Fails requests that `matches`, until `until` says so. */
const failing =
  (name: ErrorName, matches: (request: PageRequest) => boolean, details: { retryAfterSeconds?: number } = {}): Script =>
  (request) => {
    if (!isProof(request) && matches(request)) throw new ExportError(name, `${name} of ${request.label}`, details);
    return undefined;
  };

describe('a run with several slices', () => {
  it('is published once, with its pages in the order of slices, and their bounds', async () => {
    const bench = aBench();
    const result = completed(await bench.start(sliced));
    expect(result).toMatchObject({ ...bounds, bounded: true, pages: 8, reports: 12 });
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
    const manifest = bench.manifest(result.manifest);
    expect(manifest.pages.map(({ page }) => page)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(manifest.pages.map(({ key }) => key.slice(key.lastIndexOf('/') + 1)).slice(0, 3)).toEqual([
      'page-0001-000001.xml',
      'page-0001-000002.xml',
      'page-0002-000001.xml',
    ]);
    const { bytes: _, ...third } = (manifest.slices as { bytes: number }[])[2] ?? { bytes: 0 };
    expect(third).toEqual({ since: '2026-11-01T00:06:00Z', until: '2026-11-01T00:09:00Z', pages: 2, reports: 3 });
  });

  it('lasts from the earliest first page to the latest last page, whichever slices these are of', async () => {
    const bench = aBench();
    const { fetch } = bench.service;
    const service: ReportService = {
      // The first slice has the latest pages.
      fetch: async (request, options) => ({
        ...(await fetch(request, options)),
        serviceTime: at(`2026-11-20T02:0${9 - sliceIn(request)}:0${request.cursor === null ? 0 : 1}Z`),
      }),
    };
    Object.assign(bench.deps, { service });
    const { manifest } = completed(await bench.start(sliced));
    expect(bench.manifest(manifest)).toMatchObject({
      serviceStartedAt: '2026-11-20T02:05:00Z',
      serviceCompletedAt: '2026-11-20T02:08:01Z',
    });
  });

  it('walks `parallel` slices at the same time, the oldest first', async () => {
    const bench = aBench();
    const { fetch } = bench.service;
    const walked: string[] = [];
    let [now, most] = [0, 0];
    const service: ReportService = {
      async fetch(request, options) {
        if (request.cursor === null && !isProof(request)) walked.push(request.since);
        now += 1;
        most = Math.max(most, now);
        await new Promise(setImmediate);
        now -= 1;
        return await fetch(request, options);
      },
    };
    Object.assign(bench.deps, { service });
    completed(await bench.start({ ...sliced, slice: 'PT1M', parallel: 3 }));
    expect(walked).toEqual(someReports(12).map(({ date }) => instantOf(Date.parse(date))));
    expect(most).toBe(3);
  });

  it('exports as many pages of a slice in an invocation as pagesPerInvocation says', async () => {
    const bench = aBench();
    await bench.start({ ...sliced, parallel: 4 });
    const exported = bench.events.filter(({ event }) => event === 'page-exported');
    expect(exported[0]).toMatchObject({ page: 1, slice: 1, slices: { done: 0, count: 4 } });
    expect(exported.at(-1)).toMatchObject({ page: 2, slices: { done: 4, count: 4 }, totalPages: 8, totalReports: 12 });
    const pagesOfFirstInvocation = bench.events.slice(0, 6).flatMap((event) => ('page' in event ? [event.page] : []));
    expect(pagesOfFirstInvocation.slice(1, 5)).toEqual([1, 1, 1, 1]);
  });

  it('has an open last slice without an upper bound, with which it ends', async () => {
    const bench = aBench({ definition: { slicing: { parallel: 4, lengthMs: 60 * 24 * minute } } });
    const result = completed(await bench.start({ since: '2026-10-30T12:00:00Z' }));
    expect(result).toMatchObject({ watermark: '2026-11-20T01:59:59Z' });
    expect(result.bounded).toBeUndefined();
    const { slices } = bench.manifest(result.manifest) as unknown as {
      slices: { since: string; until: string | null }[];
    };
    expect([slices[0]?.since, slices[1]?.since, slices.at(-1)?.until]).toEqual([
      '2026-10-30T12:00:00Z',
      '2026-10-31T00:00:00Z',
      null,
    ]);
    expect(bench.service.requests.filter((request) => request.until === undefined)).toHaveLength(1);
  });

  it('looks as today if it has one slice, and asks for no proof', async () => {
    const definition: Partial<ExportDefinition> = { slicing: { parallel: 8, lengthMs: 90 * 24 * 60 * minute } };
    const [one, today] = [aBench({ definition }), aBench()];
    for (const bench of [one, today]) completed(await bench.start({ since: '2026-10-30T12:00:00Z' }));
    const namesOf = (bench: Bench) => pagesIn(bench).map((key) => key.slice(key.lastIndexOf('/')));
    expect(namesOf(one)).toEqual(namesOf(today));
    const requestsOf = ({ service }: Bench) =>
      service.requests.map((each) => ({ ...each, request: undefined, beforeSend: undefined }));
    expect(requestsOf(one)).toEqual(requestsOf(today));
  });

  it('is resumed after its last pages, with the same slices, by a start with another parallel', async () => {
    let isDown = true;
    const bench = aBench({ script: failing('RequestRejectedError', (request) => isDown && request.cursor !== null) });
    expect(failed(await bench.start(sliced))).toMatchObject({ pages: 4, resumable: true, bounded: true });
    isDown = false;
    const before = (await stateOf(bench))?.active?.slices;
    expect(failed(await bench.start({ ...sliced, slice: 'PT4M' })).message).toMatch(
      /slices were 3 minutes long.*A run keeps its slices/,
    );
    const requests = bench.service.requests.length;
    const result = completed(await bench.start({ ...sliced, parallel: 4 }));
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
    expect(bench.service.requests.length - requests).toBe(4);
    expect(before).toMatchObject({ count: 4, lengthMs: 3 * minute, parallel: 2 });
  });

  it('counts the pages of all slices for maxPages', async () => {
    const definition = { slicing: { parallel: 2, lengthMs: 24 * 60 * minute } };
    const bench = aBench({ definition, limits: { maxPages: 3 }, reports: someReports(6) });
    const end = failed(await bench.start({ since: '2026-10-30T12:00:00Z' }));
    expect(end).toMatchObject({ error: 'ConfigurationError', resumable: true });
    expect(end.message).toContain('the limit of 3 pages (maxPages)');
    completed(await bench.with({ definition, limits: { maxPages: 100 }, reports: someReports(6) }).start());
  });

  it.each([
    [4, 'PT4M'],
    [16, 'PT4M'],
    [16, 'PT1M'],
  ])('has no more pages than maxPages, with %i slices of %s at the same time', async (parallel, slice) => {
    // It ends at 00:24.
    const definition = { lagMs: Date.UTC(2026, 10, 20, 2) - Date.UTC(2026, 10, 1, 0, 24) };
    const options = (maxPages: number) => ({
      definition,
      limits: { maxPages, pagesPerInvocation: 1_000 },
      size: 1,
      reports: someReports(24),
    });
    const bench = aBench(options(20));
    const end = failed(await bench.start({ since, parallel, slice }));
    expect(end).toMatchObject({ error: 'ConfigurationError', pages: 20, resumable: true });
    expect(completed(await bench.with(options(24)).start({ parallel })).pages).toBe(24);
  });

  it('compares expect.minReports with the sum of its slices', async () => {
    const definition = (minReports: number) => ({
      expect: { minReports },
      slicing: { parallel: 2, lengthMs: 24 * 60 * minute },
    });
    const start = { since: '2026-10-30T12:00:00Z' };
    completed(await aBench({ definition: definition(12) }).start(start));
    const end = failed(await aBench({ definition: definition(13) }).start(start));
    expect(end).toMatchObject({ error: 'ConfigurationError', resumable: false });
    expect(end.message).toContain('has 12 reports, but expect.minReports is 13');
  });

  it('continues in a new execution after its iterations', async () => {
    const bench = aBench({ limits: { iterationsPerExecution: 2 } });
    const result = completed(await bench.start({ ...sliced, parallel: 1 }));
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
    expect(bench.events.filter(({ event }) => event === 'run-resumed').length).toBeGreaterThan(1);
  });

  it('holds a slot for each slice that is walked', async () => {
    const bench = aBench();
    const { runtime } = bench.deps;
    const store = createMemorySlotStore();
    const slots = createPageSlots({ record: store, limit: 2, runtime });
    let most = 0;
    const counted: typeof slots = {
      async acquire(options) {
        const slot = await slots.acquire(options);
        most = Math.max(most, store.current()?.length ?? 0);
        return slot;
      },
    };
    Object.assign(bench.deps, { slots: counted });
    completed(await bench.start(sliced));
    expect(most).toBe(2);
    expect(store.current()).toEqual([]);
  });

  it('returns its slot if the proof of the upper bound fails', async () => {
    const bench = aBench({
      script(request) {
        if (isProof(request)) throw new ExportError('ConfigurationError', 'wrong');
        return undefined;
      },
    });
    const store = createMemorySlotStore();
    Object.assign(bench.deps, { slots: createPageSlots({ record: store, limit: 2, runtime: bench.deps.runtime }) });
    expect(failed(await bench.start(sliced)).error).toBe('ConfigurationError');
    expect(store.current()).toEqual([]);
  });
});

describe('a slice that fails', () => {
  it.each(['ContractError', 'RequestRejectedError', 'ServiceUnavailableError'] as const)(
    'with %s is set aside while the others continue, and exported by the next start',
    async (name) => {
      let isDown = true;
      const bench = aBench({ script: failing(name, (request) => isDown && sliceIn(request) === 2) });
      const end = failed(await bench.start(sliced));
      expect(end).toMatchObject({ error: name, resumable: true });
      expect(end.message).toContain('of slice 2');
      // An outage begins no further slice in its invocation, but the next one does.
      expect(end.pages).toBe(6);
      const { slices } = (await stateOf(bench))?.active ?? {};
      expect(slices?.setAside).toMatchObject([{ slice: 2, error: name }]);
      expect(bench.events.filter(({ event }) => event === 'slice-set-aside')).toHaveLength(1);
      isDown = false;
      const result = completed(await bench.start(sliced));
      expect(reportIdsOf(bench, result.manifest)).toEqual(all);
    },
  );

  it.each(['ConfigurationError', 'PageConflictError'] as const)('with %s stops all', async (name) => {
    const bench = aBench({ script: failing(name, (request) => sliceIn(request) === 1) });
    expect(failed(await bench.start({ ...sliced, parallel: 1 }))).toMatchObject({ error: name, pages: 0 });
    expect(bench.service.requests.filter((request) => !isProof(request))).toHaveLength(1);
  });

  it('begins no further slice after an outage, in this invocation', async () => {
    const begun: number[] = [];
    const bench = aBench({
      script(request, nth) {
        if (isProof(request)) return undefined;
        begun.push(sliceIn(request));
        if (nth === 2) throw new ExportError('ServiceUnavailableError', 'down');
        return undefined;
      },
    });
    completed(await bench.start({ ...sliced, parallel: 1 }));
    expect(begun.slice(0, 2)).toEqual([1, 1]);
  });

  it('throws the first error by date if no page was logged', async () => {
    const bench = aBench({
      script: (request) => {
        if (isProof(request)) return undefined;
        throw new ExportError(sliceIn(request) === 1 ? 'ContractError' : 'RequestRejectedError', request.label);
      },
    });
    expect(failed(await bench.start(sliced)).error).toBe('ContractError');
  });

  it('stops all chains for a long Retry-After, and no request is sent before it ends', async () => {
    const times: number[] = [];
    const bench = aBench();
    const throttled = bench.with({
      script(request, nth) {
        times.push(bench.deps.runtime.now());
        return failsAt({ 3: 600 })(request, nth);
      },
    });
    const result = completed(await throttled.start({ ...sliced, parallel: 4 }));
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
    expect(throttled.slept).toContain(600_000);
    const after = times.filter((time) => time > (times[2] ?? 0));
    expect(Math.min(...after) - (times[2] ?? 0)).toBeGreaterThanOrEqual(600_000);
  });
});

it('keeps a long Retry-After although the state, which would name the slices that were set aside, cannot be written', async () => {
  const bench = aBench();
  const { begun, invoke } = await begunRun(bench, sliced);
  const { service } = bench.with({ script: failing('ServiceThrottledError', () => true, { retryAfterSeconds: 600 }) });
  const log = { ...bench.log, replaceState: async () => await Promise.reject(new Error('throttled')) };
  expect(await invoke(begun, { service, log })).toMatchObject({ next: 'wait', waitSeconds: 600 });
});

it('lets no slice send a request before a short Retry-After of another one has passed, and then continues with all', async () => {
  const bench = aBench({ size: 1, limits: { pagesPerInvocation: 25 } });
  const { deps, begun } = await begunRun(bench, { ...sliced, parallel: 4 });
  const now = () => bench.deps.runtime.now();
  const startedAt = now();
  const newestRequestAt = new Map<number, number>();
  let isThrottled = false;
  const { service } = bench.with({
    size: 1,
    script(request) {
      newestRequestAt.set(sliceIn(request), now() - startedAt);
      if (isThrottled || sliceIn(request) !== 2) return undefined;
      isThrottled = true;
      throw new ExportError('ServiceThrottledError', 'busy', { retryAfterSeconds: 5 });
    },
  });
  const runtime: Runtime = {
    ...deps.runtime,
    async sleep(ms) {
      // Whatever does not wait happens before the clock advances.
      await new Promise((resolve) => setTimeout(resolve, 20));
      await deps.runtime.sleep(ms);
    },
  };
  const command = { loop: begun, execution: 'one', retryAfterDeadline: Number.POSITIVE_INFINITY };
  expect(await exportPage({ ...deps, service, runtime }, command)).toMatchObject({ next: 'finish' });
  // First pages may have been on their way. Each slice has three.
  for (const slice of [1, 2, 3, 4]) expect(newestRequestAt.get(slice)).toBeGreaterThanOrEqual(5_000);
});

it.each([
  { input: { ...sliced, parallel: 4, slice: 'PT3M' }, maxInFlight: 12, most: 4 * 3 },
  { input: { ...sliced, parallel: 4, slice: 'PT3M' }, maxInFlight: 4, most: 4 * 2 },
  { input: bounds, maxInFlight: 4, most: 4 },
])(
  'divides $maxInFlight pages in flight among its chains, at least two for each',
  async ({ input, maxInFlight, most }) => {
    const bench = aBench({ size: 1, limits: { pagesPerInvocation: 25 } });
    const { deps, begun } = await begunRun(bench, input);
    const gate = Promise.withResolvers<void>();
    const inFlight = { now: 0, most: 0 };
    const { service: inner } = bench.with({ size: 1, script: () => undefined });
    const service: ReportService = {
      async fetch(request, options) {
        if (isProof(request)) return await inner.fetch(request, options);
        inFlight.now += 1;
        inFlight.most = Math.max(inFlight.most, inFlight.now);
        try {
          const received = await inner.fetch(request, options);
          await gate.promise;
          return received;
        } finally {
          inFlight.now -= 1;
        }
      },
    };
    const exported = exportPage({ ...deps, service }, { loop: begun, execution: 'one', maxInFlight });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(inFlight.most).toBe(most);
    gate.resolve();
    await exported;
  },
);

describe('the first page of a slice', () => {
  it('has the root of the slices before it, also if no invocation has ended since', async () => {
    const bench = aBench({
      script(request) {
        // So the proof says nothing about the root.
        if (isProof(request)) throw new ExportError('RequestRejectedError', 'lt must be after gte');
        return aFetchedPage({ documentRoot: sliceIn(request) === 1 ? 'reports' : 'error', nextCursor: null });
      },
    });
    expect(failed(await bench.start({ ...sliced, parallel: 1 }))).toMatchObject({ error: 'ContractError', pages: 1 });
    expect(pagesIn(bench)).toHaveLength(1);
  });

  it('is stored only if it has the root of those that arrive at the same time, although no response said it before', async () => {
    const bench = aBench({
      script(request) {
        if (isProof(request)) return aFetchedPage({ reports: 0, documentRoot: null, nextCursor: null });
        return sliceIn(request) === 2 ? aFetchedPage({ documentRoot: 'error', nextCursor: null }) : undefined;
      },
    });
    const end = failed(await bench.start({ ...sliced, parallel: 4 }));
    expect(end).toMatchObject({ error: 'ContractError' });
    const run = { export: bench.deps.definition.name, run: asRunId(end.run ?? '') };
    const entries = await Promise.all([1, 2, 3, 4].map((slice) => bench.log.last({ ...run, slice, attempt: 1 })));
    expect(new Set(entries.flatMap((entry) => entry?.documentRoot ?? [])).size).toBe(1);
  });

  it.each([
    ['a single one', 1],
    ['several', 3],
  ])('that was an error document with status 200 (%s) is exported again by the next start', async (_, count) => {
    let errors = 1 + count;
    const bench = aBench({
      script(request) {
        if (isProof(request)) throw new ExportError('RequestRejectedError', 'lt must be after gte');
        return errors-- > 0 ? aFetchedPage({ documentRoot: 'error', nextCursor: null }) : undefined;
      },
    });
    const end = failed(await bench.start({ ...sliced, parallel: 4 }));
    expect(end).toMatchObject({ error: 'ContractError', resumable: true });
    expect(end.message).toContain('but error is expected: another slice has it');
    const result = completed(await bench.start(sliced));
    expect(result.run).toBe(end.run);
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
  });

  it('must have the root of the response to the proof, also in the first slice', async () => {
    const script: Script = (request) =>
      isProof(request) ? undefined : aFetchedPage({ documentRoot: 'error', nextCursor: null });
    const bench = aBench({ script });
    const end = failed(await bench.start({ ...sliced, parallel: 1 }));
    expect(end).toMatchObject({ error: 'ContractError', pages: 0 });
    expect(end.message).toContain('page 1 of slice 1');
    expect(end.message).toContain('reports is expected: an earlier response has it');
  });

  it('is exported by the next start if the proof was an error document with status 200', async () => {
    let isDown = true;
    const errorDocument = aFetchedPage({ reports: 0, documentRoot: 'error', nextCursor: null });
    const bench = aBench({ script: (request) => (isDown && isProof(request) ? errorDocument : undefined) });
    const end = failed(await bench.start(sliced));
    expect(end).toMatchObject({ error: 'ContractError', pages: 0 });
    expect(end.message).toContain('an earlier response has it');
    expect(end.message).toContain('If that one was an error document, try again');
    isDown = false;
    expect(reportIdsOf(bench, completed(await bench.start(sliced)).manifest)).toEqual(all);
  });

  it('stays if a completed run has had its root, or a second page', async () => {
    const isOther = (request: PageRequest) => sliceIn(request) === 4;
    for (const isKnown of [true, false]) {
      const bench = aBench({ size: isKnown ? 3 : 2 });
      if (isKnown) completed(await bench.start());
      const script: Script = (request) =>
        isOther(request) ? aFetchedPage({ documentRoot: 'error', nextCursor: null }) : undefined;
      failed(await bench.with({ script, size: isKnown ? 3 : 2 }).start(sliced));
      const requests = bench.service.requests.length;
      completed(await bench.start(sliced));
      expect(bench.service.requests.slice(requests).every(isOther)).toBe(true);
    }
  });

  it('has the root of slices that are complete, also in a later invocation', async () => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, { ...sliced, slice: 'PT1M', parallel: 1 });
    const next = await invoke(begun);
    expect(next.slices).toMatchObject({ begun: 1, open: [] });
    const { service } = bench.with({ script: () => aFetchedPage({ documentRoot: 'error', nextCursor: null }) });
    await expect(invoke(next, { service })).rejects.toThrow('but reports is expected: another slice has it');
  });

  it('has the root of the other slices when it starts over, although every slice has begun', async () => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, { ...sliced, parallel: 4 });
    const next = await invoke(begun);
    expect(next.slices).toMatchObject({ begun: 4, open: [1, 2, 3, 4] });
    const { service } = bench.with({
      script({ cursor }) {
        if (cursor !== null) throw new ExportError('CursorRejectedError', 'rejected');
        return aFetchedPage({ documentRoot: 'error', nextCursor: null });
      },
    });
    await invoke(next, { service });
    const { setAside = [] } = (await stateOf(bench))?.active?.slices ?? {};
    expect(setAside.map(({ error }) => error)).toEqual(Array(4).fill('ContractError'));
    expect(setAside[0]?.message).toContain('but reports is expected: another slice has it');
  });
});

describe('a cursor that the service rejects or repeats in one slice', () => {
  const rejected = { error: 'CursorRejectedError', pages: 7, resumable: true };
  const isRejected = (request: PageRequest) => sliceIn(request) === 3 && request.cursor !== null;

  it('starts its slice over, in a new attempt with pages of its own, and no other', async () => {
    let left = 1;
    const bench = aBench({ script: failing('CursorRejectedError', (request) => isRejected(request) && left-- > 0) });
    const result = completed(await bench.start(sliced));
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
    const keys = bench.manifest(result.manifest).pages.map(({ key }) => key.slice(key.lastIndexOf('/') + 1));
    expect(keys.slice(4, 6)).toEqual(['page-0003.2-000001.xml', 'page-0003.2-000002.xml']);
    expect(pagesIn(bench)).toHaveLength(9);
    expect(bench.events.filter(({ event }) => event === 'slice-restarted')).toMatchObject([{ slice: 3, attempt: 2 }]);
  });

  it('is no damage if another invocation starts its slice over while the run is finished; the next start exports the rest', async () => {
    const bench = aBench();
    const { begun, deps } = await begunRun(bench, sliced);
    let loop: LoopState & { readonly next: string } = begun;
    while (loop.next !== 'finish') loop = await exportPage(deps, { loop, execution: 'one' });
    const state = await stateOf(bench);
    if (state?.active?.slices === undefined) throw new Error('no run with slices');
    const slices = { ...state.active.slices, attempts: { '2': 2 } };
    await bench.log.replaceState({ ...state, version: state.version + 1, active: { ...state.active, slices } });
    await expect(finishRun(deps, { run: state.active.run, execution: 'one' })).rejects.toMatchObject({
      name: 'CursorRejectedError',
      message: expect.stringContaining('has started slice 2 of run'),
    });
    expect(reportIdsOf(bench, completed(await bench.start(sliced)).manifest)).toEqual(all);
  });

  it('fails the run after maxCursorRestarts, and the next start may start it over as often again', async () => {
    let isDown = true;
    const bench = aBench({
      limits: { maxCursorRestarts: 2 },
      script: failing('CursorRejectedError', (request) => isDown && isRejected(request)),
    });
    const restarts = () => bench.events.filter(({ event }) => event === 'slice-restarted').length;
    for (let start = 1; start <= 2; start += 1) {
      expect(failed(await bench.start(sliced))).toMatchObject(rejected);
      expect(restarts()).toBe(2 * start);
    }
    isDown = false;
    const result = completed(await bench.start(sliced));
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
  });

  it('starts its slice over at the next start, although it may not during one', async () => {
    let isDown = true;
    const script = failing('CursorRejectedError', (request) => isDown && isRejected(request));
    const bench = aBench({ script, limits: { maxCursorRestarts: 0 } });
    expect(failed(await bench.start(sliced))).toMatchObject(rejected);
    isDown = false;
    const result = completed(await bench.with({ script: () => undefined }).start(sliced));
    expect(bench.manifest(result.manifest).pages[4]?.key).toContain('page-0003.2-000001');
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
  });

  it('takes an unreachable service for an outage, although the slices that start over have no page any more', async () => {
    let isDown = false;
    const bench = aBench({
      script(request) {
        if (isDown) throw new ExportError('ServiceUnreachableError', 'connection refused');
        if (request.cursor === null) return undefined;
        isDown = true;
        throw new ExportError('CursorRejectedError', 'gone');
      },
    });
    expect(failed(await bench.start({ ...sliced, parallel: 1 }))).toMatchObject({ error: 'ServiceUnavailableError' });
  });

  it('starts no slice over whose last page a concurrent invocation has exported meanwhile', async () => {
    const bench = aBench();
    const { deps, begun, invoke } = await begunRun(bench, { ...sliced, parallel: 1 });
    const next = await invoke(begun);
    const { service } = bench.with({ script: failing('CursorRejectedError', () => true) });
    const store: PageStore = {
      ...bench.store,
      async find(key) {
        const found = await bench.store.find(key);
        // The other invocation of the same execution is faster.
        await exportPage(deps, { loop: next, execution: 'one', hasTime: () => false });
        return found;
      },
    };
    await expect(invoke(next, { service, store })).rejects.toThrow('CursorRejectedError');
    const { slices } = (await stateOf(bench))?.active ?? {};
    expect(slices).not.toHaveProperty('attempts');
    expect(slices).not.toHaveProperty('restarts');
    expect(bench.events.filter(({ event }) => event === 'slice-restarted')).toEqual([]);
    expect(reportIdsOf(bench, completed(await bench.start(sliced)).manifest)).toEqual(all);
  });

  it('starts no slice over again that a concurrent invocation has started over, and exported to its end', async () => {
    const bench = aBench({ limits: { pagesPerInvocation: 25 } });
    const { deps, begun, invoke } = await begunRun(bench, { ...sliced, parallel: 1 });
    const next = await invoke({ ...begun }, { definition: { ...deps.definition, limits: someLimits() } });
    const rejecting = bench.with({ script: failing('CursorRejectedError', ({ cursor }) => cursor !== null) }).service;
    let isFirst = true;
    const log = Object.assign(Object.create(bench.log) as Bench['log'], {
      async replaceState(state: ExportState) {
        if (!isFirst) return await bench.log.replaceState(state);
        isFirst = false;
        // The other invocation of the same execution has seen the same rejection, and is faster.
        await bench.log.replaceState(state);
        await exportPage(deps, { loop: next, execution: 'one' });
        return false;
      },
    });
    await invoke(next, { service: rejecting, log });
    const result = completed(await bench.start(sliced));
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
  });

  it('has its own restarts in each slice', async () => {
    const rejected = new Set<number>();
    const bench = aBench({
      script: failing('CursorRejectedError', (request) => {
        const isNew = request.cursor !== null && !rejected.has(sliceIn(request));
        if (isNew) rejected.add(sliceIn(request));
        return isNew;
      }),
    });
    const { manifest, ...run } = completed(await bench.start(sliced));
    expect(reportIdsOf(bench, manifest)).toEqual(all);
    expect(await bench.log.last({ ...run, slice: 2, attempt: 2 })).toBeDefined();
  });

  it('begins a slice whose cursors go round in circles again at the next start', async () => {
    let isDown = true;
    const bench = aBench({
      script: (request) =>
        isDown && sliceIn(request) === 2 && request.cursor !== null
          ? aFetchedPage({ nextCursor: request.cursor })
          : undefined,
    });
    const end = failed(await bench.start(sliced));
    expect(end).toMatchObject({ error: 'RepeatedCursorError', resumable: true });
    expect(manifestsIn(bench)).toEqual([]);
    isDown = false;
    expect(reportIdsOf(bench, completed(await bench.start(sliced)).manifest)).toEqual(all);
  });

  it('begins a slice with a cursor that occurs twice again at the next start, and keeps the others', async () => {
    let isDown = true;
    // Cursors 1, 2, 3, 4, 2, and then the end: no circle.
    const next = [1, 2, 3, 4, 2, 5, null];
    const bench = aBench({
      script(request) {
        if (!isDown || sliceIn(request) !== 2 || isProof(request)) return undefined;
        const position = next.shift();
        return aFetchedPage({ reports: 0, nextCursor: position == null ? null : cursorAt(position) });
      },
    });
    const end = failed(await bench.start(sliced));
    expect(end).toMatchObject({ error: 'RepeatedCursorError', resumable: true });
    expect(manifestsIn(bench)).toEqual([]);
    isDown = false;
    bench.advance(60 * minute);
    const requests = bench.service.requests.length;
    const { manifest } = completed(await bench.start(sliced));
    expect(reportIdsOf(bench, manifest)).toEqual(all);
    expect(bench.service.requests.slice(requests).every((request) => sliceIn(request) === 2)).toBe(true);
    // Not when the pages that were discarded were complete.
    expect(bench.manifest(manifest)).toMatchObject({ completedAt: instantOf(bench.deps.runtime.now()) });
  });
});

describe('the proof of the bounds', () => {
  const empty = (instant: string) => ({ since: instant, until: instant, cursor: null });
  const [firstCut, lastCut] = [empty('2026-11-01T00:03:00Z'), empty('2026-11-01T00:09:00Z')];

  it.each([
    ['one slice', bounds, [empty(until)]],
    ['two slices', { ...sliced, slice: 'PT6M' }, [empty('2026-11-01T00:06:00Z')]],
    ['four slices', sliced, [firstCut, lastCut]],
  ])(
    'of %s requests as little as shows both, in the size of pages, before the first page',
    async (_, input, proofs) => {
      const bench = aBench();
      completed(await bench.start(input));
      const { requests } = bench.service;
      expect(requests.slice(0, proofs.length)).toMatchObject(proofs);
      expect(requests.filter(isProof)).toHaveLength(proofs.length);
      expect(new Set(requests.map(({ request }) => request.size))).toEqual(
        new Set([bench.deps.definition.request.size]),
      );
    },
  );

  it('refuses a service that ignores the bound, and rejects pages that are smaller than those of the run', async () => {
    const bench = aBench();
    const { service: ignoring } = bench.with({ script: () => undefined });
    const service: ReportService = {
      async fetch(request, options) {
        if (request.request.size !== 2) throw new ExportError('RequestRejectedError', 'size must be at least 2');
        return await ignoring.fetch({ ...request, until: at('2027-01-01T00:00:00Z') }, options);
      },
    };
    Object.assign(bench.deps, { service });
    expect(failed(await bench.start(sliced))).toMatchObject({ error: 'ConfigurationError', pages: 0 });
    expect(pagesIn(bench)).toEqual([]);
  });

  it('refuses a service that ignores the lower bound, although the first slice is empty', async () => {
    const bench = aBench();
    const { service: ignoring } = bench.with({ script: () => undefined });
    const service: ReportService = {
      fetch: async (request, options) =>
        await ignoring.fetch({ ...request, since: at('2026-10-01T00:00:00Z') }, options),
    };
    Object.assign(bench.deps, { service });
    const end = failed(await bench.start({ ...sliced, since: '2026-10-31T23:56:00Z', slice: 'PT4M' }));
    expect(end).toMatchObject({ error: 'ConfigurationError', pages: 0 });
    expect(end.message).toContain('it ignores date.lt or the lower bound');
  });

  it('is open if the service rejects page 1 of the run, too', async () => {
    const bench = aBench({
      script() {
        throw new ExportError('RequestRejectedError', 'unknown field');
      },
    });
    expect(failed(await bench.start(sliced))).toMatchObject({ error: 'RequestRejectedError', pages: 0 });
    expect(bench.service.requests.filter(isProof)).toHaveLength(1);
  });

  it.each([sliced, bounds])('refuses a service that ignores the bound', async (input) => {
    const bench = aBench({ script: (request) => (isProof(request) ? aFetchedPage({ reports: 1 }) : undefined) });
    const end = failed(await bench.start(input));
    expect(end).toMatchObject({ error: 'ConfigurationError', pages: 0 });
    expect(end.message).toContain(
      'it ignores date.lt or the lower bound, or date.lt includes reports that are dated exactly at it',
    );
    expect(bench.service.requests).toHaveLength(1);
  });

  it('refuses one whose reports are not counted if there is a next page', async () => {
    const page = aFetchedPage({ reports: null, nextCursor: cursorAt(1) });
    const bench = aBench({ script: (request) => (isProof(request) ? page : undefined) });
    const end = failed(await bench.start(sliced));
    expect(end).toMatchObject({ error: 'ConfigurationError', pages: 0 });
    expect(end.message).toContain('it ignores date.lt');
  });

  it.each([sliced, bounds])(
    'holds if the service rejects such a request twice, and accepts page 1 in between',
    async (input) => {
      const bench = aBench({
        script(request) {
          if (isProof(request)) throw new ExportError('RequestRejectedError', 'lt must be after gte');
          return undefined;
        },
      });
      expect(reportIdsOf(bench, completed(await bench.start(input)).manifest)).toEqual(all);
      expect(bench.service.requests.slice(0, 3).map(isProof)).toEqual([true, false, true]);
      expect(bench.service.requests.filter(isProof)).toHaveLength(2);
    },
  );

  it('is repeated after an outage, and waits for a Retry-After', async () => {
    const errors = [
      new ExportError('ServiceUnavailableError', 'down'),
      new ExportError('ServiceThrottledError', 'busy', { retryAfterSeconds: 600 }),
    ];
    const bench = aBench({
      script(request) {
        const error = isProof(request) ? errors.shift() : undefined;
        if (error !== undefined) throw error;
        return undefined;
      },
    });
    expect(reportIdsOf(bench, completed(await bench.start(sliced)).manifest)).toEqual(all);
    expect(bench.slept).toContain(600_000);
  });
});

describe('a lag', () => {
  const definition: Partial<ExportDefinition> = { lagMs: 2 * 60 * minute };

  it('ends a run so long before it begins, and the next one starts there', async () => {
    const bench = aBench({ definition });
    bench.advance(30_500);
    const first = completed(await bench.start());
    expect(first).toMatchObject({ until: '2026-11-20T00:00:00Z', watermark: '2026-11-19T23:59:59Z' });
    expect(bench.service.requests.every((request) => request.until === '2026-11-20T00:00:00Z')).toBe(true);
    bench.advance(60 * minute);
    expect(completed(await bench.start())).toMatchObject({ since: first.watermark, until: '2026-11-20T01:00:00Z' });
  });

  it('is published as any run: it is no bounded one', async () => {
    const bench = aBench({ definition });
    const { manifest, bounded } = completed(await bench.start());
    expect(bounded).toBeUndefined();
    const folder = manifest?.replace('/manifest.json', '');
    expect(bench.store.objects.has(`${folder}/run.json`)).toBe(true);
    expect(bench.store.objects.has(`${bench.deps.definition.name}/latest.json`)).toBe(true);
  });
});

describe('a bounded run', () => {
  it('has a state of its own, and moves neither watermark nor latest.json nor freshness', async () => {
    const bench = aBench();
    const regular = completed(await bench.start());
    const before = await bench.state();
    const latest = bench.store.objects.get(`${bench.deps.definition.name}/latest.json`);
    const result = completed(await bench.start(bounds));
    expect(result).toMatchObject({ ...bounds, bounded: true, watermark: null });
    const { version, sequence, beginning } = await bench.state();
    expect(await bench.state()).toEqual({ ...before, version, sequence, beginning });
    expect(bench.store.objects.get(`${bench.deps.definition.name}/latest.json`)).toBe(latest);
    const folder = result.manifest?.replace('/manifest.json', '');
    expect(bench.store.objects.has(`${folder}/run.json`)).toBe(false);
    expect(JSON.parse(bench.store.objects.get(`${folder}/bounded.json`) ?? '')).toMatchObject({
      ...bounds,
      reports: 12,
    });
    expect(bench.manifest(result.manifest)).toMatchObject({ bounded: true, ...bounds });
    expect(regular.run).not.toBe(result.run);
  });

  it('continues beside a scheduled run', async () => {
    const bench = aBench({ script: failing('RequestRejectedError', ({ cursor }) => cursor !== null) });
    failed(await bench.start());
    bench.running.add('local:execution-1');
    completed(await bench.with({ script: () => undefined }).start(bounds));
    expect((await bench.state()).active).toBeDefined();
  });

  it('has a higher sequence than all earlier runs, and a lower one than all later runs, although the clock was ahead', async () => {
    const bench = aBench();
    const sequences: number[] = [];
    const hour = 3_600_000;
    for (const [ahead, input] of [
      [hour, {}],
      [-hour, bounds],
      [0, {}],
      [hour, { ...bounds, again: true }],
      [-hour, {}],
    ] as const) {
      bench.advance(ahead);
      sequences.push(Number(bench.manifest(completed(await bench.start(input)).manifest).sequence));
    }
    expect(sequences).toEqual([...new Set(sequences)].sort((one, other) => one - other));
  });

  it('is done at the second start, and exported again with again', async () => {
    const bench = aBench();
    const { run } = completed(await bench.start(bounds));
    expect(await bench.start(bounds)).toMatchObject({ status: 'skipped', done: true });
    expect(completed(await bench.start({ ...bounds, again: true })).run).not.toBe(run);
  });

  it('is not done if another filter or service has exported its bounds, or some of them', async () => {
    const bench = aBench();
    const { run } = completed(await bench.start(bounds));
    const { request } = bench.deps.definition;
    for (const change of [{ filter: { type: 'invoice' } }, { source: 'https://other.example.com' }]) {
      const other = bench.with({ definition: { request: { ...request, ...change } } });
      const result = completed(await other.start(bounds));
      expect(result.run).not.toBe(run);
      expect(await other.start(bounds)).toMatchObject({ status: 'skipped', done: true });
      const [half, rest] = [at('2026-11-01T00:06:00Z'), at('2026-11-01T00:13:00Z')];
      expect(failed(await other.start({ since: half, until: rest })).message).toContain(`run ${result.run}`);
    }
    // The newest run of these bounds is of another service.
    expect(completed(await bench.start({ since: at('2026-11-01T00:06:00Z'), until })).reports).toBe(6);
  });

  it.each([
    ['run', () => undefined],
    ['unfinished run', failing('RequestRejectedError', ({ cursor }) => cursor !== null)],
  ])('is refused if it overlaps another bounded %s, unless it says again', async (what, script) => {
    const bench = aBench({ script });
    await bench.start(bounds);
    const other = bench.with({ script: () => undefined });
    other.running.add('local:execution-1');
    const overlapping = { since: at('2026-11-01T00:11:00Z'), until: at('2026-11-01T00:20:00Z') };
    expect(failed(await other.start(overlapping))).toMatchObject({
      error: 'ConfigurationError',
      run: null,
      message: expect.stringMatching(
        what === 'run'
          ? /The bounds overlap .*Z, so reports/
          : /The bounds overlap .*, which is unfinished, so reports/,
      ),
    });
    expect(completed(await other.start({ since: until, until: overlapping.until })).reports).toBe(0);
    expect(completed(await other.start({ ...overlapping, again: true })).reports).toBe(1);
    other.running.clear();
    // The same bounds again resume the run, or find that they are done.
    expect((await other.start(bounds)).status).toBe(what === 'run' ? 'skipped' : 'completed');
  });

  it('has neither expect nor maxPages', async () => {
    const bench = aBench({ definition: { expect: { minReports: 1_000 } }, limits: { maxPages: 1 } });
    expect(completed(await bench.with({ definition: { expect: { minReports: 1_000 } } }).start(sliced)).pages).toBe(8);
    const shorter = { ...bounds, until: '2026-11-01T00:10:00Z', again: true };
    expect(completed(await bench.start(shorter)).pages).toBe(5);
  });

  it.each([
    ['ends in the future', { until: '2026-11-21T00:00:00Z' }, 'until: must not be after 2026-11-20T02:00:00Z'],
    ['ends before it begins', { until: '2026-10-01T00:00:00Z' }, 'until: must be after since'],
    ['has bounds that requests round', { since: '2026-11-01T00:00:00.5Z' }, 'since: must be in whole seconds'],
    ['has no since', { since: undefined }, 'needs since'],
  ])('is refused if it %s', async (_, change, says) => {
    const { since: from, ...rest } = { ...bounds, ...change };
    const bench = aBench();
    const end = failed(await bench.start(from === undefined ? rest : { since: from, ...rest }));
    expect(end).toMatchObject({ error: 'ConfigurationError', run: null });
    expect(end.message).toContain(says);
    expect(bench.service.requests).toEqual([]);
  });

  it.each([bounds, { parallel: 2 }, { slice: 'PT1H' }])('needs an API with an upper bound: %o', async (input) => {
    const bench = aBench({ definition: { dates: { unitMs: 1_000, zone: 'UTC' } } });
    expect(failed(await bench.start(input)).message).toContain('its requests do not exclude reports from a date on');
  });

  it.each([bounds, { parallel: 2 }, { slice: 'PT1H' }])('needs dates in a known time zone: %o', async (input) => {
    const bench = aBench({ definition: { dates: { unitMs: 86_400_000, zone: undefined, upperBound: '{until}' } } });
    expect(failed(await bench.start(input)).message).toContain('Set dates.zone in its api');
    expect(bench.service.requests).toEqual([]);
  });

  it.each([bounds, {}])('has at most maxConcurrentPages slices at the same time: %o', async (input) => {
    const bench = aBench({ definition: { slicing: { parallel: 1, maxConcurrentPages: 2 } } });
    const end = failed(await bench.start({ ...input, parallel: 3 }));
    expect(end).toMatchObject({ error: 'ConfigurationError', run: null });
    expect(end.message).toContain('parallel: must be at most 2, the maxConcurrentPages of the service');
    completed(await bench.start({ ...input, parallel: 2 }));
  });

  it('must not end within the lag of the export', async () => {
    const bench = aBench({ definition: { lagMs: 60 * minute } });
    const end = failed(await bench.start({ since, until: '2026-11-20T01:30:00Z' }));
    expect(end.message).toContain('must not be after 2026-11-20T01:00:00Z, which is now less the lag');
  });
});
