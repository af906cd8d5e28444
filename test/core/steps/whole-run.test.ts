/** Whole runs through the real state machine, with adapters in memory: from the first page to the manifest. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import {
  asRunId,
  type ExportRequest,
  type ExportState,
  type LatestPointer,
  type RunId,
  type RunResult,
} from '../../../lib/core/model.ts';
import { abandonRun } from '../../../lib/operator/abandon-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { aFetchedPage, anExportRequest, at, sha256Of } from '../../support/builders.ts';
import {
  anExportBench,
  begin,
  type Bench,
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

function startedRun({ events }: Bench): RunId {
  const started = events.find(({ event }) => event === 'run-started');
  if (started?.event !== 'run-started') throw new Error('no run was started');
  return started.run;
}

const unavailable = () => {
  throw new ExportError('ServiceUnavailableError', 'Report service responded with 503');
};

describe('a run from its first page to its manifest', () => {
  it('stores every matching report once, in order, and publishes a manifest that names each page', async () => {
    const bench = anExportBench({ reports: someReports(5), size: 2 });
    const result = completed(await bench.start());

    expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    const manifest = bench.manifest(result.manifest);
    expect(manifest).toMatchObject({
      manifestVersion: 1,
      run: result.run,
      since: '1970-01-01T00:00:00Z',
      filter: { date: { gte: '1970-01-01T00:00:00Z' } },
      format: 'XML',
      container: 'NONE',
      size: 2,
      startedAt: '2026-11-20T02:00:00Z',
      serviceStartedAt: '2026-11-20T01:59:59Z',
      totals: { pages: 3, reports: 5, bytes: result.bytes },
    });
    expect(bench.store.objects.get(result.manifest ?? '')).toContain(
      '\n  "reportsAt": {"kind":"xml","path":"/*/*"},\n  "pages": [\n    {"page":1',
    );
    expect(manifest.pages.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(4)]);
    for (const { key, sha256, bytes } of manifest.pages) {
      const body = bench.store.objects.get(key) ?? '';
      expect({ sha256, bytes }).toEqual({ sha256: sha256Of(body), bytes: body.length });
    }
  });

  it('stores pages, manifest, run.json and latest.json under the documented keys, in this order', async () => {
    const bench = anExportBench({ reports: someReports(1) });
    const result = completed(await bench.start());
    const { run, manifest } = result;
    const { name } = bench.deps.definition;
    expect([...bench.store.objects.keys()]).toEqual([
      `${name}/date=2026-11-20/run=${run}/page-000001.xml`,
      `${name}/date=2026-11-20/run=${run}/manifest.json`,
      `${name}/date=2026-11-20/run=${run}/run.json`,
      `${name}/latest.json`,
    ]);
    const summary = bench.store.objects.get(`${name}/date=2026-11-20/run=${run}/run.json`) ?? '';
    expect(summary).toMatch(/^[^\n]+\n$/);
    const { serviceStartedAt, serviceCompletedAt, startedAt, completedAt, sequence } = bench.manifest(result.manifest);
    expect(JSON.parse(summary)).toEqual({
      ...result,
      runVersion: 1,
      sequence,
      startedAt,
      completedAt,
      serviceStartedAt,
      serviceCompletedAt,
      format: 'XML',
      container: 'NONE',
      source: 'simulator',
    });
    expect(JSON.parse(bench.store.objects.get(`${name}/latest.json`) ?? '')).toMatchObject({
      run,
      manifest,
      sequence: (await bench.state()).sequence,
    });
  });

  describe('without a single report and with publishEmptyRuns: false', () => {
    const silent = { publishEmptyRuns: false };

    it('moves the watermark, and writes and announces nothing that consumers read', async () => {
      const bench = anExportBench({ reports: [], definition: silent });
      const result = completed(await bench.start());
      expect(result).toMatchObject({ pages: 1, reports: 0, manifest: null, watermark: '2026-11-20T01:59:59Z' });
      expect([...bench.store.objects.keys()].map((key) => key.split('/').at(-1))).toEqual(['page-000001.xml']);
      expect(await bench.state()).toMatchObject({
        watermark: { instant: result.watermark },
        lastCompleted: { result },
      });
    });

    it('leaves latest.json as it is', async () => {
      const bench = anExportBench({ definition: silent });
      const first = completed(await bench.start());
      const second = bench.with({ reports: [], definition: { ...silent, name: first.export } });
      expect(completed(await second.start()).manifest).toBeNull();
      const latest = JSON.parse(bench.store.objects.get(`${first.export}/latest.json`) ?? '');
      expect(latest).toMatchObject({ run: first.run, manifest: first.manifest });
    });

    it('completes as it began, although the setting changes in between', async () => {
      for (const publishEmptyRuns of [true, false]) {
        let down = true;
        const bench = anExportBench({ reports: [], definition: { publishEmptyRuns } });
        const replaceState = bench.log.replaceState.bind(bench.log);
        bench.log.replaceState = async (state) => {
          if (down && state.lastCompleted !== undefined) throw new Error('crashed before the run was completed');
          return await replaceState(state);
        };
        await bench.start();
        down = false;
        const changed = bench.with({ reports: [], definition: { publishEmptyRuns: !publishEmptyRuns } });
        const { manifest } = completed(await changed.start());
        expect(manifest === null).toBe(!publishEmptyRuns);
      }
    });

    it('publishes a run whose reports cannot be counted', async () => {
      const bench = anExportBench({
        script: () => aFetchedPage({ reports: null, nextCursor: null }),
        definition: silent,
      });
      expect(completed(await bench.start()).manifest).not.toBeNull();
    });
  });

  describe('with fewer reports than expect.minReports', () => {
    const expecting = (minReports: number) => ({ expect: { minReports } });

    it('fails at once, publishes nothing and does not move the watermark', async () => {
      const bench = anExportBench({ definition: expecting(5) });
      const { manifest, watermark } = completed(await bench.start());
      const before = bench.store.objects.size;
      const small = bench.with({
        reports: someReports(4),
        definition: { name: bench.deps.definition.name, ...expecting(5) },
      });
      const failure = failed(await small.start({ since: '1970-01-01T00:00:00Z' }));
      expect(failure).toMatchObject({ error: 'ConfigurationError', pages: 2, reports: 4, resumable: false });
      expect(failure.message).toBe(
        `Run ${failure.run} has 4 reports, but expect.minReports is 5, so it is not published and the watermark does not ` +
          'move. The next start begins a new run. If so few reports are right, lower expect.minReports first',
      );
      expect([...bench.store.objects.keys()].slice(before).map((key) => key.split('/').at(-1))).toEqual([
        'page-000001.xml',
        'page-000002.xml',
      ]);
      expect(await bench.state()).toMatchObject({
        watermark: { instant: watermark },
        lastCompleted: { result: { manifest } },
      });
      expect(bench.slept).toEqual([]);
    });

    it('is followed by a run that requests the reports again, also for a later scheduled time', async () => {
      let body: string | undefined = '<error><code>500</code></error>';
      const bench = anExportBench({
        reports: someReports(5),
        definition: expecting(2),
        script: (_, nth) =>
          nth === 2 && body !== undefined ? aFetchedPage({ body, reports: 0, nextCursor: null }) : undefined,
        size: 1,
      });
      const first = failed(await bench.start({ scheduledTime: '2026-11-20T02:00:00Z' }));
      body = undefined;
      const second = completed(await bench.start({ scheduledTime: '2026-11-20T03:00:00Z' }));
      expect(second).toMatchObject({ since: first.since, reports: 5 });
      expect(second.run).not.toBe(first.run);
    });

    it('is followed by a new run although its failure was not recorded', async () => {
      const bench = anExportBench({ reports: someReports(1), definition: expecting(2) });
      const replaceState = bench.log.replaceState.bind(bench.log);
      // FailRun cannot write.
      bench.log.replaceState = async (state) => {
        if (state.lastAbandoned !== undefined) throw new Error('the table is not available');
        return await replaceState(state);
      };
      failed(await bench.start());
      bench.log.replaceState = replaceState;
      const stopped = (await bench.state()).active;
      const result = completed(await bench.with({ reports: someReports(2) }).start());
      expect(stopped).toBeDefined();
      expect(result.run).not.toBe(stopped?.run);
      expect(result.reports).toBe(2);
    });

    it('completes if it was being published before the setting was raised', async () => {
      const { bench, resume } = cutOffAt('after latest is written', { definition: expecting(5) });
      const { run } = failed(await bench.start());
      resume();
      expect(completed(await bench.with({ definition: expecting(6) }).start()).run).toBe(run);
    });

    it('is published if it is a bounded run, and does not count as a run with reports', async () => {
      const bench = anExportBench({ definition: { expect: { minReports: 100, reportsEveryMs: 60_000 } } });
      await bench.start({ restart: true });
      const { lastCompleted } = await bench.state();
      const bounded = completed(await bench.start({ since: '2026-11-01T00:00:00Z', until: '2026-11-01T00:02:00Z' }));
      expect(bounded).toMatchObject({ bounded: true, reports: 2 });
      expect((await bench.state()).lastCompleted).toEqual(lastCompleted);
    });

    it('is published if the reports cannot be counted', async () => {
      const script = () => aFetchedPage({ reports: null, nextCursor: null });
      expect(completed(await anExportBench({ script, definition: expecting(2) }).start()).manifest).not.toBeNull();
    });
  });

  describe('with expect.reportsEvery', () => {
    const hour = 3_600_000;
    const expecting = { expect: { reportsEveryMs: hour } };
    const secondsOf = ({ events }: Bench) =>
      events.flatMap((event) => (event.event === 'run-completed' ? [event.secondsWithoutReports] : []));

    it('says how long ago a run had reports, counted from the first run until one had some', async () => {
      const bench = anExportBench({ reports: [], definition: expecting });
      await bench.start();
      bench.advance(2 * hour);
      await bench.start();
      expect(secondsOf(bench)).toEqual([0, 7_200]);
      const found = bench.with({
        reports: someReports(1),
        definition: { ...expecting, name: bench.deps.definition.name },
      });
      await found.start({ since: '1970-01-01T00:00:00Z' });
      expect(secondsOf(found)).toEqual([0]);
      bench.advance(hour);
      await bench.start();
      expect(secondsOf(bench)).toEqual([0, 7_200, 3_600]);
    });

    it('remembers it without the setting, but does not say it', async () => {
      const bench = anExportBench();
      await bench.start();
      expect(secondsOf(bench)).toEqual([undefined]);
      expect((await bench.state()).lastCompleted?.lastReportsAt).toBe('2026-11-20T02:00:00Z');
    });
  });

  it('leaves the number of reports open if the reports of one page cannot be counted', async () => {
    const bench = anExportBench({
      script: (_, nth) => (nth === 2 ? aFetchedPage({ reports: null, nextCursor: null }) : undefined),
    });
    const result = completed(await bench.start());
    expect(result.reports).toBeNull();
    expect(bench.manifest(result.manifest).totals.reports).toBeNull();
  });

  it('continues in as many executions as it needs, each taking over from exactly the one before', async () => {
    const bench = anExportBench({ reports: someReports(9), size: 2, limits: { iterationsPerExecution: 2 } });
    const first = continued(await bench.execute({ name: 'first', input: {} }));
    expect(first.input).toEqual({ export: bench.deps.definition.name, continues: executionId('first'), waits: 0 });
    const run = (await bench.state()).active;
    expect(first.name).toBe(`${bench.deps.definition.name}-${run?.run}-2`);

    const second = continued(await bench.execute(first));
    expect(second.name).toBe(`${bench.deps.definition.name}-${run?.run}-3`);
    const result = completed(await bench.execute(second));
    expect(result.run).toBe(run?.run);
    expect(reportIdsOf(bench, result.manifest)).toHaveLength(9);
  });
});

describe('a run with compressed pages', () => {
  const compressed = { definition: { compression: 'gzip' } } as const;
  const formsOf = (bench: Bench, result: RunResult) => {
    const { pages, compression } = bench.manifest(result.manifest);
    return [compression, ...pages.map((page) => page.compression)];
  };

  it('publishes the size and checksum of each page, and those of its object', async () => {
    const bench = anExportBench({ reports: someReports(5), size: 2, ...compressed });
    const result = completed(await bench.start());
    const { compression, totals, pages } = bench.manifest(result.manifest);
    expect(compression).toBe('gzip');
    expect(pages).toHaveLength(3);
    for (const { key, ...listed } of pages) {
      expect(key).toMatch(/\/page-00000\d\.xml\.gz$/);
      const [page, object] = [pageAt(bench, key), Buffer.from(bench.store.objects.get(key) ?? '', 'latin1')];
      expect(listed).toMatchObject({
        bytes: page.length,
        sha256: sha256Of(page),
        compression: 'gzip',
        storedBytes: object.length,
        storedSha256: sha256Of(object),
      });
    }
    expect(totals.bytes).toBe(pages.reduce((sum, { bytes }) => sum + bytes, 0));
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
  });

  it.each([
    ['gzip', undefined],
    [undefined, 'gzip'],
  ] as const)('keeps the form in which it began (%s) when it resumes with the setting %s', async (before, after) => {
    const script = (_: unknown, nth: number) => (nth > 1 ? unavailable() : undefined);
    const bench = anExportBench({ reports: someReports(5), size: 2, script, definition: { compression: before } });
    failed(await bench.start());
    const changed = bench.with({ script: () => undefined, definition: { compression: after } });
    const resumed = completed(await changed.start());
    expect(formsOf(bench, resumed)).toEqual([before, before, before, before]);
    expect(formsOf(bench, completed(await changed.start()))).toEqual(expect.arrayContaining([after]));
  });

  it('keeps it when it starts over, because its cursor was rejected', async () => {
    const script = failsAt({ 2: 'CursorRejectedError' });
    const bench = anExportBench({ reports: someReports(5), size: 2, script, ...compressed });
    expect(formsOf(bench, completed(await bench.start()))).toEqual(['gzip', 'gzip', 'gzip', 'gzip']);
  });

  it('logs the form in which another attempt has stored a page', async () => {
    const { bench, resume } = cutOffAt('before the page is logged', { reports: someReports(1), ...compressed });
    const execution = executionId('one');
    const loop = await begin(bench.deps, execution);
    await expect(exportPage(bench.deps, { loop, execution })).rejects.toThrow('cut off');
    const [key = ''] = pagesIn(bench);
    resume();
    const stored = await bench.store.find(key);
    await exportPage(bench.deps, { loop, execution });
    const { manifest } = await finishRun(bench.deps, { run: asRunId(loop.run), execution });
    const [page] = bench.manifest(manifest).pages;
    expect(page).toMatchObject({ storedBytes: stored?.storedBytes, storedSha256: stored?.storedSha256 });
    expect(bench.events.map(({ event }) => event)).toContain('page-adopted');
  });

  it('is not published if the object of a page was replaced', async () => {
    const { bench, resume } = cutOffAt('before the manifest is written', compressed);
    await bench.start();
    resume();
    const second = pagesIn(bench)[1] ?? '';
    bench.store.objects.set(second, `${bench.store.objects.get(second)}x`);
    const { error, message } = failed(await bench.start());
    expect(error).toBe('PageConflictError');
    expect(message).toMatch(/^Page 2 of run .*page-000002\.xml\.gz has \d+ bytes instead of \d+/);
  });
});

describe('a service that cannot be reached', () => {
  const unreachable = () => {
    throw new ExportError('ServiceUnreachableError', 'Report service refused the connection (ECONNREFUSED)');
  };

  it('fails the run after three attempts, before its first page', async () => {
    const bench = anExportBench({ script: unreachable });
    expect(failed(await bench.start())).toMatchObject({
      error: 'ServiceUnreachableError',
      message: 'Report service refused the connection (ECONNREFUSED)',
      pages: 0,
      resumable: true,
    });
    expect(bench.service.requests).toHaveLength(3);
    expect(await bench.with({ script: () => undefined }).start()).toMatchObject({ status: 'completed' });
  });

  it('is an outage once the run has a page, and is retried like one', async () => {
    const bench = anExportBench({ script: (_, nth) => (nth >= 2 && nth <= 15 ? unreachable() : undefined) });
    expect(await bench.start()).toMatchObject({ status: 'completed' });
    expect(bench.service.requests).toHaveLength(3 + 14);
    const lasting = anExportBench({ script: (_, nth) => (nth >= 2 ? unreachable() : undefined) });
    expect(failed(await lasting.start())).toMatchObject({ error: 'ServiceUnavailableError', pages: 1 });
    expect(lasting.service.requests).toHaveLength(1 + 21);
  });

  it('is an outage when a run resumes that has a page', async () => {
    const bench = anExportBench({ script: failsAt({ 2: 'RequestRejectedError' }) });
    expect(failed(await bench.start())).toMatchObject({ error: 'RequestRejectedError', pages: 1 });
    const later = bench.with({ script: unreachable });
    expect(failed(await later.start())).toMatchObject({ error: 'ServiceUnavailableError', pages: 1 });
    expect(later.service.requests).toHaveLength(21);
  });

  it('is an outage before the first page of a run that has started over', async () => {
    const bench = anExportBench({
      script(_, nth) {
        if (nth === 2) throw new ExportError('CursorRejectedError', 'expired');
        return nth > 2 && nth <= 9 ? unreachable() : undefined;
      },
    });
    expect(await bench.start()).toMatchObject({ status: 'completed' });
  });
});

describe('the watermark', () => {
  it("becomes the service's clock at the first response, and the next run starts there", async () => {
    const bench = anExportBench();
    expect(completed(await bench.start()).watermark).toBe('2026-11-20T01:59:59Z');
    expect(completed(await bench.start()).since).toBe('2026-11-20T01:59:59Z');
  });

  it('starts at the configured initial value', async () => {
    const initial = at('2026-11-01T00:03:00Z');
    const bench = anExportBench({ definition: { since: { from: 'watermark', initial, overlapMs: 0 } } });
    const result = completed(await bench.start());
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r4', 'r5']);
  });

  it('becomes the time of a first run from now on, or from a moment that only a skewed clock calls the future', async () => {
    for (const since of ['2026-11-20T02:00:00Z', '2026-11-20T02:05:00Z']) {
      expect(completed(await anExportBench().start({ since }))).toMatchObject({
        since,
        reports: 0,
        watermark: '2026-11-20T01:59:59Z',
      });
    }
  });

  it('does not apply to another filter, which may match older reports', async () => {
    const bench = anExportBench();
    await bench.start();
    const { request } = bench.deps.definition;
    const other = bench.with({ definition: { request: { ...request, filter: { type: 'invoice' } } } });
    expect(failed(await other.start())).toMatchObject({ error: 'ConfigurationError', run: null });
    expect(completed(await other.start({ since: '2026-11-01T00:00:00Z' })).watermark).toBe('2026-11-20T01:59:59Z');
    expect(completed(await other.start()).since).toBe('2026-11-20T01:59:59Z');
    expect(failed(await bench.start()).message).toContain('with filter {"type":"invoice"} and does not apply to');
  });

  it('of another filter is replaced even if since.initial is before the new run’s since', async () => {
    const since = { from: 'watermark', initial: at('2026-11-01T00:00:00Z'), overlapMs: 0 } as const;
    const bench = anExportBench({ definition: { since } });
    await bench.start();
    const request = { ...bench.deps.definition.request, filter: { type: 'invoice' } };
    const other = bench.with({ definition: { since, request } });
    completed(await other.start({ since: '2026-11-10T00:00:00Z' }));
    expect(completed(await other.start()).since).toBe('2026-11-20T01:59:59Z');
  });

  it('is not before the lookback window of a first run that was restarted, abandoned or failed for good', async () => {
    const since = { from: 'lookback', lookbackMs: 30 * 86_400_000 } as const;
    const cannotFinish = failsAt({ 2: 'RequestRejectedError' });
    const begun = async (script: Script, input = {}) => {
      const bench = anExportBench({ script, definition: { since }, limits: { maxCursorRestarts: 0 } });
      failed(await bench.start({ scheduledTime: '2026-11-20T01:00:00Z', ...input }));
      bench.advance(86_400_000);
      return bench.with({ script: () => undefined });
    };
    const restarted = await begun(cannotFinish);
    expect(completed(await restarted.start({ restart: true })).since).toBe('2026-10-21T01:00:00Z');
    expect((await restarted.state()).firstStart).toBeUndefined();
    const rejected = await begun(failsAt({ 2: 'CursorRejectedError' }));
    expect(completed(await rejected.start()).since).toBe('2026-10-21T01:00:00Z');
    const abandoned = await begun(cannotFinish);
    const { active } = await abandoned.state();
    if (active) await abandonRun({ ...abandoned.deps, store: abandoned.store }, active);
    // A run that leaves a gap after the window moves no watermark, and the next one closes the gap.
    const late = completed(await abandoned.start({ since: '2026-11-20T00:00:00Z' }));
    expect(late.watermark).toBeNull();
    expect(completed(await abandoned.start()).since).toBe('2026-10-21T01:00:00Z');
    // The window was not asked for.
    const named = await begun(cannotFinish, { since: '2026-10-30T00:00:00Z' });
    expect(completed(await named.start({ restart: true })).since).toBe('2026-10-22T02:00:00Z');
  });
});

describe('a run that is started again', () => {
  const dead = (afterPages: number) => (_: unknown, nth: number) => (nth > afterPages ? unavailable() : undefined);

  it('is resumed from its last logged page, without fetching a logged page again', async () => {
    const bench = anExportBench({ reports: someReports(7), size: 2, script: dead(2) });
    expect(failed(await bench.start())).toMatchObject({ error: 'ServiceUnavailableError', pages: 2, resumable: true });
    const again = bench.with({ script: () => undefined });
    const result = completed(await again.start());
    expect(again.service.requests.map(({ cursor }) => cursor)).toEqual([cursorAt(4), cursorAt(6)]);
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5', 'r6', 'r7']);
    expect(bench.manifest(result.manifest).startedAt).toBe('2026-11-20T02:00:00Z');
  });

  it('is skipped while its execution is running, and changes nothing', async () => {
    const bench = anExportBench({ script: dead(1) });
    await bench.start();
    const before = await bench.state();
    bench.running.add(before.active?.execution ?? '');
    expect(await bench.start()).toEqual({
      status: 'skipped',
      reason: `execution ${before.active?.execution} is still exporting run ${before.active?.run}`,
    });
    expect(await bench.state()).toEqual(before);
  });

  it('has another ID than a run of the same second whose random digits begin with the same six', async () => {
    const { deps } = anExportBench();
    const digits = ['1f3a5c000000', '1f3a5c000001'];
    const randomHex = (length: number) => (digits.shift() ?? '').slice(0, length);
    const still = { ...deps, runtime: { ...deps.runtime, randomHex } };
    const first = await begin(still, 'first');
    const second = await begin(still, 'second', { restart: true });
    expect([first.run, second.run]).toEqual(['20261120T020000Z-1f3a5c000000', '20261120T020000Z-1f3a5c000001']);
  });

  it('is abandoned on restart even while its execution is running, and that execution ends without an error', async () => {
    const bench = anExportBench({ reports: someReports(9), size: 2, limits: { iterationsPerExecution: 2 } });
    const old = continued(await bench.execute({ name: 'old', input: {} }));
    bench.running.add(executionId('old'));
    const result = completed(await bench.start({ restart: true }));
    expect(reportIdsOf(bench, result.manifest)).toHaveLength(9);
    expect(await bench.execute(old)).toMatchObject({ status: 'skipped' });
    expect((await bench.state()).lastCompleted?.result).toEqual(result);
  });

  it('is completed before a restart once it may be published, unless its pages were changed', async () => {
    const { bench, resume } = cutOffAt('after the manifest is written', { reports: someReports(3), size: 2 });
    failed(await bench.start());
    resume();
    const before = (await bench.state()).active;
    const refused = failed(await bench.start({ restart: true }));
    expect(refused).toMatchObject({ error: 'ConfigurationError', run: null });
    expect(refused.message).toContain('Start without --restart to complete it');
    expect((await bench.state()).active).toEqual(before);
    expect(completed(await bench.start()).run).toBe(before?.run);

    const other = cutOffAt('before the manifest is written', { reports: someReports(3), size: 2 });
    failed(await other.bench.start());
    other.resume();
    const [page = ''] = pagesIn(other.bench);
    other.bench.store.objects.delete(page);
    expect(failed(await other.bench.start())).toMatchObject({ error: 'PageConflictError' });
    const { run } = completed(await other.bench.start({ restart: true }));
    expect(page).not.toContain(run);
  });

  describe('during which a deployment changes its request', () => {
    const otherSha256 = sha256Of('other settings of the service');
    const { api } = anExportRequest();

    it.each<[what: string, change: Partial<ExportRequest>, says: string]>([
      ['the address', { source: 'https://other.example.com' }, 'service was "simulator" and is now "https://other.'],
      ['the filter', { filter: { type: 'invoice' } }, 'filter was {} and is now {"type":"invoice"}'],
      ['the format', { format: 'CSV' }, 'format was "XML" and is now "CSV"'],
      ['the container', { container: 'ZIP' }, 'container was "NONE" and is now "ZIP"'],
      ['the size', { size: 3 }, 'size was 2 and is now 3'],
      ['what a page is', { api: { ...api, sha256: otherSha256 } }, '(headers, vendor, cursorIn or api) have changed'],
      [
        'the headers',
        { api: { sha256: otherSha256, requestSha256: otherSha256 } },
        '(headers, vendor, cursorIn or api) have changed',
      ],
    ])('requests nothing with the other one, whatever it is: %s', async (_, change, says) => {
      const bench = anExportBench({ reports: someReports(9), size: 2, limits: { iterationsPerExecution: 1 } });
      const first = continued(await bench.execute({ name: 'first', input: {} }));
      const deployed = bench.with({ definition: { request: { ...bench.deps.definition.request, ...change } } });
      const end = failed(await deployed.execute(first));
      expect(end).toMatchObject({ error: 'ConfigurationError', resumable: true, pages: 1 });
      expect(end.message).toContain(says);
      expect(end.message).toMatch(/Restore these values to finish the run, or start with --restart/);
      expect(deployed.service.requests).toEqual([]);
      const { manifest } = completed(await bench.start());
      expect(reportIdsOf(bench, manifest ?? '')).toHaveLength(9);
    });

    it('requests nothing if only one of BeginRun and ExportPage is updated, and begins again at the next start', async () => {
      const bench = anExportBench();
      const updated = bench.with({ definition: { request: { ...bench.deps.definition.request, filter: { a: 1 } } } });
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
      const execution = executionId('one');
      const loop = await begin(bench.deps, execution);
      await exportPage(bench.deps, { loop, execution });
      const updated = bench.with({ definition: { request: { ...bench.deps.definition.request, filter: { a: 1 } } } });
      // Its response was lost.
      expect(await exportPage(updated.deps, { loop, execution })).toMatchObject({ next: 'finish' });
      const { manifest } = await finishRun(updated.deps, { run: asRunId(loop.run), execution });
      expect(bench.manifest(manifest ?? '').filter).toEqual({ date: { gte: '1970-01-01T00:00:00Z' } });
      expect((await bench.state()).watermark?.filter).toEqual({});
    });
  });

  it('is replaced if it has no page, so that it also exports what has appeared since, from where it began', async () => {
    const since = at('2020-01-01T00:00:00Z');
    const bench = anExportBench({ script: dead(0), definition: { lagMs: 3_600_000 } });
    const first = failed(await bench.start({ since, scheduledTime: '2026-11-20T02:00:00Z' }));
    expect(first).toMatchObject({ until: '2026-11-20T01:00:00Z', resumable: true });
    bench.advance(86_400_000);
    const again = bench.with({ script: () => undefined });
    const result = completed(await again.start({ scheduledTime: '2026-11-21T02:00:00Z' }));
    expect(result).toMatchObject({ since, until: '2026-11-21T01:00:00Z' });
    expect(result.run).not.toBe(first.run);
    expect(await again.start({ scheduledTime: '2026-11-21T02:00:00Z' })).toMatchObject({ status: 'skipped' });
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

  it.each([
    ['an unknown field', { sinse: '2026-11-01T00:00:00Z' }, 'sinse'],
    ['a since that is no instant', { since: 'yesterday' }, 'since: must be an ISO 8601 UTC instant'],
    ['a local time', { since: '2026-11-01T00:00:00+01:00' }, 'since: must be an ISO 8601 UTC instant'],
    ['a list', [], 'start input'],
    ['a string', 'restart', 'start input'],
  ])('is refused with %s as its input, before anything changes', async (_, input, says) => {
    const bench = anExportBench();
    const refused = failed(await bench.start(input));
    expect(refused).toMatchObject({ error: 'ConfigurationError', run: null });
    expect(refused.message).toContain(says);
    expect(await bench.state()).toMatchObject({ sequence: 0, failedStart: { error: 'ConfigurationError' } });
  });
});

describe('waits and retries', () => {
  const throttled = (retryAfterSeconds?: number) => () => {
    throw new ExportError('ServiceThrottledError', 'Report service responded with 429', { retryAfterSeconds });
  };

  it('waits for a short Retry-After inside the invocation', async () => {
    const bench = anExportBench({ script: failsAt({ 2: 7 }) });
    expect(completed(await bench.start()).reports).toBe(5);
    expect(bench.slept).toEqual([7_000]);
  });

  it('leaves a long Retry-After to the Wait state, rounded up', async () => {
    const bench = anExportBench({ script: failsAt({ 2: 120.2 }) });
    expect(completed(await bench.start()).reports).toBe(5);
    expect(bench.slept).toEqual([121_000]);
    expect(bench.events).toContainEqual(
      expect.objectContaining({ event: 'service-asked-to-wait', seconds: 121, inside: false, page: 2 }),
    );
  });

  it('leaves short waits to the Wait state, too, once they would exceed the invocation’s time', async () => {
    const bench = anExportBench({ script: (_, nth) => (nth >= 2 && nth < 10 ? throttled(9)() : undefined) });
    expect(completed(await bench.start()).reports).toBe(5);
    expect(bench.slept).toEqual(Array(8).fill(9_000));
    expect(bench.events.filter((event) => event.event === 'service-asked-to-wait' && !event.inside)).toHaveLength(1);
  });

  it('does not busy-loop on Retry-After: 0', async () => {
    const bench = anExportBench({ script: failsAt({ 1: 0 }) });
    completed(await bench.start());
    expect(bench.slept).toEqual([1_000]);
  });

  it('fails the run after maxConsecutiveWaits long waits, and the next start resumes it', async () => {
    const bench = anExportBench({
      limits: { maxConsecutiveWaits: 3 },
      script: (_, nth) => (nth > 1 ? throttled(60)() : undefined),
    });
    const end = failed(await bench.start());
    expect(end).toMatchObject({ error: 'RequestRejectedError', resumable: true, pages: 1 });
    expect(bench.service.requests).toHaveLength(5);
    expect(completed(await bench.with({ script: () => undefined }).start()).reports).toBe(5);
  });

  it('counts consecutive waits per page, not per run', async () => {
    const bench = anExportBench({
      limits: { maxConsecutiveWaits: 1 },
      script: (_, nth) => (nth % 2 === 1 ? throttled(60)() : undefined),
    });
    expect(completed(await bench.start()).reports).toBe(5);
  });

  it('never shortens a Retry-After: one beyond maxRetryAfter fails the run', async () => {
    const bench = anExportBench({ limits: { maxRetryAfterSeconds: 100 }, script: throttled(101) });
    expect(failed(await bench.start())).toMatchObject({ error: 'RequestRejectedError', resumable: true });
    expect(bench.service.requests).toHaveLength(1);
  });

  it.each([
    ['ConfigurationError', 1],
    ['RequestRejectedError', 1],
    ['ContractError', 3],
    ['ServiceUnavailableError', 21],
  ] as const)('fails a run with a persistent %s after %i attempts, with the original error', async (name, attempts) => {
    const bench = anExportBench({
      script: () => {
        throw new ExportError(name, 'the real cause');
      },
    });
    expect(failed(await bench.start())).toMatchObject({ error: name, message: 'the real cause' });
    expect(bench.service.requests).toHaveLength(attempts);
    expect((await bench.state()).active?.lastFailure).toMatchObject({ error: name, message: 'the real cause' });
  });

  it.each([
    ['cut between words', `${'word '.repeat(250)}`, `${'word '.repeat(199)}…`],
    ['without half a surrogate pair at its end', `${'x'.repeat(998)}🜁 and so on`, `${'x'.repeat(998)}…`],
  ])('records a long message %s', async (_, message, expected) => {
    const bench = anExportBench({
      script: () => {
        throw new ExportError('RequestRejectedError', message);
      },
    });
    await bench.start();
    const recorded = (await bench.state()).active?.lastFailure?.message ?? '';
    expect(recorded.isWellFormed()).toBe(true);
    expect(recorded).toBe(expected);
  });
});

describe('a cursor that the service rejects or repeats', () => {
  const rejected = () => {
    throw new ExportError('CursorRejectedError', 'Report service responded with 410');
  };

  it('makes the run start over with the same since and a new run ID', async () => {
    const bench = anExportBench({ script: failsAt({ 2: 'CursorRejectedError' }) });
    const result = completed(await bench.start({ since: '2026-11-01T00:01:00Z' }));
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r2', 'r3', 'r4', 'r5']);
    expect(result.since).toBe('2026-11-01T00:01:00Z');
    expect(bench.manifest(result.manifest).sequence).toBe((await bench.state()).sequence);
    const started = startedRun(bench);
    expect(started).not.toBe(result.run);
    expect(manifestsIn(bench)).toEqual([result.manifest]);
  });

  it('restarts the run once, even if two concurrent invocations meet the same rejection', async () => {
    const bench = anExportBench({ limits: { iterationsPerExecution: 1 } });
    await bench.execute({ name: 'one', input: {} });
    const state = await bench.state();
    const execution = state.active?.execution ?? '';
    const loop = {
      export: state.export,
      run: state.active?.run ?? '',
      executionNumber: 1,
      page: 2,
      iterations: 0,
      waits: 0,
    };
    let requests = 0;
    let release = () => {};
    const bothRequested = new Promise<void>((resolve) => {
      release = resolve;
    });
    const service: typeof bench.service = {
      requests: [],
      async fetch() {
        requests += 1;
        if (requests === 2) release();
        await bothRequested;
        return rejected();
      },
    };
    const invoke = () => exportPage({ ...bench.deps, service }, { loop, execution });
    const [first, second] = await Promise.all([invoke(), invoke()]);
    expect(second).toEqual(first);
    expect((await bench.state()).active).toMatchObject({ run: second.run, cursorRestarts: 1 });
    expect(bench.events.filter(({ event }) => event === 'run-restarted')).toHaveLength(1);
  });

  it('fails the run after maxCursorRestarts, and the next start begins a new one', async () => {
    const bench = anExportBench({ script: ({ cursor }) => (cursor === null ? undefined : rejected()) });
    const start = { scheduledTime: '2026-11-20T02:00:00Z' };
    expect(failed(await bench.start(start))).toMatchObject({ error: 'CursorRejectedError', resumable: false });
    expect(bench.service.requests).toHaveLength(4);
    expect((await bench.state()).active).toBeUndefined();
    // As "New execution" in the console repeats it.
    expect(completed(await bench.with({ script: () => undefined }).start(start)).reports).toBe(5);
  });

  it.each([1, 7])('fails the run if it repeats after %i pages', async (length) => {
    const leadIn = 3;
    const bench = anExportBench({
      script: (_, nth) =>
        aFetchedPage({ nextCursor: cursorAt(nth <= leadIn ? nth : leadIn + 1 + ((nth - leadIn - 1) % length)) }),
    });
    const end = failed(await bench.start());
    expect(end).toMatchObject({ error: 'RepeatedCursorError', resumable: false });
    expect(end.message).toContain('so its pages repeat');
    expect(bench.service.requests.length).toBeLessThanOrEqual(3 * (leadIn + length) + 1);
    expect(manifestsIn(bench)).toEqual([]);
    // Repeated pages must never be published, so the next start does not resume the run.
    expect(completed(await bench.with({ script: () => undefined }).start()).reports).toBe(5);
  });

  it('fails the run at the third page in a row with the same reports, although each cursor is another one', async () => {
    const digests = ['a', 'b', 'b', 'c', 'b', 'b', 'b', 'd'];
    const bench = anExportBench({
      script: (_, nth) => aFetchedPage({ nextCursor: cursorAt(nth), reportsDigest: digests[nth - 1] }),
      limits: { pagesPerInvocation: 2 },
    });
    const end = failed(await bench.start());
    expect(end).toMatchObject({ error: 'RepeatedCursorError', resumable: false, pages: 7 });
    expect(end.message).toContain('Page 7 of run');
    expect(end.message).toContain('has the same reports as the 2 pages before it');
    expect(end.message).toContain('api.next.to');
    expect(manifestsIn(bench)).toEqual([]);
    expect(completed(await bench.with({ script: () => undefined }).start()).reports).toBe(5);
  });

  it('completes a run whose last pages have the same reports', async () => {
    const script: Script = (_, nth) =>
      aFetchedPage({ nextCursor: nth === 3 ? null : cursorAt(nth), reportsDigest: 'the same' });
    expect(completed(await anExportBench({ script }).start()).pages).toBe(3);
  });

  it('fails the run if a cursor occurs twice, although other pages follow it', async () => {
    // Cycle detection compares with 4 then.
    const cursors = [1, 2, 3, 4, 3, 5, 6];
    const bench = anExportBench({
      script: (_, nth) => {
        const next = cursors[nth - 1];
        return aFetchedPage({ nextCursor: next === undefined ? null : cursorAt(next) });
      },
    });
    const end = failed(await bench.start());
    expect(end).toMatchObject({ error: 'RepeatedCursorError', resumable: false, pages: 8 });
    expect(end.message).toContain('Page 6 of run');
    expect(end.message).toContain('was requested with the cursor of page 4, so it contains pages twice');
    expect(manifestsIn(bench)).toEqual([]);
    expect((await bench.state()).active).toBeUndefined();
    expect(completed(await bench.with({ script: () => undefined }).start()).reports).toBe(5);
  });

  it('never reuses the sequence of a published manifest, even after the export state was restored from a backup', async () => {
    const bench = anExportBench();
    const states: ExportState[] = [];
    for (let run = 0; run < 3; run += 1) {
      completed(await bench.start());
      states.push(await bench.state());
      bench.advance(60_000);
    }
    const [old] = states;
    await bench.log.replaceState({ ...(old as ExportState), version: (await bench.state()).version + 1 });
    const result = completed(await bench.start());
    const latest = JSON.parse(
      bench.store.objects.get(`${bench.deps.definition.name}/latest.json`) ?? '',
    ) as LatestPointer;
    expect(latest.manifest).toBe(result.manifest);
    expect(latest.sequence).toBeGreaterThan(states.at(-1)?.sequence ?? Number.NaN);
  });

  it.each([1, 25])(
    'stops a run at maxPages, and resumes it once that is raised (%i pages per invocation)',
    async (pagesPerInvocation) => {
      const bench = anExportBench({ limits: { pagesPerInvocation, maxPages: 2 } });
      const end = failed(await bench.start());
      expect(end).toMatchObject({ error: 'ConfigurationError', pages: 2, resumable: true });
      expect(end.message).toContain('the limit of 2 pages (maxPages)');
      expect(bench.service.requests).toHaveLength(2);
      const unchanged = bench.with({});
      expect(failed(await unchanged.start())).toMatchObject({ error: 'ConfigurationError', pages: 2 });
      expect(unchanged.service.requests).toEqual([]);
      const more = bench.with({ limits: { pagesPerInvocation, maxPages: 3 } });
      expect(completed(await more.start()).pages).toBe(3);
      expect(more.service.requests).toHaveLength(1);
    },
  );
});

describe('a run whose pages have no reports', () => {
  /** A service of so many pages, of which only page 2 has a report, if they are counted. */
  const emptyPages =
    (pages: number, reports: number | null = 0): Script =>
    ({ cursor }) => {
      const page = 1 + Number.parseInt(cursor?.split('-').at(-1) ?? '0', 16);
      return aFetchedPage({
        reports: page === 2 && reports !== null ? 1 : reports,
        nextCursor: page < pages ? cursorAt(page) : null,
      });
    };

  it.each([1, 25])(
    'stops at maxEmptyPages of them in a row, and resumes once that is raised (%i pages per invocation)',
    async (pagesPerInvocation) => {
      const bench = anExportBench({ script: emptyPages(40), limits: { pagesPerInvocation, maxEmptyPages: 3 } });
      const { pages, ...end } = failed(await bench.start());
      expect(end).toMatchObject({ error: 'ConfigurationError', resumable: true });
      expect(end.message).toContain('limit of 3 consecutive pages without reports (maxEmptyPages)');
      // Others may have been in flight.
      const maxInFlight = 8;
      expect(pages).toBeGreaterThanOrEqual(5);
      expect(pages).toBeLessThan(5 + maxInFlight);
      const unchanged = bench.with({});
      expect(failed(await unchanged.start())).toMatchObject({ error: 'ConfigurationError', pages });
      expect(unchanged.service.requests).toEqual([]);
      const more = bench.with({ limits: { pagesPerInvocation, maxEmptyPages: 50 } });
      expect(completed(await more.start())).toMatchObject({ pages: 40, reports: 1 });
      expect(more.service.requests.length).toBeLessThanOrEqual(40 - pages);
    },
  );

  it('names the description of the end if the API is described', async () => {
    const api = { pagination: 'link', sha256: sha256Of('api'), requestSha256: sha256Of('request') };
    const definition = { request: anExportRequest({ api }) };
    const end = await anExportBench({ script: emptyPages(9), limits: { maxEmptyPages: 3 }, definition }).start();
    expect(failed(end).message).toContain('api.last');
  });

  it('completes if they are not counted, or if they are the last ones', async () => {
    const limits = { maxEmptyPages: 3 };
    expect(completed(await anExportBench({ script: emptyPages(9, null), limits }).start()).pages).toBe(9);
    expect(completed(await anExportBench({ script: emptyPages(5), limits }).start()).pages).toBe(5);
  });

  it('warns at each hundred of them', async () => {
    const bench = anExportBench({ script: emptyPages(250) });
    completed(await bench.start());
    expect(bench.events.filter(({ event }) => event === 'pages-without-reports')).toMatchObject([
      { page: 102, emptyPages: 100 },
      { page: 202, emptyPages: 200 },
    ]);
  });
});
