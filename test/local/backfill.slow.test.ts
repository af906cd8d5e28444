/** A backfill in a directory: what its windows contain, and what it leaves alone. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import { readBackfillStatus } from '../../lib/backfill/status.ts';
import type { BackfillOptions, DeployedExport, Deployment, StartOptions } from '../../lib/target/target.ts';
import { listPublishedRuns, listPublishedWindows } from '../../lib/core/storage/run-list.ts';
import type { WindowSummary } from '../../lib/core/storage/published-schemas.ts';
import { openLocalDeployment, startLocalExport } from '../../lib/local/directory.ts';
import { acquireBackfillLock } from '../../lib/local/lock.ts';
import { errorResponse, type FaultScript } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import type { SimulatorOptions } from '../support/service/simulator.ts';
import { startTestSimulator, simulatorApiKey } from '../support/service/simulator-client.ts';
import { at, collect } from '../support/builders.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

/** 60 reports, one every six hours from 2020-01-01 on: `r0` to `r59`. */
const reports = Array.from({ length: 60 }, (_, index) => ({
  id: `r${index}`,
  date: Date.UTC(2020, 0, 1) + index * 21_600_000,
  xml: `<r id="r${index}"/>`,
}));
const idsFrom = (first: number, end: number) => Array.from({ length: end - first }, (_, index) => `r${first + index}`);

const startOptions: StartOptions = {
  follow: true,
  emit: () => {},
  onRetry: () => {},
  say: () => {},
  signal: new AbortController().signal,
};
const backfillOptions = (overrides: Partial<BackfillOptions> = {}): BackfillOptions => ({
  follow: true,
  say: () => {},
  emit: () => {},
  onProgress: () => {},
  onRetry: () => {},
  maxAttempts: 1,
  signal: new AbortController().signal,
  ...overrides,
});
const period = { from: at('2020-01-02T00:00:00Z'), to: at('2020-01-12T12:00:00Z'), windowMs: 172_800_000, parallel: 3 };
/** The indices of the reports in `period`. */
const inPeriod = [4, 46] as const;

interface World extends AsyncDisposable {
  readonly directory: TemporaryDirectory;
  readonly deployment: Deployment;
  readonly deployed: DeployedExport;
}

/** An export that has run once, from 2020-01-13 on, of a service with `reports`. */
async function anExport({
  service: serviceSettings = {},
  ...options
}: Partial<SimulatorOptions> & { readonly service?: object } = {}): Promise<World> {
  const stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const simulator = stack.use(await startTestSimulator({ reports: inMemoryReports(reports), ...options }));
  const env = { KEY: simulatorApiKey };
  const local = { out: directory.path, env, runtime: systemRuntime };
  const settings = {
    service: { baseUrl: simulator.baseUrl, filterUntil: 'date.lt', ...serviceSettings },
    export: { name: 'nightly', size: 2, since: { initial: '2020-01-13T00:00:00Z' } },
    apiKeyEnv: 'KEY',
  };
  await startLocalExport(local, settings, {}, startOptions);
  const deployment = stack.use(openLocalDeployment(local));
  const deployed = await deployment.open('nightly');
  return { directory, deployment, deployed, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** As many of the next requests for a page 3 fail as there are failures left. */
const failingPages =
  (failures: { left: number }): FaultScript =>
  ({ page }) => {
    if (page !== 3 || failures.left === 0) return undefined;
    failures.left -= 1;
    return errorResponse(503);
  };

/** The IDs of the reports in the pages of each published window, in the order of the windows. */
async function publishedWindows({ directory, deployed }: World): Promise<{ summary: WindowSummary; ids: string[] }[]> {
  const windows = await collect(listPublishedWindows(deployed.store, 'nightly'));
  return await Promise.all(
    windows.map(async (summary) => {
      const manifest = JSON.parse(await readFile(join(directory.path, summary.manifest), 'utf8'));
      expect(manifest).toMatchObject({ since: summary.since, until: summary.until });
      const ids: string[] = [];
      for (const { key } of manifest.pages) {
        const text = await readFile(join(directory.path, key), 'utf8');
        ids.push(...[...text.matchAll(/id="([^"]+)"/g)].map(([, id = '']) => id));
      }
      return { summary, ids };
    }),
  );
}

const idsIn = (windows: Awaited<ReturnType<typeof publishedWindows>>) => windows.flatMap(({ ids }) => ids);

describe('a backfill in a directory', () => {
  it('publishes windows that contain each report of the period once, and changes neither watermark nor latest.json', async () => {
    await using world = await anExport();
    const { deployed, directory } = world;
    const before = await deployed.log.exportState('nightly');
    const latest = await readFile(join(directory.path, 'nightly/latest.json'), 'utf8');
    const runs = await collect(listPublishedRuns(deployed.store, 'nightly', 0));

    expect(await deployed.startBackfill(period, backfillOptions())).toEqual({ status: 'ended' });

    const windows = await publishedWindows(world);
    expect(windows.map(({ summary: { since, until } }) => `${since} ${until}`)).toEqual([
      '2020-01-02T00:00:00Z 2020-01-04T00:00:00Z',
      '2020-01-04T00:00:00Z 2020-01-06T00:00:00Z',
      '2020-01-06T00:00:00Z 2020-01-08T00:00:00Z',
      '2020-01-08T00:00:00Z 2020-01-10T00:00:00Z',
      '2020-01-10T00:00:00Z 2020-01-12T00:00:00Z',
      '2020-01-12T00:00:00Z 2020-01-12T12:00:00Z',
    ]);
    expect(idsIn(windows)).toEqual(idsFrom(...inPeriod));
    for (const { summary } of windows) expect(summary.sequence).toBeGreaterThan(runs[0]?.sequence ?? 0);
    expect(await deployed.log.exportState('nightly')).toEqual(before);
    expect(await readFile(join(directory.path, 'nightly/latest.json'), 'utf8')).toBe(latest);
    expect(await collect(listPublishedRuns(deployed.store, 'nightly', 0))).toEqual(runs);
    expect(await readBackfillStatus(deployed, 'nightly')).toMatchObject({
      state: 'completed',
      counts: { done: 6, running: 0, failed: 0, interrupted: 0, waiting: 0 },
      reports: 42,
      remainingSeconds: 0,
    });
  });

  it('skips windows that are done, and resumes one that has failed after its last page', async () => {
    const failures = { left: 0 };
    await using world = await anExport({ faults: failingPages(failures) });
    const { deployed } = world;
    failures.left = 2;
    await deployed.startBackfill({ ...period, parallel: 1 }, backfillOptions());
    const status = await readBackfillStatus(deployed, 'nightly');
    expect(status).toMatchObject({ state: 'unfinished', counts: { done: 4, failed: 2 } });
    const failed = status?.windows.find(({ state }) => state === 'failed');
    expect(failed).toMatchObject({ pages: 2, lastFailure: { error: 'ServiceUnavailableError' } });
    const done = (await publishedWindows(world)).map(({ summary }) => summary.run);

    await deployed.startBackfill({ ...period, parallel: 2 }, backfillOptions());
    const windows = await publishedWindows(world);
    expect(idsIn(windows)).toEqual(idsFrom(...inPeriod));
    expect(windows.map(({ summary }) => summary.run)).toEqual(expect.arrayContaining([...done, failed?.run]));
    expect(windows).toHaveLength(6);
  });

  it('requests at most as many pages at the same time as the service allows', async () => {
    let current = 0;
    let most = 0;
    await using world = await anExport({
      service: { maxConcurrentPages: 2 },
      faults: () => {
        current += 1;
        most = Math.max(most, current);
        return { delayMs: 5 };
      },
      onExchange: () => {
        current -= 1;
      },
    });
    const { deployed } = world;
    await expect(deployed.startBackfill(period, backfillOptions())).rejects.toThrow(/--parallel: must be at most 2/);
    await deployed.startBackfill({ ...period, parallel: 2 }, backfillOptions());
    expect(most).toBeLessThanOrEqual(2);
    expect(idsIn(await publishedWindows(world))).toEqual(idsFrom(...inPeriod));
  });

  it('is refused with other bounds while it is unfinished, or where windows of it overlap', async () => {
    const failures = { left: 0 };
    await using world = await anExport({ faults: failingPages(failures) });
    const { deployed } = world;
    failures.left = 1;
    await deployed.startBackfill({ ...period, parallel: 1 }, backfillOptions());
    const other = { ...period, windowMs: 86_400_000 };
    await expect(deployed.startBackfill(other, backfillOptions())).rejects.toThrow(
      /1 of its windows .*Continue it with/,
    );
    await deployed.startBackfill(period, backfillOptions());
    await expect(deployed.startBackfill(other, backfillOptions())).rejects.toThrow(/exported twice/);
    const later = { ...period, from: period.to, to: at('2020-01-13T00:00:00Z') };
    expect(await deployed.startBackfill(later, backfillOptions())).toEqual({ status: 'ended' });
    expect(idsIn(await publishedWindows(world))).toEqual(idsFrom(4, 48));
  });

  it('is interrupted while the service is being checked, and then is not recorded', async () => {
    const interruption = new AbortController();
    let isBegun = false;
    await using world = await anExport({
      faults: () => {
        if (!isBegun) return undefined;
        interruption.abort();
        return { delayMs: 600_000 };
      },
    });
    isBegun = true;
    const end = await world.deployed.startBackfill(period, backfillOptions({ signal: interruption.signal }));
    expect(end).toEqual({ status: 'interrupted' });
    expect(await world.deployed.backfills.read('nightly')).toBeUndefined();
  });

  it('stops at an interruption, and starts only once at a time', async () => {
    await using world = await anExport();
    const { deployed, directory } = world;
    const interruption = new AbortController();
    const options = backfillOptions({
      signal: interruption.signal,
      emit: (event) => {
        if (event.event === 'page-exported') interruption.abort();
      },
    });
    expect(await deployed.startBackfill(period, options)).toEqual({ status: 'interrupted' });
    expect((await publishedWindows(world)).length).toBeLessThan(6);
    const lock = acquireBackfillLock(directory.path, 'nightly');
    expect(await deployed.startBackfill(period, backfillOptions())).toMatchObject({ status: 'skipped' });
    lock?.release();
    await deployed.startBackfill(period, backfillOptions());
    expect(idsIn(await publishedWindows(world))).toEqual(idsFrom(...inPeriod));
  });
});
