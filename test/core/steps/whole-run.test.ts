/** Whole runs through the real state machine, with adapters in memory: from the first page to the manifest. */

import { describe, expect, it } from 'vitest';
import { type ErrorName, ExportError } from '../../../lib/core/errors.ts';
import { asRunId, type ExportDefinition, type ExportRequest, type LoopState } from '../../../lib/core/model.ts';
import type { ReportService } from '../../../lib/core/ports.ts';
import { openPublishedRun } from '../../../lib/core/storage/published-runs.ts';
import { verifyRun } from '../../../lib/operator/verify-run.ts';
import { abandonRun } from '../../../lib/operator/abandon-run.ts';
import { findRetrier, maxRetryDelaySeconds } from '../../../lib/core/state-machine/retry-policy.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { aFetchedPage, anExportRequest, at, sha256Of } from '../../support/builders.ts';
import {
  anExportBench,
  begin,
  type Bench,
  type BenchOptions,
  completed,
  continued,
  cutOffAt,
  executionId,
  failed,
  manifestsIn,
  pageAt,
  pagesIn,
  reportIdsOf,
} from '../../support/export/export-bench.ts';
import { cursorAt, failsAt, type Script, someReports } from '../../support/export/scripted-service.ts';
import { completes, fails, skips, type Start, expectStory } from '../../support/export/stories.ts';

const hour = 3_600_000;
type Story = [what: string, first: BenchOptions, ...starts: Start[]];

const answers: Script = () => undefined;
/** Fails every request from the given one on. */
const failsFrom =
  (nth: number, name: ErrorName, retryAfterSeconds?: number): Script =>
  (_, request) => {
    if (request >= nth) throw new ExportError(name, 'the real cause', { retryAfterSeconds });
    return undefined;
  };
const uncounted: Script = () => aFetchedPage({ reports: null, nextCursor: null });
const namesIn = ({ store }: Bench) => [...store.objects.keys()].map((key) => key.split('/').at(-1));

describe('a run from its first page to its manifest', () => {
  it('stores pages, manifest, run.json and latest.json under the documented keys, in this order', async () => {
    const bench = await expectStory({ size: 2 }, { ends: completes({ pages: 3, reports: 5 }) });
    const state = await bench.state();
    const { name } = bench.deps.definition;
    const { run, manifest: key, bytes } = state.lastCompleted?.result ?? {};
    const folder = `${name}/date=2026-11-20/run=${run}`;
    const pages = [1, 2, 3].map((page) => `${folder}/page-00000${page}.xml`);
    const documents = [`${folder}/manifest.json`, `${folder}/run.json`, `${name}/latest.json`];
    expect([...bench.store.objects.keys()]).toEqual([...pages, ...documents]);

    const manifest = bench.manifest(key ?? null);
    const facts = {
      run,
      sequence: state.sequence,
      since: '1970-01-01T00:00:00Z',
      startedAt: '2026-11-20T02:00:00Z',
      completedAt: '2026-11-20T02:00:00Z',
      serviceStartedAt: '2026-11-20T01:59:59Z',
      serviceCompletedAt: '2026-11-20T01:59:59Z',
      format: 'XML',
      container: 'NONE',
      source: 'simulator',
    };
    const filter = { date: { gte: '1970-01-01T00:00:00Z' } };
    const totals = { pages: 3, reports: 5, bytes };
    expect(manifest).toMatchObject({ manifestVersion: 1, ...facts, filter, size: 2, totals });
    expect(bench.store.objects.get(key ?? '')).toContain('\n  "pages": [\n    {"page":1');
    expect(manifest.pages.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(4)]);
    // An API whose requests have an upper bound can take it from this.
    expect(new Set(bench.service.requests.map(({ begunAt }) => begunAt))).toEqual(new Set([facts.startedAt]));
    for (const page of manifest.pages) {
      const body = pageAt(bench, page.key);
      expect(page).toMatchObject({ sha256: sha256Of(body), bytes: body.length });
    }
    const [summary = '', latest = ''] = documents.slice(1).map((each) => bench.store.objects.get(each));
    expect(summary).toMatch(/^[^\n]+\n$/);
    const result = { export: name, ...totals, manifest: key, watermark: '2026-11-20T01:59:59Z' };
    expect(JSON.parse(summary)).toEqual({ runVersion: 1, ...facts, ...result });
    expect(JSON.parse(latest)).toMatchObject({ run, manifest: key, sequence: state.sequence });
  });

  it('continues in as many executions as it needs, each taking over from exactly the one before', async () => {
    const bench = anExportBench({ reports: someReports(9), size: 2, limits: { iterationsPerExecution: 2 } });
    const first = continued(await bench.execute({ name: 'first', input: {} }));
    expect(first.input).toEqual({ export: bench.deps.definition.name, continues: executionId('first'), waits: 0 });
    const run = (await bench.state()).active?.run;
    expect(first.name).toBe(`${bench.deps.definition.name}-${run}-2`);
    const second = continued(await bench.execute(first));
    expect(second.name).toBe(`${bench.deps.definition.name}-${run}-3`);
    const result = completed(await bench.execute(second));
    expect(result).toMatchObject({ run, reports: 9 });
    // Its event cannot be sent: no start has failed.
    const failure = { Error: 'EventBridge.InternalException', Cause: 'Try again' };
    await failRun(bench.deps, { failure, execution: executionId(second.name), startInput: second.input });
    expect((await bench.state()).failedStart).toBeUndefined();
  });

  it('leaves the number of reports open if the reports of one page cannot be counted', async () => {
    const script: Script = (_, nth) => (nth === 2 ? aFetchedPage({ reports: null, nextCursor: null }) : undefined);
    await expectStory({ script }, { ends: completes({ pages: 2, reports: null }) });
  });
});

describe('a run without a single report and with publishEmptyRuns: false', () => {
  const silent = { publishEmptyRuns: false };

  it('moves the watermark, and writes and announces nothing that consumers read', async () => {
    const nothing = completes({ pages: 1, reports: 0, manifest: null, watermark: at('2026-11-20T01:59:59Z') });
    const bench = await expectStory({ reports: [], definition: silent }, { ends: nothing });
    expect(namesIn(bench)).toEqual(['page-000001.xml']);
    expect(await bench.state()).toMatchObject({ watermark: { instant: '2026-11-20T01:59:59Z' } });
    const later = await expectStory({ definition: silent }, { ends: completes() }, { reports: [], ends: nothing });
    expect(namesIn(later).filter((name) => name === 'latest.json')).toHaveLength(1);
  });

  it.each([true, false])('completes as it began, although the setting was %s and changes', async (publishEmptyRuns) => {
    const { bench, resume } = cutOffAt('after the state is replaced', {
      reports: [],
      definition: { publishEmptyRuns },
    });
    resume();
    const loop = await begin(bench.deps, 'one');
    await exportPage(bench.deps, { loop, execution: 'one' });
    const replaceState = bench.log.replaceState.bind(bench.log);
    bench.log.replaceState = async (state) => {
      if (state.lastCompleted !== undefined) throw new Error('crashed before the run was completed');
      return await replaceState(state);
    };
    await expect(finishRun(bench.deps, { run: asRunId(loop.run), execution: 'one' })).rejects.toThrow('crashed');
    bench.log.replaceState = replaceState;
    const changed = bench.with({ definition: { publishEmptyRuns: !publishEmptyRuns } });
    expect(completed(await changed.start()).manifest === null).toBe(!publishEmptyRuns);
  });

  it('is published if its reports cannot be counted', async () => {
    const bench = await expectStory({ script: uncounted, definition: silent }, { ends: completes({ reports: null }) });
    expect(manifestsIn(bench)).toHaveLength(1);
  });
});

describe('expectations of an export', () => {
  const expecting = (minReports: number): Partial<ExportDefinition> => ({ expect: { minReports } });
  const tooFew = (reports: number, minReports: number) =>
    fails(
      'ConfigurationError',
      new RegExp(`has ${reports} reports, but expect.minReports is ${minReports}, so it is not published`),
      { reports, resumable: false },
    );

  it.each<Story>([
    [
      'too few reports, also on a page that is wrong, are not published, and the next start requests them again',
      { definition: expecting(5), reports: someReports(4) },
      { input: { scheduledTime: '2026-11-20T02:00:00Z' }, ends: tooFew(4, 5), slept: [] },
      {
        reports: someReports(5),
        input: { scheduledTime: '2026-11-20T03:00:00Z' },
        ends: completes({ since: at('1970-01-01T00:00:00Z') }),
      },
    ],
    [
      'uncounted reports are published',
      { script: uncounted, definition: expecting(2) },
      { ends: completes({ reports: null }) },
    ],
    [
      'a bounded run is published with fewer',
      { definition: expecting(100) },
      {
        input: { since: '2026-11-01T00:00:00Z', until: '2026-11-01T00:02:00Z' },
        ends: completes({ bounded: true, reports: 2 }),
      },
    ],
  ])('%s', async (_, first, ...starts) => {
    await expectStory(first, ...starts);
  });

  it('that are not met move no watermark', async () => {
    const definition = expecting(5);
    const bench = await expectStory({ definition }, { ends: completes() });
    const before = await bench.state();
    const small = bench.with({ reports: someReports(4) });
    expect(failed(await small.start({ since: '1970-01-01T00:00:00Z' })).error).toBe('ConfigurationError');
    const { watermark, lastCompleted } = await bench.state();
    expect({ watermark, lastCompleted }).toEqual({ watermark: before.watermark, lastCompleted: before.lastCompleted });
    expect(manifestsIn(bench)).toHaveLength(1);
  });

  it('that are lowered after a run with too few reports let the next start publish it', async () => {
    const bench = anExportBench({ reports: someReports(1), definition: expecting(2) });
    const { run } = failed(await bench.start());
    const lowered = bench.with({ definition: expecting(1), reports: someReports(2) });
    expect(completed(await lowered.start())).toMatchObject({ run, reports: 1 });
  });

  it('that are raised while a run is being published do not stop it', async () => {
    const { bench, resume } = cutOffAt('after latest is written', { definition: expecting(5) });
    const { run } = failed(await bench.start());
    resume();
    expect(completed(await bench.with({ definition: expecting(6) }).start()).run).toBe(run);
  });

  it('say how long ago a run had reports, counted from the first run until one had some', async () => {
    const secondsOf = ({ events }: Bench) =>
      events.flatMap((event) => (event.event === 'run-completed' ? [event.secondsWithoutReports] : []));
    const bench = anExportBench({ reports: [], definition: { expect: { reportsEveryMs: hour } } });
    await bench.start();
    bench.advance(2 * hour);
    await bench.start();
    const found = bench.with({ reports: someReports(1) });
    await found.start({ since: '1970-01-01T00:00:00Z' });
    expect(secondsOf(found)).toEqual([0]);
    bench.advance(hour);
    await bench.start({ since: '2026-11-01T00:00:00Z', until: '2026-11-01T00:02:00Z' });
    await bench.start();
    expect(secondsOf(bench)).toEqual([0, 7_200, undefined, 3_600]);
    // It is remembered without the setting, too.
    const silent = anExportBench();
    await silent.start();
    expect(secondsOf(silent)).toEqual([undefined]);
    expect((await silent.state()).lastCompleted?.lastReportsAt).toBe('2026-11-20T02:00:00Z');
  });
});

describe('a run with compressed pages', () => {
  const compressed = { definition: { compression: 'gzip' } } as const;
  const formsOf = (bench: Bench, manifest: string | null) =>
    new Set([bench.manifest(manifest).compression, ...bench.manifest(manifest).pages.map((page) => page.compression)]);

  it('publishes the size and checksum of each page, and those of its object', async () => {
    const bench = anExportBench(compressed);
    const result = completed(await bench.start());
    const { compression, totals, pages } = bench.manifest(result.manifest);
    expect([compression, pages.length]).toEqual(['gzip', 3]);
    for (const { key, ...listed } of pages) {
      expect(key).toMatch(/\/page-00000\d\.xml\.gz$/);
      const [page, object] = [pageAt(bench, key), Buffer.from(bench.store.objects.get(key) ?? '', 'latin1')];
      const ofPage = { bytes: page.length, sha256: sha256Of(page), compression: 'gzip' };
      expect(listed).toMatchObject({ ...ofPage, storedBytes: object.length, storedSha256: sha256Of(object) });
    }
    expect(totals.bytes).toBe(pages.reduce((sum, { bytes }) => sum + bytes, 0));
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
  });

  it.each([
    ['gzip', undefined],
    [undefined, 'gzip'],
  ] as const)('keeps its form (%s) when it resumes or starts over, although it is now %s', async (before, after) => {
    const bench = anExportBench({ script: failsFrom(2, 'RequestRejectedError'), definition: { compression: before } });
    failed(await bench.start());
    const changed = bench.with({ script: failsAt({ 1: 'CursorRejectedError' }), definition: { compression: after } });
    const { manifest, pages } = completed(await changed.start());
    expect([pages, formsOf(bench, manifest)]).toEqual([3, new Set([before])]);
    expect(formsOf(bench, completed(await changed.start()).manifest)).toContain(after);
  });

  it('lists the form in which another attempt has stored a page', async () => {
    const { bench, resume } = cutOffAt('before the page is logged', { reports: someReports(1), ...compressed });
    const loop = await begin(bench.deps, 'one');
    await expect(exportPage(bench.deps, { loop, execution: 'one' })).rejects.toThrow('cut off');
    resume();
    const stored = await bench.store.find(pagesIn(bench)[0] ?? '');
    await exportPage(bench.deps, { loop, execution: 'one' });
    const { manifest } = await finishRun(bench.deps, { run: asRunId(loop.run), execution: 'one' });
    const { storedBytes, storedSha256 } = stored ?? {};
    expect(bench.manifest(manifest).pages).toMatchObject([{ storedBytes, storedSha256 }]);
  });

  it('is not published if the object of a page was replaced', async () => {
    const { bench, resume } = cutOffAt('before the manifest is written', compressed);
    await bench.start();
    resume();
    const second = pagesIn(bench)[1] ?? '';
    bench.store.objects.set(second, `${bench.store.objects.get(second)}x`);
    const changed = /^Page 2 of run .*page-000002\.xml\.gz has \d+ bytes instead of \d+/;
    const end = failed(await bench.start());
    expect(end.error).toBe('PageConflictError');
    expect(end.message).toMatch(changed);
  });
});

describe('an error of the service', () => {
  const unreachable = 'ServiceUnreachableError';
  it.each<Story>([
    [
      'that cannot be reached fails the run after three attempts, before its first page',
      { script: failsFrom(1, unreachable) },
      { ends: fails(unreachable, 'the real cause', { pages: 0, resumable: true }), requests: 3 },
      { script: answers, ends: completes() },
    ],
    [
      'that cannot be reached is an outage once the run has a page',
      { script: (_, nth) => (nth >= 2 && nth <= 15 ? failsFrom(2, unreachable)(_, nth) : undefined) },
      { ends: completes(), requests: 17 },
    ],
    [
      'that cannot be reached is an outage when a run resumes that has a page',
      { script: failsAt({ 2: 'RequestRejectedError' }) },
      { ends: fails('RequestRejectedError', '', { pages: 1 }) },
      { script: failsFrom(1, unreachable), ends: fails('ServiceUnavailableError', '', { pages: 1 }), requests: 21 },
    ],
    [
      'that cannot be reached is an outage before the first page of a run that has started over',
      {
        script: (request, nth) =>
          nth === 2
            ? failsAt({ 2: 'CursorRejectedError' })(request, nth)
            : nth <= 9
              ? failsFrom(3, unreachable)(request, nth)
              : undefined,
      },
      { ends: completes() },
    ],
    ...(
      [
        ['ConfigurationError', 1],
        ['RequestRejectedError', 1],
        ['ContractError', 3],
        ['ServiceUnavailableError', 21],
      ] as const
    ).map(([name, requests]): Story => [
      `that persists fails the run after ${requests} attempts, with the original error: ${name}`,
      { script: failsFrom(1, name) },
      { ends: fails(name, /^the real cause$/), requests },
    ]),
    [
      'with a short Retry-After is waited for inside the invocation',
      { script: failsAt({ 2: 7 }) },
      { ends: completes({ reports: 5 }), slept: [7_000] },
    ],
    [
      'with a long Retry-After is left to the Wait state, rounded up',
      { script: failsAt({ 2: 120.2 }) },
      { ends: completes({ reports: 5 }), slept: [121_000] },
    ],
    [
      'with short waits is left to the Wait state, too, once they would exceed the invocation’s time',
      { script: failsAt(Object.fromEntries([2, 3, 4, 5, 6, 7, 8, 9].map((nth) => [nth, 9]))) },
      { ends: completes({ reports: 5 }), slept: Array(8).fill(9_000) },
    ],
    ['with Retry-After: 0 is no busy loop', { script: failsAt({ 1: 0 }) }, { ends: completes(), slept: [1_000] }],
    [
      'with more than maxConsecutiveWaits fails the run, and the next start resumes it',
      { limits: { maxConsecutiveWaits: 3 }, script: failsFrom(2, 'ServiceThrottledError', 60) },
      { ends: fails('RequestRejectedError', 'maxConsecutiveWaits', { resumable: true, pages: 1 }), requests: 5 },
      { script: answers, ends: completes({ reports: 5 }) },
    ],
    [
      'with more than maxConsecutiveWaits fails the run, also if other executions have waited',
      {
        limits: { maxConsecutiveWaits: 3, iterationsPerExecution: 2 },
        script: failsFrom(2, 'ServiceThrottledError', 60),
      },
      { ends: fails('RequestRejectedError', 'maxConsecutiveWaits', { resumable: true, pages: 1 }), requests: 5 },
    ],
    [
      'with maxConsecutiveWaits before each page, which count per page, not per run',
      { limits: { maxConsecutiveWaits: 1 }, script: failsAt({ 1: 60, 3: 60, 5: 60 }) },
      { ends: completes({ reports: 5 }) },
    ],
    [
      'with a Retry-After beyond maxRetryAfter fails the run: it is never shortened',
      { limits: { maxRetryAfterSeconds: 100 }, script: failsFrom(1, 'ServiceThrottledError', 101) },
      { ends: fails('RequestRejectedError', 'maxRetryAfter (100 s)', { resumable: true }), requests: 1 },
    ],
  ])('%s', async (_, first, ...starts) => {
    await expectStory(first, ...starts);
  });

  it('is followed by delays that grow, of any length up to the maximum', async () => {
    const retrier = findRetrier('ServiceUnavailableError', 'ExportPage');
    const longest = [1, 2, 3, 4].map((retry) => (retrier === undefined ? 0 : maxRetryDelaySeconds(retrier, retry)));
    const sleptWith = async (digit: string) => {
      const bench = anExportBench({
        script: (_, nth) => (nth <= 4 ? failsFrom(1, 'ServiceUnavailableError')(_, nth) : undefined),
      });
      Object.assign(bench.deps.runtime, { randomHex: (length: number) => digit.repeat(length) });
      completed(await bench.start());
      return bench.slept.map((ms) => Math.round(ms / 1_000));
    };
    expect(await sleptWith('f')).toEqual(longest);
    expect(await sleptWith('0')).toEqual([0, 0, 0, 0]);
    expect(longest).toEqual(longest.toSorted((one, other) => one - other));
  });

  it.each([
    ['cut between words', 'word '.repeat(250), `${'word '.repeat(199)}…`],
    ['without half a surrogate pair at its end', `${'x'.repeat(998)}🜁 and so on`, `${'x'.repeat(998)}…`],
  ])('with a long message is recorded %s', async (_, message, expected) => {
    const script: Script = () => {
      throw new ExportError('RequestRejectedError', message);
    };
    const bench = await expectStory({ script }, { ends: fails('RequestRejectedError') });
    expect((await bench.state()).active?.lastFailure?.message).toBe(expected);
  });
});

describe('the watermark', () => {
  const reached = '2026-11-20T01:59:59Z';
  const invoices = anExportRequest({ size: 2, filter: { type: 'invoice' } });

  it.each<Story>([
    [
      "becomes the service's clock at the first response, and the next run starts there",
      {},
      { ends: completes({ watermark: at(reached) }) },
      { ends: completes({ since: at(reached) }) },
    ],
    ...[at('2026-11-20T02:00:00Z'), at('2026-11-20T02:05:00Z')].map((since): Story => [
      `becomes the time of a first run from now on, or from the future of a skewed clock: ${since}`,
      {},
      { input: { since }, ends: completes({ since, reports: 0, watermark: at(reached) }) },
    ]),
    [
      'does not apply to another filter, which may match older reports, until a start names its since',
      { definition: { since: { from: 'watermark', initial: at('2026-11-01T00:00:00Z'), overlapMs: 0 } } },
      { ends: completes() },
      {
        definition: { request: invoices, since: { from: 'watermark', overlapMs: 0 } },
        ends: fails('ConfigurationError', '', { run: null }),
      },
      {
        definition: {
          request: invoices,
          since: { from: 'watermark', initial: at('2026-11-01T00:00:00Z'), overlapMs: 0 },
        },
        input: { since: '2026-11-10T00:00:00Z' },
        ends: completes({ watermark: at(reached) }),
      },
      { ends: completes({ since: at(reached) }) },
      { definition: {}, ends: fails('ConfigurationError', 'with filter {"type":"invoice"} and does not apply to') },
    ],
  ])('%s', async (_, first, ...starts) => {
    await expectStory(first, ...starts);
  });

  it('is not before the lookback window of a first run that was restarted, abandoned or failed for good', async () => {
    const since = { from: 'lookback', lookbackMs: 30 * 24 * hour } as const;
    const begun = async (script: Script, input = {}) => {
      const bench = anExportBench({ script, definition: { since }, limits: { maxCursorRestarts: 0 } });
      failed(await bench.start({ scheduledTime: '2026-11-20T01:00:00Z', ...input }));
      bench.advance(24 * hour);
      return bench.with({ script: answers });
    };
    const cannotFinish = failsAt({ 2: 'RequestRejectedError' });
    const window = '2026-10-21T01:00:00Z';
    const restarted = await begun(cannotFinish);
    expect(completed(await restarted.start({ restart: true })).since).toBe(window);
    expect((await restarted.state()).firstStart).toBeUndefined();
    const rejected = await begun(failsAt({ 2: 'CursorRejectedError' }));
    expect(completed(await rejected.start()).since).toBe(window);
    const abandoned = await begun(cannotFinish);
    const { active } = await abandoned.state();
    if (active) await abandonRun({ ...abandoned.deps, store: abandoned.store }, active);
    // A run that leaves a gap after the window moves no watermark, and the next one closes the gap.
    expect(completed(await abandoned.start({ since: '2026-11-20T00:00:00Z' })).watermark).toBeNull();
    expect(completed(await abandoned.start()).since).toBe(window);
    // The window was not asked for.
    const named = await begun(cannotFinish, { since: '2026-10-30T00:00:00Z' });
    expect(completed(await named.start({ restart: true })).since).toBe('2026-10-22T02:00:00Z');
  });

  it('comes with a sequence above those of all manifests, even after the state was restored from a backup', async () => {
    const bench = await expectStory({}, { ends: completes() });
    const old = await bench.state();
    for (let run = 0; run < 2; run += 1) {
      bench.advance(60_000);
      completed(await bench.start());
    }
    const newest = await bench.state();
    bench.advance(60_000);
    await bench.log.replaceState({ ...old, version: newest.version + 1 });
    const result = completed(await bench.start());
    expect(Number(bench.manifest(result.manifest).sequence)).toBeGreaterThan(newest.sequence);
    const latest = bench.store.objects.get(`${bench.deps.definition.name}/latest.json`) ?? '';
    expect(JSON.parse(latest)).toMatchObject({ manifest: result.manifest });
  });
});

describe('a run that is started again', () => {
  const outageAfter = (pages: number): Script => failsFrom(pages + 1, 'ServiceUnavailableError');

  it('is resumed from its last logged page, without fetching a logged page again', async () => {
    const bench = await expectStory(
      { reports: someReports(7), script: outageAfter(2) },
      { ends: fails('ServiceUnavailableError', '', { pages: 2, resumable: true }) },
      { script: answers, ends: completes({ reports: 7 }) },
    );
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([cursorAt(4), cursorAt(6)]);
    expect(bench.manifest(manifestsIn(bench)[0] ?? null).startedAt).toBe('2026-11-20T02:00:00Z');
  });

  it('is skipped while its execution is running, and changes nothing', async () => {
    const bench = await expectStory({ script: outageAfter(1) }, { ends: fails('ServiceUnavailableError') });
    const before = await bench.state();
    bench.running.add(before.active?.execution ?? '');
    const reason = `execution ${before.active?.execution} is still exporting run ${before.active?.run}`;
    expect(await bench.start()).toMatchObject(skips(reason));
    expect(await bench.state()).toEqual(before);
  });

  it('has another ID than a run of the same second whose random digits begin with the same six', async () => {
    const { deps } = anExportBench();
    const digits = ['1f3a5c000000', '1f3a5c000001'];
    const randomHex = (length: number) => (digits.shift() ?? '').slice(0, length);
    const still = { ...deps, runtime: { ...deps.runtime, randomHex } };
    const runs = [await begin(still, 'first'), await begin(still, 'second', { restart: true })];
    expect(runs.map(({ run }) => run)).toEqual(['20261120T020000Z-1f3a5c000000', '20261120T020000Z-1f3a5c000001']);
  });

  it('is abandoned on restart even while its execution is running, and that execution ends without an error', async () => {
    const bench = anExportBench({ reports: someReports(9), limits: { iterationsPerExecution: 2 } });
    const old = continued(await bench.execute({ name: 'old', input: {} }));
    bench.running.add(executionId('old'));
    const result = completed(await bench.start({ restart: true }));
    expect(result.reports).toBe(9);
    expect(await bench.execute(old)).toMatchObject({ status: 'skipped' });
    expect((await bench.state()).lastCompleted?.result).toEqual(result);
  });

  it('is completed before a restart once it may be published, unless its pages were changed', async () => {
    const { bench, resume } = cutOffAt('after the manifest is written');
    failed(await bench.start());
    resume();
    const before = (await bench.state()).active;
    expect(failed(await bench.start({ restart: true }))).toMatchObject({ error: 'ConfigurationError', run: null });
    expect((await bench.state()).active).toEqual(before);
    expect(completed(await bench.start()).run).toBe(before?.run);

    const other = cutOffAt('before the manifest is written');
    failed(await other.bench.start());
    other.resume();
    const [page = ''] = pagesIn(other.bench);
    other.bench.store.objects.delete(page);
    expect(failed(await other.bench.start()).error).toBe('PageConflictError');
    expect(page).not.toContain(completed(await other.bench.start({ restart: true })).run);
  });

  const lag = { lagMs: hour };
  const since = at('2020-01-01T00:00:00Z');
  it.each<Story>([
    [
      'is replaced if it has no page, so that it also exports what has appeared since, from where it began',
      { script: outageAfter(0), definition: lag },
      {
        input: { since, scheduledTime: '2026-11-20T02:00:00Z' },
        ends: fails('ServiceUnavailableError', '', { until: at('2026-11-20T01:00:00Z'), resumable: true }),
      },
      {
        script: answers,
        afterMs: 24 * hour,
        input: { scheduledTime: '2026-11-21T02:00:00Z' },
        ends: completes({ since, until: at('2026-11-21T01:00:00Z') }),
      },
      { input: { scheduledTime: '2026-11-21T02:00:00Z' }, ends: skips('2026-11-21T02:00:00Z') },
    ],
    ...(
      [
        ['an unknown field', { sinse: '2026-11-01T00:00:00Z' }, 'sinse'],
        ['a since that is no instant', { since: 'yesterday' }, 'since: must be an ISO 8601 UTC instant'],
        ['a local time', { since: '2026-11-01T00:00:00+01:00' }, 'since: must be an ISO 8601 UTC instant'],
        ['a list', [], 'start input'],
        ['a string', 'restart', 'start input'],
      ] as const
    ).map(([what, input, says]): Story => [
      `is refused with ${what} as its input`,
      {},
      { input, ends: fails('ConfigurationError', says, { run: null }), requests: 0 },
    ]),
  ])('%s', async (_, first, ...starts) => {
    await expectStory(first, ...starts);
  });

  it('is replaced with its only page if that was stored but not logged', async () => {
    const { bench, resume } = cutOffAt('before the page is logged');
    await bench.start();
    const { active } = await bench.state();
    expect(pagesIn(bench)).toHaveLength(1);
    resume();
    const { run, manifest } = completed(await bench.start());
    expect(run).not.toBe(active?.run);
    expect(reportIdsOf(bench, manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(manifestsIn(bench)).toHaveLength(1);
  });
});

describe('a run during which a deployment changes its request', () => {
  const otherSha256 = sha256Of('other settings of the service');
  const { api } = anExportRequest();
  const apiChanged = '(headers, vendor, cursorIn or api) have changed';
  const withRequest = (bench: Bench, change: Partial<ExportRequest>) =>
    bench.with({ definition: { request: { ...bench.deps.definition.request, ...change } } });

  it.each<[what: string, change: Partial<ExportRequest>, says: string]>([
    ['the address', { source: 'https://other.example.com' }, 'service was "simulator" and is now "https://other.'],
    ['the filter', { filter: { type: 'invoice' } }, 'filter was {} and is now {"type":"invoice"}'],
    ['the format', { format: 'CSV' }, 'format was "XML" and is now "CSV"'],
    ['the container', { container: 'ZIP' }, 'container was "NONE" and is now "ZIP"'],
    ['the size', { size: 3 }, 'size was 2 and is now 3'],
    ['what a page is', { api: { ...api, sha256: otherSha256 } }, apiChanged],
    ['the headers', { api: { sha256: otherSha256, requestSha256: otherSha256 } }, apiChanged],
  ])('requests nothing with the other one, whatever it is: %s', async (_, change, says) => {
    const bench = anExportBench({ reports: someReports(9), limits: { iterationsPerExecution: 1 } });
    const first = continued(await bench.execute({ name: 'first', input: {} }));
    const deployed = withRequest(bench, change);
    const end = failed(await deployed.execute(first));
    expect(end).toMatchObject({ error: 'ConfigurationError', resumable: true, pages: 1 });
    expect(end.message).toContain(says);
    expect(end.message).toMatch(/Restore these values to finish the run, or start with --restart/);
    expect(deployed.service.requests).toEqual([]);
    expect(completed(await bench.start()).reports).toBe(9);
  });

  it('requests nothing if only one of BeginRun and ExportPage is updated, and begins again at the next start', async () => {
    const bench = anExportBench();
    const updated = withRequest(bench, { filter: { a: 1 } });
    for (const [begins, exports] of [
      [bench, updated],
      [updated, bench],
    ] as const) {
      const execution = executionId(`of ${begins === bench ? 'the old' : 'the new'} BeginRun`);
      const loop = await begin(begins.deps, execution);
      await expect(exportPage(exports.deps, { loop, execution })).rejects.toThrow(/filter was .* and is now /);
    }
    expect([...bench.service.requests, ...updated.service.requests]).toEqual([]);
    completed(await bench.start());
  });

  it('completes once its last page is logged, as what it requested', async () => {
    const bench = anExportBench({ reports: someReports(1) });
    const loop = await begin(bench.deps, 'one');
    await exportPage(bench.deps, { loop, execution: 'one' });
    const updated = withRequest(bench, { filter: { a: 1 } });
    // Its response was lost.
    expect(await exportPage(updated.deps, { loop, execution: 'one' })).toMatchObject({ next: 'finish' });
    const { manifest } = await finishRun(updated.deps, { run: asRunId(loop.run), execution: 'one' });
    expect(bench.manifest(manifest).filter).toEqual({ date: { gte: '1970-01-01T00:00:00Z' } });
    expect((await bench.state()).watermark?.filter).toEqual({});
  });

  it('has a watermark that applies to another description only if the request is the same', async () => {
    const described = (description: string, request = 'the request') => ({
      api: { pagination: 'body cursor', sha256: sha256Of(description), requestSha256: sha256Of(request) },
    });
    for (const [change, ends] of [
      [described('b'), completes()],
      [described('b', 'another request'), fails('ConfigurationError', /other settings of the service.*--since/)],
      [{ api }, fails('ConfigurationError', /other settings of the service.*--since/)],
    ] as const) {
      const request = (of: Partial<ExportRequest>) => ({ request: { ...anExportRequest({ size: 2 }), ...of } });
      await expectStory(
        { reports: someReports(1), definition: request(described('a')) },
        { ends: completes() },
        { definition: request(change), ends },
      );
    }
  });
});

describe('a cursor that the service rejects or repeats', () => {
  const rejectsAll: Script = ({ cursor }) => {
    if (cursor !== null) throw new ExportError('CursorRejectedError', 'Report service responded with 410');
    return undefined;
  };

  it('makes the run start over, and publishes only the pages of its newest attempt', async () => {
    const bench = anExportBench({ script: failsAt({ 2: 'CursorRejectedError' }) });
    const result = completed(await bench.start({ since: '2026-11-01T00:01:00Z' }));
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r2', 'r3', 'r4', 'r5']);
    expect(bench.manifest(result.manifest).sequence).toBe((await bench.state()).sequence);
    const { pages } = bench.manifest(result.manifest);
    expect(pages.map(({ key }) => key.split('/').at(-1))).toEqual(
      [1, 2].map((page) => `page-000001.2-00000${page}.xml`),
    );
    expect(pages[0]).not.toHaveProperty('slice');
    const published = await openPublishedRun(bench.store, bench.deps.definition.name, result.run);
    const verified = await verifyRun({ store: bench.store, log: bench.log, onPage: () => {} }, published);
    expect([verified.findings, verified.notes.join()]).toEqual([
      [],
      expect.stringContaining('1 page of another attempt'),
    ]);
    expect(pagesIn(bench)).toHaveLength(3);
    expect(manifestsIn(bench)).toEqual([result.manifest]);
  });

  it('restarts the run once, even if two concurrent invocations meet the same rejection', async () => {
    const bench = anExportBench();
    const begun = await begin(bench.deps, 'one');
    const loop = await exportPage(bench.deps, { loop: begun, execution: 'one' });
    const bothRequested = Promise.withResolvers<void>();
    let requests = 0;
    const service: ReportService = {
      async fetch(...request) {
        requests += 1;
        if (requests > 2) return await bench.deps.service.fetch(...request);
        if (requests === 2) bothRequested.resolve();
        await bothRequested.promise;
        throw new ExportError('CursorRejectedError', 'Report service responded with 410');
      },
    };
    const invoke = () => exportPage({ ...bench.deps, service }, { loop, execution: 'one' });
    const [first, second] = await Promise.all([invoke(), invoke()]);
    expect(second).toEqual(first);
    expect((await bench.state()).active).toMatchObject({ run: loop.run, restarts: { 1: 1 }, attempts: { 1: 2 } });
    expect(bench.events.filter(({ event }) => event === 'slice-restarted')).toHaveLength(1);
  });

  it('is no damage if a slower invocation has started the run over once its last page was logged', async () => {
    const bench = anExportBench();
    const { deps, log } = bench;
    const invoke = async (loop: LoopState) => await exportPage(deps, { loop, execution: 'one', hasTime: () => false });
    const begun = await begin(deps, 'one');
    let loop: LoopState & { readonly next?: string } = begun;
    while (loop.next !== 'finish') loop = await invoke(loop);
    const { active, ...state } = await bench.state();
    if (active === undefined) throw new Error('no active run');
    const startedOver = { ...active, attempts: { 1: 2 }, generation: 1 };
    await log.replaceState({ ...state, version: state.version + 1, active: startedOver });
    expect(await invoke(begun)).toMatchObject({ next: 'page', page: 2 });
    await expect(finishRun(deps, { run: active.run, execution: 'one' })).rejects.toMatchObject({
      name: 'CursorRejectedError',
      message: expect.stringMatching(/has started run \S+ of export \S+ over/),
    });
    expect(completed(await bench.start())).toMatchObject({ run: active.run, reports: 5 });
  });

  const scheduled = { scheduledTime: '2026-11-20T02:00:00Z' };
  const withNext =
    (...next: readonly (number | null)[]): Script =>
    (_, nth) => {
      const position = next[nth - 1];
      return aFetchedPage({ nextCursor: position == null ? null : cursorAt(position) });
    };
  const repeated = (says: string | RegExp, pages?: number) =>
    fails('RepeatedCursorError', says, { resumable: true, ...(pages !== undefined && { pages }) });
  const again = { script: answers, ends: completes({ reports: 5 }) };
  const digests = ['a', 'b', 'b', 'c', 'b', 'b', 'b', 'd'];

  it.each<Story>([
    [
      'fails the run after maxCursorRestarts, and the next start, as the console repeats it, begins a new one',
      { script: rejectsAll },
      { input: scheduled, ends: fails('CursorRejectedError', '410', { resumable: true }), requests: 4 },
      { ...again, input: scheduled },
    ],
    ...[1, 7].map((length): Story => [
      `fails the run if it repeats after ${length} pages`,
      { script: (_, nth) => aFetchedPage({ nextCursor: cursorAt(nth <= 3 ? nth : 4 + ((nth - 4) % length)) }) },
      { ends: repeated('so its pages repeat') },
      again,
    ]),
    [
      'fails the run at the third page in a row with the same reports, although each cursor is another one',
      {
        script: (_, nth) => aFetchedPage({ nextCursor: cursorAt(nth), reportsDigest: digests[nth - 1] }),
        limits: { pagesPerInvocation: 2 },
      },
      { ends: repeated(/Page 7 of run .* has the same reports as the 2 pages before it.*api\.next\.to/, 7) },
      again,
    ],
    [
      'does not matter if only the last pages have the same reports',
      { script: (_, nth) => aFetchedPage({ nextCursor: nth === 3 ? null : cursorAt(nth), reportsDigest: 'the same' }) },
      { ends: completes({ pages: 3 }) },
    ],
    [
      'fails the run if it occurs twice, although other pages follow it: cycle detection compares with 4 then',
      { script: withNext(1, 2, 3, 4, 3, 5, 6, null) },
      { ends: repeated(/Page 6 of run .* was requested with the cursor of page 4, so it contains pages twice/) },
      again,
    ],
  ])('%s', async (_, first, ...starts) => {
    await expectStory(first, ...starts);
  });

  it('is found before it is requested too often: after three times the pages before and in the circle', async () => {
    const script: Script = (_, nth) => aFetchedPage({ nextCursor: cursorAt(nth <= 3 ? nth : 4 + ((nth - 4) % 7)) });
    const bench = await expectStory({ script }, { ends: repeated('') });
    expect(bench.service.requests.length).toBeLessThanOrEqual(3 * (3 + 7) + 1);
    expect(manifestsIn(bench)).toEqual([]);
  });
});

describe.each([1, 25])('a limit of pages, with %i pages per invocation', (pagesPerInvocation) => {
  /** A service of so many pages, of which only page 2 has a report, if they are counted. */
  const emptyPages =
    (pages: number, reports: number | null = 0): Script =>
    ({ cursor }) => {
      const page = 1 + Number.parseInt(cursor?.split('-').at(-1) ?? '0', 16);
      const nextCursor = page < pages ? cursorAt(page) : null;
      return aFetchedPage({ reports: page === 2 && reports !== null ? 1 : reports, nextCursor });
    };
  const limits = (limited: object) => ({ limits: { pagesPerInvocation, ...limited } });
  const maxPages = fails('ConfigurationError', 'the limit of 2 pages (maxPages)', { pages: 2, resumable: true });
  const maxEmpty = fails('ConfigurationError', 'limit of 3 consecutive pages without reports (maxEmptyPages)', {
    resumable: true,
  });
  const described = { request: anExportRequest({ api: { ...anExportRequest().api, pagination: 'link' } }) };

  it.each<Story>([
    [
      'stops a run at maxPages, and resumes it once that is raised',
      limits({ maxPages: 2 }),
      { ends: maxPages, requests: 2 },
      { ends: maxPages, requests: 0 },
      { ...limits({ maxPages: 3 }), ends: completes({ pages: 3 }), requests: 1 },
    ],
    [
      'stops a run at maxEmptyPages in a row, and resumes it once that is raised',
      { script: emptyPages(40), ...limits({ maxEmptyPages: 3 }) },
      { ends: maxEmpty },
      { ends: maxEmpty, requests: 0 },
      { ...limits({ maxEmptyPages: 50 }), ends: completes({ pages: 40, reports: 1 }) },
    ],
    [
      'names the description of the end if the API is described',
      { script: emptyPages(9), ...limits({ maxEmptyPages: 3 }), definition: described },
      { ends: fails('ConfigurationError', 'api.last') },
    ],
    [
      'does not stop a run whose reports are not counted',
      { script: emptyPages(9, null), ...limits({ maxEmptyPages: 3 }) },
      { ends: completes({ pages: 9 }) },
    ],
    [
      'does not stop a run whose last pages are empty',
      { script: emptyPages(5), ...limits({ maxEmptyPages: 3 }) },
      { ends: completes({ pages: 5 }) },
    ],
  ])('%s', async (_, first, ...starts) => {
    await expectStory(first, ...starts);
  });

  it('is announced at each hundred pages without reports', async () => {
    const bench = await expectStory({ script: emptyPages(204), ...limits({}) }, { ends: completes() });
    expect(bench.events.filter(({ event }) => event === 'pages-without-reports')).toMatchObject([
      { page: 102, emptyPages: 100 },
      { page: 202, emptyPages: 200 },
    ]);
  });
});
