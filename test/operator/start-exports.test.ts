/** Several exports are started at the same time, or one after the other; one that fails does not stop the others. */

import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import { asRunId } from '../../lib/core/model.ts';
import type { ExportTarget, Target, RunEnd, StartOptions, StartRequest } from '../../lib/target/target.ts';
import { type StartSettings, startExports } from '../../lib/operator/start-exports.ts';
import { aRunResult } from '../support/builders.ts';

/** A deployment whose exports start and end when the test says so. */
function aDeployment(names: readonly string[]) {
  const starts: { readonly name: string; readonly request: StartRequest; readonly options: StartOptions }[] = [];
  const ends = new Map(names.map((name) => [name, Promise.withResolvers<RunEnd>()]));
  const deployment: Target = {
    name: 'stack Reports in eu-central-1',
    option: '--stack Reports',
    exportNames: async () => names,
    openAll: async () => [],
    async open(name) {
      const end = ends.get(name);
      if (end === undefined) throw new ExportError('ConfigurationError', `There is no export ${name}`);
      const start: ExportTarget['start'] = (request, options) => {
        starts.push({ name, request, options });
        return end.promise;
      };
      return { name, start } as ExportTarget;
    },
    async [Symbol.asyncDispose]() {},
  };
  return {
    deployment,
    starts,
    started: () => starts.map(({ name }) => name),
    /** Tells the caller of the start that the execution has started. */
    announce: (name: string) => starts.find((each) => each.name === name)?.options.onStarted?.(`arn:execution:${name}`),
    end: async (name: string, end: RunEnd | Error) => {
      if (end instanceof Error) ends.get(name)?.reject(end);
      else ends.get(name)?.resolve(end);
      await settle();
    },
  };
}

const settle = async () => {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
};

function aContext({ isTerminal = false } = {}) {
  const interruption = new AbortController();
  const written = { stdout: '', stderr: '' };
  const stream = (name: keyof typeof written) => ({
    isTTY: isTerminal,
    columns: 100,
    write: (text: string) => (written[name] += text),
  });
  const env = { NO_COLOR: '1' };
  const context = {
    env,
    stdin: Readable.from([]),
    stdout: stream('stdout'),
    stderr: stream('stderr'),
    signal: interruption.signal,
    program: 'npx report-exporter',
  };
  return { context, written, interrupt: () => interruption.abort() };
}

const completed = (name: string): RunEnd => {
  const result = aRunResult({ export: name });
  return { status: 'completed', result, manifest: `s3://bucket/${result.manifest}` };
};
const failed = (name: string): RunEnd => ({
  status: 'failed',
  failed: {
    export: name,
    run: asRunId('20261120T020000Z-1f3a5c'),
    since: null,
    pages: 2,
    reports: 20,
    bytes: 2_000,
    error: 'RequestRejectedError',
    message: 'responded with 422\nfor page 3',
    resumable: true,
  },
});
const startedEnd = (name: string): RunEnd => ({ status: 'started', execution: `arn:execution:${name}`, run: null });
const options: StartSettings = { request: {}, json: false, follow: false, concurrent: true, command: 'start' };
const oneByOne: StartSettings = { ...options, follow: true, concurrent: false };
const withoutTimes = (text: string) => text.replaceAll(/^20\d\d-\d\d-\d\dT[\d:]{8}Z (?=\S)/gm, '');
const names = (count: number) => Array.from({ length: count }, (_, index) => `export-${index}`);
const jsonLines = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { export: string; status: string });

describe('starting exports of a stack', () => {
  it('starts eight at the same time, and the next ones as these have started', async () => {
    const { deployment, started, announce, end } = aDeployment(names(20));
    const { context, written } = aContext();
    const status = startExports(deployment, names(20), { ...options, request: { restart: true } }, context);
    await settle();
    expect(started()).toEqual(names(8));
    announce('export-3');
    await settle();
    expect(started()).toEqual(names(9));
    for (const name of names(20)) {
      announce(name);
      await end(name, startedEnd(name));
    }
    expect(await status).toBe(0);
    expect(written.stderr).toBe('');
    expect(written.stdout.split('\n').slice(-3)).toEqual([
      '20 exports: 20 started',
      'Watch them with: npx report-exporter status --stack Reports --watch',
      '',
    ]);
    for (const name of names(20)) expect(written.stdout).toContain(`Z Started: ${name} (arn:execution:${name})\n`);
  });

  it('passes the request to each, and how many are being followed', async () => {
    const { deployment, starts, announce, end } = aDeployment(names(3));
    const request = { restart: true };
    const status = startExports(deployment, names(3), { ...options, request, follow: true }, aContext().context);
    await settle();
    expect(starts.map((each) => [each.request, each.options.follow])).toEqual(Array(3).fill([request, true]));
    for (const name of names(3)) announce(name);
    const followers = () => starts[2]?.options.followers?.();
    expect(followers()).toBe(3);
    await end('export-0', completed('export-0'));
    expect(followers()).toBe(2);
    for (const name of names(3)) await end(name, completed(name));
    expect(await status).toBe(0);
  });

  it('does not let one that cannot be started stop the others', async () => {
    const { deployment, announce, end } = aDeployment(names(3));
    const { context, written } = aContext();
    const status = startExports(deployment, [...names(3), 'unknown'], options, context);
    await settle();
    announce('export-0');
    await end('export-0', startedEnd('export-0'));
    await end('export-1', new ExportError('ConfigurationError', 'Access denied'));
    announce('export-2');
    await end('export-2', startedEnd('export-2'));
    expect(await status).toBe(1);
    expect(written.stdout).toMatch(/\n4 exports: 2 failed, 2 started\nWatch them/);
    expect(withoutTimes(written.stderr).split('\n').toSorted()).toEqual([
      '',
      'Failed: export-1 (ConfigurationError: Access denied)',
      'Failed: unknown (ConfigurationError: There is no export unknown)',
    ]);
  });

  it('follows all to their ends: a line as each ends, and a table of all, the failed ones first', async () => {
    const all = ['daily', 'hourly', 'monthly', 'weekly'];
    const { deployment, announce, end } = aDeployment(all);
    const { context, written } = aContext();
    const status = startExports(deployment, all, { ...options, follow: true }, context);
    await settle();
    for (const name of all) announce(name);
    expect(written.stderr).toContain('Started: weekly (arn:execution:weekly)\n');
    await end('weekly', completed('weekly'));
    expect(written.stdout).toMatch(/^20\S+Z Completed: weekly \(3 pages, 250 reports, 123\.5 kB\)\n$/);
    await end('daily', failed('daily'));
    expect(written.stderr).toContain(
      'Failed: daily (after page 2: RequestRejectedError: responded with 422 for page 3)\n',
    );
    await end('monthly', { status: 'skipped', reason: 'it is running already' });
    await end('hourly', completed('hourly'));
    expect(await status).toBe(1);
    expect(written.stdout.replaceAll(/^20\S+Z /gm, '').split('\n')).toEqual([
      'Completed: weekly (3 pages, 250 reports, 123.5 kB)',
      'Skipped: monthly (it is running already)',
      'Completed: hourly (3 pages, 250 reports, 123.5 kB)',
      '',
      'EXPORT   STATUS     PAGES  REPORTS     BYTES  NOTE',
      'daily    failed         2       20      2 kB  after page 2: RequestRejectedError: responded with 42…',
      'monthly  skipped        0        0   0 bytes  it is running already',
      'hourly   completed      3      250  123.5 kB',
      'weekly   completed      3      250  123.5 kB',
      '',
      '4 exports: 1 failed, 1 skipped, 2 completed',
      '→ for details: npx report-exporter status --failed --stack Reports',
      '',
    ]);
  });

  it('prints only a JSON object per export on stdout with --json', async () => {
    const all = ['daily', 'weekly'];
    for (const follow of [true, false]) {
      const { deployment, announce, end } = aDeployment(all);
      const { context, written } = aContext();
      const status = startExports(deployment, [...all, 'unknown'], { ...options, json: true, follow }, context);
      await settle();
      for (const name of all) announce(name);
      await end('weekly', follow ? completed('weekly') : startedEnd('weekly'));
      await end('daily', follow ? failed('daily') : startedEnd('daily'));
      expect(await status).toBe(1);
      expect(jsonLines(written.stdout)).toMatchObject([
        { export: 'unknown', status: 'failed', error: { name: 'ConfigurationError' } },
        { export: 'weekly', status: follow ? 'completed' : 'started' },
        { export: 'daily', status: follow ? 'failed' : 'started' },
      ]);
      expect(written.stderr).toContain('3 exports: ');
    }
  });

  it('starts no more after an interruption, and says which runs are still in progress', async () => {
    const { deployment, started, announce, end } = aDeployment(names(10));
    const { context, written, interrupt } = aContext();
    const status = startExports(deployment, names(10), { ...options, follow: true }, context);
    await settle();
    announce('export-0');
    await settle();
    interrupt();
    for (const name of started()) await end(name, startedEnd(name));
    expect(await status).toBe(130);
    expect(started()).toEqual(names(9));
    expect(written.stdout).toContain('In progress: export-0 (arn:execution:export-0)\n');
    expect(written.stdout).toContain('Not started: export-9\n');
    expect(written.stdout).toContain('\n10 exports: 1 not started, 9 started\nWatch them with: ');
  });

  it('shows on a terminal how many runs are in progress, and clears that line before others', async () => {
    const { deployment, announce, end } = aDeployment(['daily', 'weekly']);
    const { context, written } = aContext({ isTerminal: true });
    const status = startExports(deployment, ['daily', 'weekly'], { ...options, follow: true }, context);
    await settle();
    announce('daily');
    expect(written.stderr).toContain('\r\x1b[K1 run of 2 in progress · 0 pages');
    await end('daily', completed('daily'));
    expect(written.stderr).toMatch(/\r\x1b\[K$/);
    announce('weekly');
    await end('weekly', completed('weekly'));
    expect(await status).toBe(0);
  });
});

describe('running exports of a directory', () => {
  it('runs one after the other, with a line as each ends, and summarizes all', async () => {
    const all = ['daily', 'monthly', 'weekly'];
    const { deployment, started, end } = aDeployment(all);
    const { context, written } = aContext();
    const status = startExports(deployment, all, oneByOne, context);
    await settle();
    expect(started()).toEqual(['daily']);
    await end('daily', failed('daily'));
    expect(started()).toEqual(['daily', 'monthly']);
    await end('monthly', completed('monthly'));
    await end('weekly', new ExportError('ConfigurationError', 'The settings are invalid'));
    expect(await status).toBe(1);
    expect(withoutTimes(written.stdout)).toMatch(/^Completed: monthly \(3 pages, .*\)\n\nEXPORT /);
    expect(written.stdout.split('\n').slice(-9)).toEqual([
      '',
      'EXPORT   STATUS     PAGES  REPORTS     BYTES  NOTE',
      'daily    failed         2       20      2 kB  after page 2: RequestRejectedError: responded with 42…',
      'weekly   failed         0        0   0 bytes  ConfigurationError: The settings are invalid',
      'monthly  completed      3      250  123.5 kB',
      '',
      '3 exports: 2 failed, 1 completed',
      '→ for details: npx report-exporter status --failed --stack Reports',
      '',
    ]);
    expect(withoutTimes(written.stderr).split('\n')).toEqual([
      'Failed: daily (after page 2: RequestRejectedError: responded with 422 for page 3)',
      '  Run again to resume after page 2.',
      'Failed: weekly (ConfigurationError: The settings are invalid)',
      '',
    ]);
  });

  it('shows a line for each end, with its time and its run, if it is quiet', async () => {
    const all = ['daily', 'weekly', 'monthly', 'yearly'];
    const { deployment, starts, end } = aDeployment(all);
    const { context, written, interrupt } = aContext();
    const status = startExports(deployment, all, { ...oneByOne, quiet: true }, context);
    await settle();
    starts[0]?.options.notify('Using a simulated service');
    const result = aRunResult({ export: 'daily' });
    await end('daily', { status: 'completed', result, manifest: null });
    await end('weekly', failed('weekly'));
    interrupt();
    await end('monthly', new ExportError('ConfigurationError', 'OTHER_KEY is not set\nCA is not set'));
    expect(await status).toBe(130);
    const shown = (text: string) =>
      text
        .replaceAll(/^20\d\d-\d\d-\d\dT[\d:]{8}Z (?=\S)/gm, 'TIME ')
        .split('\n')
        .slice(0, -1);
    expect(shown(written.stdout)).toEqual([
      `TIME ${result.run} Completed: daily (3 pages, 250 reports, 123.5 kB)`,
      'TIME – Not started: yearly',
      'TIME 4 exports: 2 failed, 1 not started, 1 completed',
    ]);
    expect(shown(written.stderr)).toEqual([
      'TIME 20261120T020000Z-1f3a5c Failed: weekly (after page 2: RequestRejectedError: responded with 422 for page 3)',
      'TIME – Failed: monthly (ConfigurationError: OTHER_KEY is not set CA is not set)',
    ]);
  });

  it('stops all at an interruption', async () => {
    const all = ['daily', 'weekly'];
    const { deployment, started, end } = aDeployment(all);
    const { context, written, interrupt } = aContext();
    const status = startExports(deployment, all, { ...oneByOne, json: true }, context);
    await settle();
    interrupt();
    await end('daily', { status: 'interrupted' });
    expect(await status).toBe(130);
    expect(started()).toEqual(['daily']);
    expect(jsonLines(written.stdout)).toMatchObject([
      { export: 'daily', status: 'interrupted' },
      { export: 'weekly', status: 'not-started' },
    ]);
    expect(written.stderr).toContain('2 exports: 1 interrupted, 1 not started\n');
  });
});

describe('starting a single export', () => {
  it('shows its summary, and exits as interrupted if it is followed but not to its end', async () => {
    for (const follow of [true, false]) {
      const { deployment, end } = aDeployment(['daily']);
      const { context, written } = aContext();
      const status = startExports(deployment, ['daily'], { ...options, follow }, context);
      await settle();
      await end('daily', startedEnd('daily'));
      expect(await status).toBe(follow ? 130 : 0);
      expect(withoutTimes(written.stdout)).toBe(
        'Export daily has been started.\n  execution  arn:execution:daily\nWatch it with: npx report-exporter status daily --stack Reports --watch\n',
      );
    }
  });

  it('is wrong usage if it is refused, with what the help is', async () => {
    const { context, written } = aContext();
    expect(await startExports(aDeployment([]).deployment, ['daily'], { ...options, json: true }, context)).toBe(2);
    expect(written.stderr).toBe('Error: There is no export daily\nFor help: npx report-exporter start --help\n');
    expect(jsonLines(written.stdout)).toMatchObject([{ export: 'daily', status: 'failed' }]);
  });
});
