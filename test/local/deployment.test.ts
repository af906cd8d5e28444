/** What a directory remembers for an operator: how exports were started, and what held their runs up. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import type { Incident, StartOptions } from '../../lib/core/operations/deployment.ts';
import { directoryExport, openDirectory } from '../../lib/local/deployment.ts';
import { acquireExportLock } from '../../lib/local/lock.ts';
import { onPage, refusing, throttled, together } from '../../lib/report-service/simulator/faults.ts';
import { givenReports } from '../../lib/report-service/simulator/report-source.ts';
import { startSimulator } from '../../lib/report-service/simulator/simulator.ts';
import { someReports } from '../support/asking-the-simulator.ts';
import { collect } from '../support/builders.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const watching: StartOptions = {
  follow: true,
  emit: () => {},
  onRetry: () => {},
  say: () => {},
  signal: new AbortController().signal,
};
const optionsFor = (out: string) => ({ out, env: { KEY: 'the-key' }, runtime: systemRuntime });

describe('a directory', () => {
  it('remembers how an export was started, and what held its runs up', async () => {
    await using directory = await temporaryDirectory();
    const faults = together(onPage(2, throttled('1')), onPage(3, refusing(503)));
    const reports = givenReports(someReports(5));
    await using service = await startSimulator({ vendor: 'ACME', apiKey: 'the-key', reports, faults });
    const settings = {
      service: { baseUrl: service.baseUrl, vendor: 'ACME' },
      export: { name: 'daily', size: 2, since: { overlap: 'PT15M' } },
      apiKeyEnv: 'KEY',
    };
    const end = await directoryExport(optionsFor(directory.path), settings).start({}, watching);
    if (end.status !== 'completed') throw new Error(`it ended as ${end.status}`);

    await using installation = openDirectory(optionsFor(directory.path));
    expect(await installation.exportNames()).toEqual(['daily']);
    const installed = await installation.open('daily');
    expect(installed.definition).toMatchObject({
      name: 'daily',
      request: { source: service.baseUrl, size: 2 },
      since: { from: 'watermark', overlapMs: 900_000 },
    });
    const { run, export: name } = end.result;
    const span = { export: name, run, startedAt: end.result.since };
    const incidents = await collect(installed.incidents(span));
    expect(incidents).toMatchObject([
      { kind: 'wait', page: 2, seconds: 1 },
      { kind: 'failed-attempt', page: 3, error: 'ServiceUnavailableError' },
    ] satisfies Partial<Incident>[]);
    expect(await installed.lastIncident(span)).toEqual(incidents.at(-1));
    const timings = (await collect(installed.log.entries(span))).map(({ timing }) => timing);
    for (const timing of timings)
      expect(timing).toEqual({ requestedAt: expect.any(String), latencyMs: expect.any(Number) });
  });

  it('knows whether a process is at work on an export', async () => {
    await using directory = await temporaryDirectory();
    await directoryExport(optionsFor(directory.path), { service: {}, export: { name: 'a' }, apiKeyEnv: 'KEY' }).start(
      {},
      watching,
    );
    await using installation = openDirectory(optionsFor(directory.path));
    const { executions } = await installation.open('a');
    expect(await executions.isRunning('local:x')).toBe(false);
    const lock = acquireExportLock(directory.path, 'a');
    expect(await executions.isRunning('local:x')).toBe(true);
    lock?.release();
    expect(await executions.isRunning('local:x')).toBe(false);
  });

  it('has its state open once, however often an export is looked at', async () => {
    await using directory = await temporaryDirectory();
    const settings = { service: {}, export: { name: 'a' }, apiKeyEnv: 'KEY' };
    await directoryExport(optionsFor(directory.path), settings).start({}, watching);
    await using installation = openDirectory(optionsFor(directory.path));
    await (await installation.open('a')).log.exportState('a');
    const openFiles = async () => (await readdir('/proc/self/fd')).length;
    const before = await openFiles();
    for (let look = 0; look < 20; look += 1) await (await installation.open('a')).log.exportState('a');
    expect(await openFiles()).toBeLessThan(before + 10);
  });

  it('says what to do where no export has run in it, or none of that name', async () => {
    await using directory = await temporaryDirectory();
    expect(() => openDirectory(optionsFor(join(directory.path, 'a b')))).toThrow(/Make a first run with npm start/);
    const settings = { service: {}, export: { name: 'a' }, apiKeyEnv: 'KEY' };
    const out = join(directory.path, "it's here");
    await directoryExport(optionsFor(out), settings).start({}, watching);
    await using installation = openDirectory(optionsFor(out));
    await expect(installation.open('b')).rejects.toThrow(/no export b in directory .* It holds a$/);
    expect(installation.option).toBe(`--out '${out.replace("'", "'\\''")}'`);
  });
});
