/** Whole runs with several slices, and bounded runs, in memory: the rules of docs/architecture.md, "Slices". */

import { describe, expect, it } from 'vitest';
import { definitionOfStart, boundedStateName } from '../../../lib/core/bounded-runs.ts';
import { type ErrorName, ExportError } from '../../../lib/core/errors.ts';
import { asRunId, type ExportDefinition, type LoopState } from '../../../lib/core/model.ts';
import type { PageRequest, PageStore, ReportService } from '../../../lib/core/ports.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { createPageSlots, type SlotsRecord } from '../../../lib/core/slots/page-slots.ts';
import { createMemoryRecord } from '../../../lib/core/slots/memory-record.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { aFetchedPage, anExportRequest, at, someLimits, withSpools } from '../../support/builders.ts';
import {
  anExportBench,
  begin,
  type Bench,
  type BenchOptions,
  completed,
  failed,
  manifestsIn,
  pagesIn,
} from '../../support/export/export-bench.ts';
import { cursorAt, failsAt, type Script, someReports } from '../../support/export/scripted-service.ts';
import { completes, fails, skips, type Start, expectStory } from '../../support/export/stories.ts';

const minute = 60_000;
/** Twelve reports, a minute apart, from here on. */
const since = at('2026-11-01T00:00:00Z');
const until = at('2026-11-01T00:12:00Z');
const bounds = { since, until };
/** Four slices of three reports: two pages each. */
const sliced = { ...bounds, parallel: 2, slice: 'PT3M' };
const one = { ...sliced, parallel: 1 };
const four = { ...sliced, parallel: 4 };
const whole = completes({ bounded: true, reports: 12 });

const aBench = (options: BenchOptions = {}) => anExportBench({ reports: someReports(12), ...options });
type Story = [what: string, first: BenchOptions, ...starts: Start[]];
const expectStoryOfTwelve = async (first: BenchOptions, ...starts: Start[]) =>
  await expectStory({ reports: someReports(12), ...first }, ...starts);

const isProof = (request: Pick<PageRequest, 'since' | 'until'>) => request.since === request.until;
const stateOf = async ({ log, deps }: Bench) => await log.exportState(boundedStateName(deps.definition.name, bounds));
const progressIn = async ({ log, deps }: Bench) =>
  (await log.progress(boundedStateName(deps.definition.name, bounds)).read()).content;
/** Which of the slices of three minutes is requested; 0: a proof. */
const sliceIn = (request: PageRequest): number =>
  isProof(request) ? 0 : 1 + (Date.parse(request.since) - Date.parse(since)) / (3 * minute);
const fileOf = ({ key }: { readonly key: string }) => key.slice(key.lastIndexOf('/') + 1);

const answers: Script = () => undefined;
/** Fails requests for pages that `matches`. */
const failing =
  (name: ErrorName, matches: (request: PageRequest) => boolean, retryAfterSeconds?: number): Script =>
  (request) => {
    if (isProof(request) || !matches(request)) return undefined;
    throw new ExportError(name, `${name} of ${request.label}`, { retryAfterSeconds });
  };
const inSlice = (slice: number) => (request: PageRequest) => sliceIn(request) === slice;
const withCursor = ({ cursor }: PageRequest) => cursor !== null;
const rejected = failing('CursorRejectedError', withCursor);
/** Answers proofs with `proof`, and pages with `page`. */
const answering =
  (proof: Script, page: Script = answers): Script =>
  (request, nth) =>
    (isProof(request) ? proof : page)(request, nth);
const rejectsProof: Script = () => {
  throw new ExportError('RequestRejectedError', 'lt must be after gte');
};
const errorDocument: Script = () => aFetchedPage({ reports: 0, documentRoot: 'error', nextCursor: null });

/** A bounded run that has begun, and an invocation of ExportPage that has time for one page of each slice. */
async function begunRun(bench: Bench, input: object) {
  const deps = { ...bench.deps, definition: definitionOfStart(bench.deps.definition, bounds) };
  const begun = await begin(bench.deps, 'one', input);
  const invoke = async (loop: LoopState, changed: Partial<typeof deps> = {}) =>
    await exportPage({ ...deps, ...changed }, { loop, execution: 'one', hasTime: () => false });
  return { deps, begun, invoke };
}

describe('a run with several slices', () => {
  it('is published once, with its pages in the order of slices, their bounds and their times', async () => {
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
    const result = completed(await bench.start(sliced));
    expect(result).toMatchObject({ ...bounds, bounded: true, pages: 8, reports: 12 });
    const manifest = bench.manifest(result.manifest);
    expect(manifest).toMatchObject({
      serviceStartedAt: '2026-11-20T02:05:00Z',
      serviceCompletedAt: '2026-11-20T02:08:01Z',
    });
    const [first, , second] = ['page-000001-000001.xml', 'page-000001-000002.xml', 'page-000002-000001.xml'];
    expect([manifest.pages[0], manifest.pages[2]].map((page) => page && fileOf(page))).toEqual([first, second]);
    const third = { since: '2026-11-01T00:06:00Z', until: '2026-11-01T00:09:00Z', pages: 2, reports: 3 };
    expect(manifest).toMatchObject({ slices: [{}, {}, third, {}] });
    const exported = bench.events.filter(({ event }) => event === 'page-exported');
    expect(exported[0]).toMatchObject({ page: 1, slice: 1, slices: { done: 0, count: 4 } });
    expect(exported.at(-1)).toMatchObject({ page: 2, slices: { done: 4, count: 4 }, totalPages: 8, totalReports: 12 });
  });

  it('walks `parallel` slices at the same time, the oldest first, and holds a slot for each', async () => {
    const bench = aBench();
    const { fetch } = bench.service;
    const walked: string[] = [];
    const most = { requests: 0, slots: 0 };
    let now = 0;
    const service: ReportService = {
      async fetch(request, options) {
        if (request.cursor === null && !isProof(request)) walked.push(request.since);
        now += 1;
        most.requests = Math.max(most.requests, now);
        most.slots = Math.max(most.slots, (await record.read()).content?.holders.length ?? 0);
        await new Promise(setImmediate);
        now -= 1;
        return await fetch(request, options);
      },
    };
    const record = createMemoryRecord<SlotsRecord>();
    const slots = createPageSlots({ record, limit: 3, runtime: bench.deps.runtime });
    Object.assign(bench.deps, { service, slots });
    completed(await bench.start({ ...sliced, slice: 'PT1M', parallel: 3 }));
    expect(walked).toEqual(someReports(12).map(({ date }) => instantOf(Date.parse(date))));
    expect(most).toEqual({ requests: 3, slots: 3 });
    expect((await record.read()).content).toEqual({ holders: [] });
  });

  it('begins a slice while the last page of the one before is stored, with at most two in flight', async () => {
    const bench = aBench({ limits: { pagesPerInvocation: 25 } });
    const { deps, begun } = await begunRun(bench, { ...one, slice: 'PT1M' });
    const gate = Promise.withResolvers<void>();
    const store = withSpools(bench.store, ({ put }) => ({
      put: async (page) => await gate.promise.then(() => put(page)),
    }));
    const exported = exportPage({ ...deps, store }, { loop: begun, execution: 'one' });
    const requested = () => bench.service.requests.filter((request) => !isProof(request));
    await expect.poll(() => requested().map(({ since: each }) => each.slice(14, 16))).toEqual(['00', '01']);
    gate.resolve();
    expect(await exported).toMatchObject({ next: 'finish' });
  });

  it('returns its slot if the proof of the upper bound fails', async () => {
    const bench = aBench({ script: answering(failsAt({ 1: 'ConfigurationError' })) });
    const record = createMemoryRecord<SlotsRecord>();
    Object.assign(bench.deps, { slots: createPageSlots({ record, limit: 2, runtime: bench.deps.runtime }) });
    expect(failed(await bench.start(sliced)).error).toBe('ConfigurationError');
    expect((await record.read()).content).toEqual({ holders: [] });
  });

  it('resumes its unfinished slices before it begins others, the oldest first', async () => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, { ...sliced, parallel: 3 });
    await invoke(begun);
    expect(await progressIn(bench)).toMatchObject({ begun: 3, open: [1, 2, 3] });
    const resumed = bench.with({});
    completed(await resumed.start({ ...one }));
    expect(resumed.service.requests.map(sliceIn)).toEqual([1, 2, 3, 4, 4]);
  });

  const days = (parallel: number): Partial<ExportDefinition> => ({ slicing: { parallel, lengthMs: 24 * 60 * minute } });
  const fromOctober = { since: '2026-10-30T12:00:00Z' };
  // It ends at 00:24.
  const lag = { lagMs: Date.UTC(2026, 10, 20, 2) - Date.UTC(2026, 10, 1, 0, 24) };
  const dense = (maxPages: number) => ({ limits: { maxPages, pagesPerInvocation: 1_000 } });
  const maxPages = (pages: number) =>
    fails('ConfigurationError', `the limit of ${pages} pages (maxPages)`, { pages, resumable: true });

  it.each<Story>([
    [
      'has an open last slice without an upper bound, with which it ends',
      { definition: days(4) },
      {
        input: fromOctober,
        ends: completes({ reports: 12, watermark: at('2026-11-20T01:59:59Z') }),
        after: ({ service }) => {
          expect(service.requests.filter((request) => request.until === undefined)).toHaveLength(1);
        },
      },
    ],
    [
      'looks as today if it has one slice, and asks for no proof',
      { definition: { slicing: { parallel: 8, lengthMs: 90 * 24 * 60 * minute } } },
      {
        input: fromOctober,
        ends: completes({ pages: 6 }),
        requests: 6,
        after: (bench) => expect(pagesIn(bench).at(-1)).toMatch(/\/page-000006\.xml$/),
      },
    ],
    [
      'is resumed after its last pages, with the same slices, by a start with another parallel',
      { script: failing('RequestRejectedError', withCursor) },
      {
        input: sliced,
        ends: fails('RequestRejectedError', '', { pages: 4, resumable: true, bounded: true }),
        after: async (bench) => {
          const slices = { count: 4, lengthMs: 3 * minute, parallel: 2 };
          expect((await stateOf(bench))?.active?.slices).toMatchObject(slices);
        },
      },
      { script: answers, input: four, ends: whole, requests: 4 },
    ],
    [
      'compares expect.minReports with the sum of its slices',
      { definition: { expect: { minReports: 13 }, ...days(2) } },
      { input: fromOctober, ends: fails('ConfigurationError', 'has 12 reports', { resumable: false }) },
      { definition: { expect: { minReports: 12 }, ...days(2) }, input: fromOctober, ends: completes() },
    ],
    ...([1, 2, 4, 16] as const).map((parallel): Story => [
      `has no more pages than maxPages, with ${parallel} slices at the same time`,
      { definition: lag, ...dense(20), size: 1, reports: someReports(24) },
      { input: { since, parallel, slice: 'PT4M' }, ends: maxPages(20) },
      { ...dense(24), input: { parallel }, ends: completes({ pages: 24 }) },
    ]),
  ])('%s', async (_, first, ...starts) => {
    await expectStoryOfTwelve(first, ...starts);
  });
});

describe('a slice that fails', () => {
  const eventsOf = ({ events }: Bench, name: string) => events.filter(({ event }) => event === name);

  it.each<Story>([
    ...(['ContractError', 'RequestRejectedError', 'ServiceUnavailableError'] as const).map((name): Story => [
      `with ${name} is set aside while the others continue, and exported by the next start`,
      { script: failing(name, inSlice(2)) },
      {
        input: sliced,
        // An outage begins no further slice in its invocation, but the next one does.
        ends: fails(name, 'of slice 2', { resumable: true, pages: 6 }),
        after: async (bench) => {
          expect(await progressIn(bench)).toMatchObject({ setAside: [2], failures: [{ slice: 2, error: name }] });
          expect(eventsOf(bench, 'slice-set-aside')).toHaveLength(1);
        },
      },
      { script: answers, input: sliced, ends: whole },
    ]),
    ...(['ConfigurationError', 'PageConflictError'] as const).map((name): Story => [
      `with ${name} stops all`,
      { script: failing(name, inSlice(1)) },
      {
        input: one,
        ends: fails(name, '', { pages: 0 }),
        after: ({ service }) => expect(service.requests.filter((request) => !isProof(request))).toHaveLength(1),
      },
    ]),
    [
      'is named in the error of the run if it is the first one by date and no page was logged',
      {
        script: (request, nth) =>
          failing(sliceIn(request) === 1 ? 'ContractError' : 'RequestRejectedError', () => true)(request, nth),
      },
      { input: sliced, ends: fails('ContractError') },
    ],
  ])('%s', async (_, first, ...starts) => {
    await expectStoryOfTwelve(first, ...starts);
  });

  it('in an outage is the last one that begins in its invocation', async () => {
    const begun: number[] = [];
    const script: Script = (request, nth) => {
      if (!isProof(request)) begun.push(sliceIn(request));
      return failsAt({ 2: 'ServiceUnavailableError' })(request, nth);
    };
    await expectStoryOfTwelve({ script }, { input: one, ends: whole });
    expect(begun.slice(0, 2)).toEqual([1, 1]);
  });

  it('with a long Retry-After stops all chains, and no request is sent before it ends', async () => {
    const times: number[] = [];
    const bench = aBench();
    const script: Script = (request, nth) => {
      times.push(bench.deps.runtime.now());
      return failsAt({ 3: 600 })(request, nth);
    };
    const throttled = bench.with({ script });
    expect(completed(await throttled.start(four)).reports).toBe(12);
    expect(throttled.slept).toContain(600_000);
    const [, , receivedAt = 0] = times;
    const after = times.filter((time) => time > receivedAt);
    expect(Math.min(...after) - receivedAt).toBeGreaterThanOrEqual(600_000);
  });

  it('is announced, too, if another one has a long Retry-After, which alone is no failure', async () => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, sliced);
    const script: Script = (request, nth) =>
      inSlice(1)(request)
        ? failing('ContractError', () => true)(request, nth)
        : failing('ServiceThrottledError', () => true, 600)(request, nth);
    const { service } = bench.with({ script });
    expect(await invoke(begun, { service })).toMatchObject({ next: 'wait', waitSeconds: 600 });
    expect(eventsOf(bench, 'slice-set-aside')).toMatchObject([{ slice: 1, error: 'ContractError' }]);
  });

  it('is announced although a Retry-After has set it aside before', async () => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, { ...sliced, slice: 'PT6M' });
    const throttled = bench.with({ script: failing('ServiceThrottledError', inSlice(3), 600) });
    const waiting = await invoke(begun, { service: throttled.service });
    expect(await progressIn(bench)).toMatchObject({ setAside: [2], failures: [{ error: 'ServiceThrottledError' }] });
    const refused = bench.with({ script: failing('ContractError', inSlice(3)) });
    const next = await invoke({ ...begun, ...waiting }, { service: refused.service });
    expect(next).toMatchObject({ next: 'page' });
    const announced = [{ slice: 2, error: 'ContractError' }];
    expect(eventsOf(bench, 'slice-set-aside')).toMatchObject(announced);
    await invoke({ ...begun, ...next }, { service: refused.service });
    expect(eventsOf(bench, 'slice-set-aside')).toMatchObject(announced);
  });

  it('does not end the run while another one starts over, and has logged as many pages as it had', async () => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, { ...sliced, slice: 'PT6M' });
    const started = await invoke(begun);
    const script: Script = (request, nth) =>
      inSlice(1)(request) ? rejected(request, nth) : failing('ContractError', () => true)(request, nth);
    const { service } = bench.with({ script });
    expect(await invoke({ ...begun, ...started }, { service })).toMatchObject({ next: 'page', page: started.page });
  });

  it.each<[string, Script]>([
    ['would name the slice', answers],
    ['would start another one over', failing('CursorRejectedError', inSlice(1))],
  ])('with a long Retry-After keeps it although the state, which %s, cannot be written', async (_, first) => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, sliced);
    const throttles = failing('ServiceThrottledError', () => true, 600);
    const { service } = bench.with({
      script: (request, nth) => first(request, nth) ?? throttles(request, nth),
    });
    const log = { ...bench.log, replaceState: async () => await Promise.reject(new Error('throttled')) };
    expect(await invoke(begun, { service, log })).toMatchObject({ next: 'wait', waitSeconds: 600 });
  });

  it.each([
    { input: four, maxInFlight: 12, most: 4 * 3 },
    { input: four, maxInFlight: 4, most: 4 * 2 },
    { input: bounds, maxInFlight: 4, most: 4 },
  ])('shares $maxInFlight pages in flight with the others, at least two for each', async (row) => {
    const bench = aBench({ size: 1, limits: { pagesPerInvocation: 25 } });
    const { deps, begun } = await begunRun(bench, row.input);
    const gate = Promise.withResolvers<void>();
    let inFlight = 0;
    const { service: inner } = bench.with({});
    const service: ReportService = {
      async fetch(request, options) {
        const received = await inner.fetch(request, options);
        if (isProof(request)) return received;
        inFlight += 1;
        await gate.promise;
        return received;
      },
    };
    const exported = exportPage({ ...deps, service }, { loop: begun, execution: 'one', maxInFlight: row.maxInFlight });
    await expect.poll(() => inFlight).toBe(row.most);
    gate.resolve();
    await exported;
  });
});

describe('the first page of a slice', () => {
  /** An error document for the first page of the slices that match. */
  const errorIn =
    (matches: (slice: number) => boolean): Script =>
    (request, nth) =>
      matches(sliceIn(request)) ? errorDocument(request, nth) : undefined;

  it.each<Story>([
    [
      'has the root of the slices before it, also if no invocation has ended since',
      { script: answering(rejectsProof, (request, nth) => errorIn((slice) => slice > 1)(request, nth)) },
      { input: one, ends: fails('ContractError', 'another slice has it', { pages: 2 }) },
    ],
    [
      'must have the root of the response to the proof, also in the first slice',
      { script: answering(answers, errorDocument) },
      {
        input: one,
        ends: fails('ContractError', /page 1 of slice 1.*reports is expected: an earlier response has it/, {
          pages: 0,
        }),
      },
    ],
    [
      'is exported by the next start if the proof was an error document with status 200',
      { script: answering(errorDocument) },
      {
        input: sliced,
        ends: fails('ContractError', /an earlier response has it.*If that one was an error document, try again/, {
          pages: 0,
        }),
      },
      { script: answers, input: sliced, ends: whole },
    ],
    ...[1, 3].map((count): Story => [
      `that was an error document with status 200 is exported again by the next start: ${count} of them`,
      {
        script: answering(rejectsProof, (_, nth) => (nth <= 4 + count ? errorDocument(_, nth) : undefined)),
      },
      {
        input: four,
        ends: fails('ContractError', 'but error is expected: another slice has it', { resumable: true }),
      },
      { script: answers, input: sliced, ends: whole },
    ]),
    ...[[3, true] as const, [2, false] as const].map(([size, isKnown]): Story => [
      `stays if ${isKnown ? 'a completed run has had its root' : 'it is followed by a second page'}`,
      { size },
      ...(isKnown ? [{ ends: completes() }] : []),
      { script: errorIn((slice) => slice === 4), input: sliced, ends: fails('ContractError') },
      {
        script: answers,
        input: sliced,
        ends: whole,
        after: ({ service }) => expect(new Set(service.requests.map(sliceIn))).toEqual(new Set([4])),
      },
    ]),
  ])('%s', async (_, first, ...starts) => {
    await expectStoryOfTwelve(first, ...starts);
  });

  it('is stored only if it has the root of those that arrive at the same time, although no response said it before', async () => {
    const unknown: Script = () => aFetchedPage({ reports: 0, documentRoot: null, nextCursor: null });
    const bench = aBench({
      script: answering(
        unknown,
        errorIn((slice) => slice === 2),
      ),
    });
    const end = failed(await bench.start(four));
    expect(end.error).toBe('ContractError');
    const run = { export: bench.deps.definition.name, run: asRunId(end.run ?? '') };
    const entries = await Promise.all([1, 2, 3, 4].map((slice) => bench.log.last({ ...run, slice, attempt: 1 })));
    expect(new Set(entries.flatMap((entry) => entry?.documentRoot ?? [])).size).toBe(1);
  });

  it('has the root of slices that are complete, also in a later invocation', async () => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, { ...one, slice: 'PT1M' });
    const next = await invoke(begun);
    expect(await progressIn(bench)).toMatchObject({ begun: 1, open: [] });
    const { service } = bench.with({ script: errorDocument });
    await expect(invoke(next, { service })).rejects.toThrow('but reports is expected: another slice has it');
  });

  it('has the root of the other slices when it starts over, although every slice has begun', async () => {
    const bench = aBench();
    const { begun, invoke } = await begunRun(bench, four);
    const next = await invoke(begun);
    const script: Script = (request, nth) => (withCursor(request) ? rejected : errorDocument)(request, nth);
    await invoke(next, { service: bench.with({ script }).service });
    const { failures = [] } = (await progressIn(bench)) ?? {};
    expect(failures).toHaveLength(4);
    expect(failures[0]).toMatchObject({
      error: 'ContractError',
      message: expect.stringContaining('but reports is expected: another slice has it'),
    });
  });
});

describe('a cursor that the service rejects or repeats in one slice', () => {
  const isRejected = (request: PageRequest) => sliceIn(request) === 3 && withCursor(request);
  const once = () => {
    let left = 1;
    return failing('CursorRejectedError', (request) => isRejected(request) && left-- > 0);
  };
  const always = failing('CursorRejectedError', isRejected);
  const end = fails('CursorRejectedError', '', { pages: 7, resumable: true });
  const restarts = ({ events }: Bench) => events.filter(({ event }) => event === 'slice-restarted');
  const restartedPages = (bench: Bench) =>
    pagesIn(bench)
      .map((key) => fileOf({ key }))
      .filter((name) => /-000003\.2-/.test(name));
  const repeated = fails('RepeatedCursorError', '', { resumable: true });
  const inSlice2 =
    (script: Script): Script =>
    (request, nth) =>
      inSlice(2)(request) ? script(request, nth) : undefined;
  // Cursors 1, 2, 3, 4, 2, and then the end: no circle.
  const nextTwice = [1, 2, 3, 4, 2, 5, null];

  it.each<Story>([
    [
      'starts its slice over, in a new attempt with pages of its own, and no other',
      { script: once() },
      {
        input: sliced,
        ends: whole,
        after: (bench) => {
          expect(restartedPages(bench)).toEqual(['page-000003.2-000001.xml', 'page-000003.2-000002.xml']);
          expect(pagesIn(bench)).toHaveLength(9);
          expect(restarts(bench)).toMatchObject([{ slice: 3, attempt: 2 }]);
        },
      },
    ],
    [
      'fails the run after maxCursorRestarts, and each start may start it over as often again',
      { limits: { maxCursorRestarts: 2 }, script: always },
      ...[1, 2].map(() => ({
        input: sliced,
        ends: end,
        script: always,
        after: (bench: Bench) => expect(restarts(bench)).toHaveLength(2),
      })),
      { script: answers, input: sliced, ends: whole },
    ],
    [
      'starts its slice over at the next start, although it may not during one',
      { script: always, limits: { maxCursorRestarts: 0 } },
      { input: sliced, ends: end },
      { script: answers, input: sliced, ends: whole, after: (bench) => expect(restartedPages(bench)).toHaveLength(2) },
    ],
    [
      'makes an unreachable service an outage, although the slices that start over have no page any more',
      {
        // The proofs, a page, its rejected cursor, and then an outage.
        script: (_, nth) => {
          if (nth > 4) throw new ExportError('ServiceUnreachableError', 'connection refused');
          return nth === 4 ? failsAt({ 4: 'CursorRejectedError' })(_, nth) : undefined;
        },
      },
      { input: one, ends: fails('ServiceUnavailableError') },
    ],
    [
      'begins a slice whose cursors go round in circles again at the next start',
      { script: inSlice2(({ cursor }) => (cursor === null ? undefined : aFetchedPage({ nextCursor: cursor }))) },
      { input: sliced, ends: repeated, after: (bench) => expect(manifestsIn(bench)).toEqual([]) },
      { script: answers, input: sliced, ends: whole },
    ],
    [
      'begins a slice with a cursor that occurs twice again at the next start, and keeps the others',
      {
        script: inSlice2(() => {
          const next = nextTwice.shift();
          return aFetchedPage({ reports: 0, nextCursor: next == null ? null : cursorAt(next) });
        }),
      },
      { input: sliced, ends: repeated, after: (bench) => expect(manifestsIn(bench)).toEqual([]) },
      {
        script: answers,
        afterMs: 60 * minute,
        input: sliced,
        ends: whole,
        after: (bench) => {
          expect(new Set(bench.service.requests.map(sliceIn))).toEqual(new Set([2]));
          // Not when the pages that were discarded were complete.
          const completedAt = instantOf(bench.deps.runtime.now());
          expect(bench.manifest(manifestsIn(bench)[0] ?? null)).toMatchObject({ completedAt });
        },
      },
    ],
  ])('%s', async (_, first, ...starts) => {
    await expectStoryOfTwelve(first, ...starts);
  });

  it('is no damage if another invocation starts its slice over while the run is finished; the next start exports the rest', async () => {
    const bench = aBench();
    const { begun, deps } = await begunRun(bench, sliced);
    let loop: LoopState & { readonly next: string } = begun;
    while (loop.next !== 'finish') loop = await exportPage(deps, { loop, execution: 'one' });
    const state = await stateOf(bench);
    if (state?.active?.slices === undefined) throw new Error('no run with slices');
    const active = { ...state.active, attempts: { '2': 2 }, generation: 1 };
    await bench.log.replaceState({ ...state, version: state.version + 1, active });
    await expect(finishRun(deps, { run: state.active.run, execution: 'one' })).rejects.toMatchObject({
      name: 'CursorRejectedError',
      message: expect.stringContaining('has started slice 2 of run'),
    });
    expect(completed(await bench.start(sliced)).reports).toBe(12);
  });

  it('starts no slice over whose last page a concurrent invocation has exported meanwhile', async () => {
    const bench = aBench();
    const { deps, begun, invoke } = await begunRun(bench, one);
    const next = await invoke(begun);
    const store: PageStore = {
      ...bench.store,
      async find(key) {
        const found = await bench.store.find(key);
        // The other invocation of the same execution is faster.
        await exportPage(deps, { loop: next, execution: 'one', hasTime: () => false });
        return found;
      },
    };
    const { service } = bench.with({ script: rejected });
    expect(await invoke(next, { service, store })).toMatchObject({ next: 'page', page: 3 });
    expect((await stateOf(bench))?.active?.attempts).toBeUndefined();
    expect(restarts(bench)).toEqual([]);
    expect(completed(await bench.start(sliced)).reports).toBe(12);
  });

  it('starts no slice over again that a concurrent invocation has started over, and exported to its end', async () => {
    const bench = aBench({ limits: { pagesPerInvocation: 25 } });
    const { deps, begun, invoke } = await begunRun(bench, one);
    const next = await invoke(begun, { definition: { ...deps.definition, limits: someLimits() } });
    let isFirst = true;
    const log = Object.assign(Object.create(bench.log) as Bench['log'], {
      async replaceState(state: Parameters<Bench['log']['replaceState']>[0]) {
        if (!isFirst) return await bench.log.replaceState(state);
        isFirst = false;
        // The other invocation of the same execution has seen the same rejection, and is faster.
        await bench.log.replaceState(state);
        await exportPage(deps, { loop: next, execution: 'one' });
        return false;
      },
    });
    await invoke(next, { service: bench.with({ script: rejected }).service, log });
    expect(completed(await bench.start(sliced)).reports).toBe(12);
  });
});

describe('the proof of the bounds', () => {
  const empty = (instant: string) => ({ since: instant, until: instant, cursor: null });

  it.each([
    ['one slice', bounds, [until]],
    ['two slices', { ...sliced, slice: 'PT6M' }, ['2026-11-01T00:06:00Z']],
    ['four slices', sliced, ['2026-11-01T00:03:00Z', '2026-11-01T00:09:00Z']],
  ])('of %s requests as little as shows both, in the size of pages, before the first page', async (_, input, cuts) => {
    const { service } = await expectStoryOfTwelve({}, { input, ends: whole });
    expect(service.requests.slice(0, cuts.length)).toMatchObject(cuts.map(empty));
    expect(service.requests.filter(isProof)).toHaveLength(cuts.length);
    expect(new Set(service.requests.map(({ request }) => request.size)).size).toBe(1);
  });

  it.each([
    ['the upper bound', { until: at('2027-01-01T00:00:00Z') }, sliced],
    [
      'the lower bound, although the first slice is empty',
      { since: at('2026-10-01T00:00:00Z') },
      { ...sliced, since: '2026-10-31T23:56:00Z', slice: 'PT4M' },
    ],
  ])('refuses a service that ignores %s, and rejects smaller pages than those of the run', async (_, change, input) => {
    const bench = aBench();
    const { service: ignoring } = bench.with({});
    const service: ReportService = {
      async fetch(request, options) {
        if (request.request.size !== 2) throw new ExportError('RequestRejectedError', 'size must be at least 2');
        return await ignoring.fetch({ ...request, ...change }, options);
      },
    };
    Object.assign(bench.deps, { service });
    const end = failed(await bench.start(input));
    expect(end).toMatchObject({ error: 'ConfigurationError', pages: 0 });
    expect(end.message).toContain('it ignores date.lt or the lower bound');
    expect(pagesIn(bench)).toEqual([]);
  });

  const withReport: Script = () => aFetchedPage({ reports: 1 });

  it('has no request in flight when it fails', async () => {
    const bench = aBench({ script: answering(withReport) });
    const { service: ignoring } = bench.with({});
    const aborted = Promise.withResolvers<never>();
    let requests = 0;
    const service: ReportService = {
      async fetch(request, options) {
        requests += 1;
        if (requests === 1) return await ignoring.fetch(request, options);
        options.signal?.addEventListener('abort', () => aborted.reject(new Error('aborted')));
        return await aborted.promise;
      },
    };
    Object.assign(bench.deps, { service });
    expect(failed(await bench.start(sliced)).error).toBe('ConfigurationError');
    expect(requests).toBe(2);
    await expect(aborted.promise).rejects.toThrow('aborted');
  });

  const uncounted: Script = () => aFetchedPage({ reports: null, nextCursor: cursorAt(1) });
  const ignores = fails('ConfigurationError', 'date.lt includes reports that are dated exactly at it', { pages: 0 });
  const twice = answering(failsAt({ 1: 'ServiceUnavailableError', 2: 600 }));
  it.each<Story>([
    [
      'refuses a service that ignores the bound',
      { script: answering(withReport) },
      { input: sliced, ends: ignores, requests: 2 },
    ],
    ['refuses it for one slice, too', { script: answering(withReport) }, { input: bounds, ends: ignores, requests: 1 }],
    [
      'refuses one whose reports are not counted if there is a next page',
      { script: answering(uncounted) },
      { input: sliced, ends: ignores },
    ],
    [
      'is open if the service rejects page 1 of the run, too',
      { script: failsAt({ 1: 'RequestRejectedError', 2: 'RequestRejectedError' }) },
      { input: bounds, ends: fails('RequestRejectedError', '', { pages: 0 }), requests: 2 },
    ],
    ...[
      { input: sliced, proofs: [true, true, false, true] },
      { input: { ...sliced, parallel: 1 }, proofs: [true, false, true] },
      { input: bounds, proofs: [true, false, true] },
    ].map(({ input, proofs }): Story => [
      'holds if the service rejects such a request twice, and accepts page 1 in between',
      { script: answering(rejectsProof) },
      {
        input,
        ends: whole,
        after: ({ service }) => {
          const sent = service.requests.map(isProof);
          expect(sent.slice(0, proofs.length)).toEqual(proofs);
          expect(sent.slice(proofs.length)).not.toContain(true);
        },
      },
    ]),
    [
      'is repeated after an outage, and waits for a Retry-After',
      { script: twice },
      { input: sliced, ends: whole, after: ({ slept }) => expect(slept).toContain(600_000) },
    ],
  ])('%s', async (_, first, ...starts) => {
    await expectStoryOfTwelve(first, ...starts);
  });
});

describe('a run with a lag', () => {
  it('ends so long before it begins, is published as any run, and the next one starts there', async () => {
    const first = { until: at('2026-11-20T00:00:00Z'), watermark: at('2026-11-19T23:59:59Z') };
    const bench = await expectStoryOfTwelve(
      { definition: { lagMs: 120 * minute } },
      { afterMs: 30_500, ends: completes(first) },
      { afterMs: 60 * minute, ends: completes({ since: first.watermark, until: at('2026-11-20T01:00:00Z') }) },
    );
    expect(bench.service.requests.every((request) => request.until !== undefined)).toBe(true);
    const names = [...bench.store.objects.keys()].map((key) => fileOf({ key }));
    expect(names.filter((name) => /^(run|latest)\.json$/.test(name))).toEqual(['run.json', 'latest.json', 'run.json']);
  });
});

describe('a bounded run', () => {
  it('has a state of its own, and moves neither watermark nor latest.json nor freshness', async () => {
    const bench = await expectStoryOfTwelve({}, { ends: completes() });
    const before = await bench.state();
    const latest = bench.store.objects.get(`${before.export}/latest.json`);
    const result = completed(await bench.start(bounds));
    expect(result).toMatchObject({ ...bounds, bounded: true, watermark: null });
    const { version, sequence, beginning } = await bench.state();
    expect(await bench.state()).toEqual({ ...before, version, sequence, beginning });
    expect(bench.store.objects.get(`${before.export}/latest.json`)).toBe(latest);
    const folder = result.manifest?.replace('/manifest.json', '');
    expect(bench.store.objects.has(`${folder}/run.json`)).toBe(false);
    const summary = JSON.parse(bench.store.objects.get(`${folder}/bounded.json`) ?? '');
    expect(summary).toMatchObject({ ...bounds, reports: 12 });
    expect(bench.manifest(result.manifest)).toMatchObject({ bounded: true, ...bounds });
  });

  it('continues beside a scheduled run', async () => {
    const bench = aBench({ script: failing('RequestRejectedError', withCursor) });
    failed(await bench.start());
    bench.running.add('local:execution-1');
    completed(await bench.with({ script: answers }).start(bounds));
    expect((await bench.state()).active).toBeDefined();
  });

  it('has a higher sequence than all earlier runs, and a lower one than all later runs, although the clock was ahead', async () => {
    const bench = aBench();
    const sequences: number[] = [];
    const hour = 60 * minute;
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

  const half = { since: at('2026-11-01T00:06:00Z'), until };
  const rest = { since: half.since, until: at('2026-11-01T00:13:00Z') };
  const beside = { since: until, until: at('2026-11-01T00:20:00Z') };
  const overlapping = { since: at('2026-11-01T00:11:00Z'), until: beside.until };
  const overlaps = (says: RegExp) => fails('ConfigurationError', says, { run: null });
  const refused = (says: string, input: object, definition: Partial<ExportDefinition> = {}): Story => [
    `is refused: ${says}, with ${JSON.stringify(input)}`,
    { definition },
    { input, ends: fails('ConfigurationError', says, { run: null }), requests: 0 },
  ];
  const inDays = { dates: { unitMs: 86_400_000, zone: undefined, upperBound: '{until}' } };
  const unbounded = { dates: { unitMs: 1_000, zone: 'UTC' } };
  const limited = { slicing: { parallel: 1, maxConcurrentPages: 2 } };
  const invoices = anExportRequest({ size: 2, filter: { type: 'invoice' } });

  it.each<Story>([
    [
      'is done at the second start, and exported again with again',
      {},
      { input: bounds, ends: whole },
      { input: bounds, ends: { status: 'skipped', done: true } },
      { input: { ...bounds, again: true }, ends: whole, after: (bench) => expect(manifestsIn(bench)).toHaveLength(2) },
    ],
    ...[{ filter: { type: 'invoice' } }, { source: 'https://other.example.com' }].map((change): Story => {
      const request = anExportRequest({ size: 2, ...change });
      return [
        `is not done if another request has exported its bounds, or some of them: ${JSON.stringify(change)}`,
        {},
        { input: bounds, ends: whole },
        { definition: { request }, input: bounds, ends: whole },
        { input: bounds, ends: { status: 'skipped', done: true } },
        { input: rest, ends: overlaps(/The bounds overlap/) },
        // The newest run of these bounds is of another request.
        { definition: {}, input: half, ends: completes({ reports: 6 }) },
      ];
    }),
    [
      'is refused if it overlaps another bounded run, unless it says again',
      {},
      { input: bounds, ends: whole },
      { input: overlapping, ends: overlaps(/The bounds overlap .*Z, so reports/) },
      { input: beside, ends: completes({ reports: 0 }) },
      { input: { ...overlapping, again: true }, ends: completes({ reports: 1 }) },
      { input: bounds, ends: skips() },
    ],
    [
      'is refused if it overlaps another unfinished run, which is resumed by the same bounds',
      { script: failing('RequestRejectedError', withCursor) },
      { input: bounds, ends: fails('RequestRejectedError') },
      { script: answers, input: overlapping, ends: overlaps(/The bounds overlap .*, which is unfinished, so reports/) },
      { input: bounds, ends: whole },
    ],
    [
      'is refused if it overlaps another one, although it replaces a run with the same bounds and another filter',
      { script: failing('RequestRejectedError', withCursor) },
      { input: bounds, ends: fails('RequestRejectedError') },
      { script: answers, definition: { request: invoices }, input: overlapping, ends: completes({ reports: 1 }) },
      { input: { ...bounds, restart: true }, ends: overlaps(/The bounds overlap .*Z, so reports/) },
    ],
    [
      'has neither expect nor maxPages',
      { definition: { expect: { minReports: 1_000 } }, limits: { maxPages: 1 } },
      { input: sliced, ends: completes({ pages: 8 }) },
    ],
    refused('until: must not be after 2026-11-20T02:00:00Z', { since, until: '2026-11-21T00:00:00Z' }),
    refused('until: must be after since', { since, until: '2026-10-01T00:00:00Z' }),
    refused('since: must be in whole seconds', { since: '2026-11-01T00:00:00.5Z', until }),
    refused('needs since', { until }),
    refused(
      'must not be after 2026-11-20T01:00:00Z, which is now less the lag',
      { since, until: '2026-11-20T01:30:00Z' },
      { lagMs: 60 * minute },
    ),
    ...[bounds, { parallel: 2 }, { slice: 'PT1H' }].flatMap((input) => [
      refused('its requests do not exclude reports from a date on', input, unbounded),
      refused('Set dates.zone in its api', input, inDays),
    ]),
    ...[bounds, {}].map((input): Story => [
      `has at most maxConcurrentPages slices at the same time: ${JSON.stringify(input)}`,
      { definition: limited },
      {
        input: { ...input, parallel: 3 },
        ends: fails('ConfigurationError', 'parallel: must be at most 2, the maxConcurrentPages of the service'),
      },
      { input: { ...input, parallel: 2 }, ends: completes() },
    ]),
  ])('%s', async (_, first, ...starts) => {
    await expectStoryOfTwelve(first, ...starts);
  });
});
