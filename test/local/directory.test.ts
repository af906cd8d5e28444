/** What operators' commands read from a directory, and whether an export runs. */

import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import { readExports } from '../../lib/operator/run-view.ts';
import type { ManifestPage } from '../../lib/core/storage/published-schemas.ts';
import type { ExportTarget, StartOptions } from '../../lib/operator/target.ts';
import type { LocalExport } from '../../lib/local/settings.ts';
import { asRunId } from '../../lib/core/model.ts';
import type { Runtime } from '../../lib/core/ports.ts';
import { type LocalDeploymentOptions, openLocalDeployment } from '../../lib/local/directory.ts';
import { acquireExportLock } from '../../lib/local/lock.ts';
import { onPage, throttled } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import { boundedStateName } from '../../lib/core/bounded-runs.ts';
import { createSqlitePageLog } from '../support/export/directory-store.ts';
import { aCompletion, aLocalExport, anExportState, aRun, at } from '../support/builders.ts';
import { someReports } from '../support/service/simulator-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const startOptions: StartOptions = {
  follow: true,
  onProgress: () => {},
  emit: () => {},
  onRetry: () => {},
  notify: () => {},
  signal: new AbortController().signal,
};
const simulated = (name: string, settings: object = {}) => aLocalExport({ service: {}, export: { name, ...settings } });
async function startLocalExport(
  options: LocalDeploymentOptions,
  settings: LocalExport,
  ...args: Parameters<ExportTarget['start']>
) {
  await using target = openLocalDeployment({ ...options, exports: [{ settings }] });
  return await (await target.open(settings.export.name)).start(...args);
}
/** A clock for which a Retry-After of so many seconds takes no time, and all other timers take theirs. */
function aClockThatSkips(waitSeconds: number): { runtime: Runtime; waits: number[] } {
  const waits: number[] = [];
  const skippedMs = () => waits.length * waitSeconds * 1_000;
  const runtime: Runtime = {
    ...systemRuntime,
    now: () => systemRuntime.now() + skippedMs(),
    monotonicNow: () => systemRuntime.monotonicNow() + skippedMs(),
    async sleep(ms, signal) {
      if (ms === waitSeconds * 1_000) waits.push(ms);
      else await systemRuntime.sleep(ms, signal);
    },
  };
  return { runtime, waits };
}
const optionsFor = (out: string, ...exports: readonly LocalExport[]): LocalDeploymentOptions => ({
  out,
  env: { KEY: 'the-key' },
  runtime: systemRuntime,
  exports: exports.map((settings) => ({ settings })),
});

describe('a local deployment', () => {
  it('stores pages that travelled compressed as they were, and says in the manifest how small they were', async () => {
    await using directory = await temporaryDirectory();
    const reports = inMemoryReports(someReports(40));
    await using service = await startSimulator({ vendor: 'ACME', apiKey: 'the-key', reports, compression: true });
    const settings = aLocalExport({
      service: { baseUrl: service.baseUrl, vendor: 'ACME' },
      export: { name: 'daily', size: 10 },
    });
    const end = await startLocalExport(optionsFor(directory.path), settings, {}, startOptions);
    if (end.status !== 'completed') throw new Error(`it ended as ${end.status}`);
    const { pages } = JSON.parse(await readFile(join(directory.path, end.result.manifest ?? ''), 'utf8'));
    expect(pages.map(({ transferredBytes }: ManifestPage) => transferredBytes)).toEqual(
      service.exchanges.map(({ bytes }) => bytes),
    );
    for (const { key, bytes, transferredBytes } of pages as readonly ManifestPage[]) {
      expect((await stat(join(directory.path, key))).size).toBe(bytes);
      expect(transferredBytes).toBeLessThan(bytes);
    }
  });

  it('waits as long as the service asks, even if no timer of Node.js is that long', async () => {
    const waitSeconds = 25 * 86_400;
    const faults = onPage(2, throttled(String(waitSeconds)));
    const reports = inMemoryReports(someReports(5));
    await using service = await startSimulator({ vendor: 'ACME', apiKey: 'the-key', reports, faults });
    await using directory = await temporaryDirectory();
    const settings = aLocalExport({
      service: { baseUrl: service.baseUrl, vendor: 'ACME' },
      export: { name: 'a', size: 2, maxRetryAfter: 'P30D' },
    });
    const { runtime, waits } = aClockThatSkips(waitSeconds);
    const options = { ...optionsFor(directory.path), runtime };
    const end = await startLocalExport(options, settings, {}, startOptions);
    expect(end).toMatchObject({ status: 'completed', result: { pages: 3 } });
    expect(waits).toEqual([waitSeconds * 1_000]);
  });

  it('is interrupted at once while it waits as long as the service asks', async () => {
    const reports = inMemoryReports(someReports(5));
    const faults = onPage(2, throttled('3600'));
    await using service = await startSimulator({ vendor: 'ACME', apiKey: 'the-key', reports, faults });
    await using directory = await temporaryDirectory();
    const settings = aLocalExport({ service: { baseUrl: service.baseUrl, vendor: 'ACME' }, export: { size: 2 } });
    const interruption = new AbortController();
    const emit: StartOptions['emit'] = ({ event }) => {
      if (event === 'service-asked-to-wait') setImmediate(() => interruption.abort());
    };
    const options = { ...startOptions, emit, signal: interruption.signal };
    const end = await startLocalExport(optionsFor(directory.path), settings, {}, options);
    expect(end.status).toBe('interrupted');
  });

  it.each([
    [
      'daily',
      'bounded',
      { since: at('2026-11-20T00:00:00Z'), until: at('2026-11-20T00:01:00Z') },
      ['never', 'running'],
    ],
    ['bounded-daily', 'regular', {}, ['running']],
  ])('knows of %s that a %s run is in progress in each of its executions', async (name, _, bounds, inProgress) => {
    await using directory = await temporaryDirectory();
    // After the wait, it continues in another execution.
    const faults = onPage(2, throttled('21'));
    const reports = inMemoryReports(someReports(5));
    await using service = await startSimulator({ vendor: 'ACME', apiKey: 'the-key', reports, faults });
    const settings = aLocalExport({
      service: { baseUrl: service.baseUrl, vendor: 'ACME', filterUntil: 'date.lt' },
      export: { name, size: 2, iterationsPerExecution: 2 },
    });
    const readStates = async () => {
      await using deployment = openLocalDeployment(optionsFor(directory.path, settings));
      const [status] = await readExports(await deployment.openAll(), 0, Date.now());
      if (status === undefined || 'error' in status) throw new Error('the state cannot be read');
      return [status.state, ...status.bounded.unfinished.map(({ state }) => state)];
    };
    const states: Promise<unknown>[] = [];
    const emit: StartOptions['emit'] = ({ event }) => {
      if (event === 'run-started' || event === 'run-resumed') states.push(readStates());
    };
    const options = { ...optionsFor(directory.path), runtime: aClockThatSkips(21).runtime };
    const end = await startLocalExport(options, settings, bounds, { ...startOptions, emit });
    expect(end.status).toBe('completed');
    expect(await Promise.all(states)).toEqual([inProgress, inProgress]);
  });

  it('skips bounds that another process is exporting, and refuses others until it has ended', async () => {
    await using directory = await temporaryDirectory();
    const bounds = { since: at('2026-11-20T00:00:00Z'), until: at('2026-11-20T00:01:00Z') };
    const start = async (request: object) =>
      await startLocalExport(optionsFor(directory.path), simulated('a'), request, startOptions);
    {
      using _ = acquireExportLock(directory.path, 'a/bounded');
      const message = `Another process is exporting another bounded run of a to ${directory.path}. Start again once it has ended`;
      await expect(start(bounds)).rejects.toMatchObject({ name: 'ConfigurationError', message });
      using log = createSqlitePageLog(join(directory.path, 'state.sqlite'));
      const active = aRun({ export: 'a', ...bounds, bounded: true });
      await log.replaceState(anExportState({ export: boundedStateName('a', bounds), version: 1, active }));
      const reason = `another process is exporting this bounded run of a to ${directory.path}`;
      expect(await start(bounds)).toEqual({ status: 'skipped', reason });
    }
    expect(await start({})).toMatchObject({ status: 'completed' });
  });

  it('takes no reports of a service beside simulated ones, also once a bounded run was abandoned', async () => {
    await using directory = await temporaryDirectory();
    {
      using log = createSqlitePageLog(join(directory.path, 'state.sqlite'));
      const bounds = { since: at('2026-11-20T00:00:00Z'), until: at('2026-11-20T00:01:00Z') };
      await log.replaceState(anExportState({ export: 'a', version: 1, lastCompleted: aCompletion('x') }));
      await log.replaceState(anExportState({ export: boundedStateName('a', bounds), version: 1 }));
    }
    const settings = aLocalExport({ service: { baseUrl: 'https://reports.example.com' }, export: { name: 'a' } });
    expect(() => openLocalDeployment(optionsFor(directory.path, settings))).toThrow(
      `${directory.path} has simulated reports (a), so none of a service are stored there`,
    );
  });

  it('records a start that cannot connect, unless it is that of a bounded run', async () => {
    await using directory = await temporaryDirectory();
    const settings = aLocalExport({
      service: { baseUrl: 'http://127.0.0.1:1', vendor: 'ACME' },
      export: { name: 'a' },
    });
    const bounds = { since: at('2026-11-20T00:00:00Z'), until: at('2026-11-20T00:01:00Z') };
    const options = { ...optionsFor(directory.path), env: {}, file: 'settings.json' };
    const failedStarts = [];
    const children = { parents: asRunId('20261120T000000Z-0123456789ab') };
    for (const request of [bounds, children, {}]) {
      const start = startLocalExport(options, settings, request, startOptions);
      await expect(start).rejects.toThrow('The environment variable KEY is not set');
      using log = createSqlitePageLog(join(directory.path, 'state.sqlite'));
      failedStarts.push((await log.exportState('a'))?.failedStart?.error);
    }
    expect(failedStarts).toEqual([undefined, undefined, 'ConfigurationError']);
  });

  it('says what to do if its path is too long, before anything has run', async () => {
    await using directory = await temporaryDirectory();
    const out = join(directory.path, 'a'.repeat(300));
    expect(() => openLocalDeployment(optionsFor(out, simulated('nightly')))).toThrow(
      'its path is too long. Choose another directory',
    );
  });

  it('names its exports if there is none with a name', async () => {
    await using directory = await temporaryDirectory();
    const out = join(directory.path, "it's here");
    await using deployment = openLocalDeployment(optionsFor(out, simulated('a')));
    await expect(deployment.open('b')).rejects.toThrow(/no export b in directory .* Its exports: a$/);
    expect(deployment.option).toBe(`--out '${out.replace("'", "'\\''")}'`);
  });
});
