/** Where an export stands and how its runs went, as an operator sees it. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { Incident } from '../../../lib/core/operations/deployment.ts';
import { readExportStatus, findRunStatus } from '../../../lib/core/operations/run-status.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { aRunId, at } from '../../support/builders.ts';
import { anExportBench, type Bench } from '../../support/export-bench.ts';
import { installedBench } from '../../support/installed-bench.ts';
import { someReports } from '../../support/scripted-service.ts';

const look = (bench: Bench, most = 10, incidents?: readonly Incident[]) =>
  readExportStatus(installedBench(bench, incidents), most);

/** Refuses the second request of each run while `down.is`. */
function aShakyBench() {
  const down = { is: false };
  const bench = anExportBench({
    reports: someReports(5),
    size: 2,
    script: (request) => {
      if (down.is && request.cursor !== null) throw new ExportError('RequestRejectedError', 'no');
      return undefined;
    },
  });
  return { bench, down };
}

describe('the overview', () => {
  it('says why the newest run was given up, where it failed for good', async () => {
    const bench = anExportBench({
      reports: someReports(5),
      size: 2,
      limits: { maxCursorRestarts: 0 },
      script: (request) => {
        if (request.cursor !== null) throw new ExportError('CursorRejectedError', 'gone');
        return undefined;
      },
    });
    expect((await bench.start()).status).toBe('failed');
    const incident = { kind: 'failed-run', at: at('2026-11-20T02:00:01Z'), page: 2, error: 'X', message: 'y' } as const;
    expect((await look(bench, 10, [incident])).runs).toMatchObject([{ state: 'abandoned', lastIncident: incident }]);
  });

  it('of an export that never ran is empty', async () => {
    expect(await look(anExportBench())).toEqual({
      export: expect.any(String),
      watermark: null,
      completedAt: null,
      next: { kind: 'by-hand' },
      runs: [],
    });
  });

  it('shows completed runs, the newest first, with what they came to', async () => {
    const bench = anExportBench({ reports: someReports(5), size: 2 });
    await bench.start();
    bench.pass(3_600_000);
    await bench.start();
    const { runs, watermark, completedAt } = await look(bench);
    expect(runs).toMatchObject([
      {
        state: 'completed',
        pages: 1,
        reports: 0,
        since: watermark,
        manifest: expect.stringContaining('manifest.json'),
      },
      { state: 'completed', pages: 3, reports: 5, since: '1970-01-01T00:00:00Z', lastIncident: null },
    ]);
    expect(completedAt).toBe(runs[0]?.completedAt);
    expect((await look(bench, 1)).runs).toHaveLength(1);
  });

  it('tells a run that is worked on from one that failed and one that was cut off', async () => {
    const { bench, down } = aShakyBench();
    down.is = true;
    await bench.start();
    const { active } = await bench.head();
    expect((await look(bench)).runs).toMatchObject([
      {
        state: 'failed',
        pages: 1,
        lastIncident: { kind: 'failed-run', error: 'RequestRejectedError' },
        manifest: null,
      },
    ]);
    bench.running.add(active?.execution ?? '');
    const waiting: Incident = { kind: 'wait', at: at('2026-11-20T02:00:05Z'), page: 2, seconds: 30 };
    expect((await look(bench, 1, [waiting])).runs).toMatchObject([{ state: 'running', lastIncident: waiting }]);

    // A process that is killed leaves no word of it.
    bench.running.clear();
    const head = await bench.head();
    if (head.active === undefined) throw new Error('nothing is unfinished');
    const { lastFailure: _, ...cutOff } = head.active;
    await bench.log.replaceState({ ...head, version: head.version + 1, active: cutOff });
    expect((await look(bench)).runs).toMatchObject([{ state: 'stopped', lastIncident: null }]);
  });

  it('tells a run that was cut off when it went on after a failure from one that has failed', async () => {
    const { bench, down } = aShakyBench();
    down.is = true;
    await bench.start();
    await beginRun(bench.deps, { input: {}, execution: 'the next' });
    expect((await look(bench)).runs).toMatchObject([{ state: 'stopped', pages: 1, lastIncident: null }]);
  });

  it('knows a run that was given up by its lack of a manifest, and remembers no more of it than the log', async () => {
    const { bench, down } = aShakyBench();
    down.is = true;
    await bench.start();
    down.is = false;
    bench.pass(60_000);
    await bench.start({ restart: true });
    const { runs } = await look(bench);
    expect(runs).toMatchObject([
      { state: 'completed', pages: 3 },
      {
        state: 'abandoned',
        pages: 1,
        since: null,
        startedAt: '2026-11-20T02:00:00Z',
        completedAt: null,
        manifest: null,
      },
    ]);
  });

  it('finds a run of long ago without a look at all that came after it', async () => {
    const { bench, down } = aShakyBench();
    for (const state of ['completed', 'abandoned', 'completed'] as const) {
      down.is = state === 'abandoned';
      await bench.start({ restart: true, since: '1970-01-01T00:00:00Z' });
      bench.pass(60_000);
    }
    down.is = false;
    for (let runs = 0; runs < 20; runs += 1) {
      await bench.start();
      bench.pass(60_000);
    }
    const known = (await look(bench, 30)).runs;
    const looks: string[] = [];
    const installed = installedBench(bench);
    const store = {
      ...installed.store,
      read(key: string) {
        looks.push(key);
        return installed.store.read(key);
      },
    };
    for (const run of known) {
      looks.length = 0;
      expect(await findRunStatus({ ...installed, store }, await bench.head(), run.run)).toEqual(run);
      expect(looks.length).toBeLessThanOrEqual(1);
    }
    expect(known.map(({ state }) => state)).toContain('abandoned');
    expect(await findRunStatus(installed, await bench.head(), aRunId())).toBeUndefined();
  });

  it('shows a run whose manifest was edited all the same', async () => {
    const bench = anExportBench();
    await bench.start();
    const manifest = [...bench.store.objects.keys()].find((key) => key.endsWith('manifest.json')) ?? '';
    bench.store.objects.set(manifest, '{}');
    expect((await look(bench)).runs).toMatchObject([{ state: 'completed', since: null, completedAt: null }]);
  });
});
