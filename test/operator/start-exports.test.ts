/** Several exports are started at the same time, or one after the other; one that fails does not stop the others. */

import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import { ExportError } from '../../lib/core/errors.ts';
import { asRunId, type ExportDefinition, type FailedRun, type RunEnd } from '../../lib/core/model.ts';
import type { ExportEvent } from '../../lib/core/ports.ts';
import type { StartOptions, Target } from '../../lib/operator/target.ts';
import type { StartRequest } from '../../lib/core/start/start-input.ts';
import { startExports as startOn, type StartSettings } from '../../lib/operator/start-exports.ts';
import type { RequestedStart } from '../../lib/operator/bounded-start.ts';
import type { CommandContext } from '../../lib/operator/context.ts';
import { anExportDefinition, aRunResult, at } from '../support/builders.ts';

/** Exports that start and end when the test says so. */
function someExports(names: readonly string[], changes: Partial<ExportDefinition> = {}) {
  const starts: { readonly name: string; readonly request: StartRequest; readonly options: StartOptions }[] = [];
  const begun = new Map(names.map((name) => [name, Promise.withResolvers<StartOptions>()]));
  const ends = new Map(names.map((name) => [name, Promise.withResolvers<RunEnd>()]));
  const startable = {
    option: '--stack Reports',
    async open(name: string) {
      const end = ends.get(name);
      if (end === undefined) throw new ExportError('ConfigurationError', `There is no export ${name}\nChoose another`);
      return {
        definition: anExportDefinition({ name, ...changes }),
        log: { async *boundedStates() {} },
        start(request: StartRequest, options: StartOptions) {
          starts.push({ name, request, options });
          begun.get(name)?.resolve(options);
          return end.promise;
        },
      };
    },
  };
  /** Once the export has started. */
  const startOf = async (name: string) => await begun.get(name)?.promise;
  return {
    startable,
    starts,
    started: () => starts.map(({ name }) => name),
    /** Tells the caller of the start that the execution has started. */
    announce: async (name: string) => (await startOf(name))?.onStarted?.(`arn:execution:${name}`),
    emit: async (name: string, event: ExportEvent) => (await startOf(name))?.emit(event),
    end: (name: string, end: RunEnd | Error): void => {
      if (end instanceof Error) ends.get(name)?.reject(end);
      else ends.get(name)?.resolve(end);
    },
  };
}

/** The settings, and options of the command. */
type Settings = StartSettings & { readonly json?: boolean; readonly quiet?: boolean };
const startExports = (
  startable: object,
  names: readonly string[],
  { json, quiet, ...settings }: Settings,
  context: CommandContext,
) => startOn(startable as Target, names, settings, { ...context, options: { json, quiet } });

function aContext({ isTerminal = false } = {}) {
  const interruption = new AbortController();
  const written = { stdout: '', stderr: '' };
  const stream = (name: keyof typeof written) => ({
    isTTY: isTerminal,
    columns: 100,
    write: (text: string) => (written[name] += text),
  });
  const context = {
    env: { NO_COLOR: '1' },
    stdin: Readable.from([]),
    stdout: stream('stdout'),
    stderr: stream('stderr'),
    signal: interruption.signal,
    runtime: systemRuntime,
    program: 'npx --no -- report-exporter',
  };
  return { context, written, interrupt: () => interruption.abort() };
}

const run = asRunId('20261120T020000Z-1f3a5cb2d407');
const completed = (name: string, changes = {}): RunEnd => {
  const result = aRunResult({ export: name, run, ...changes });
  return { status: 'completed', result, manifest: result.manifest && `s3://bucket/${result.manifest}` };
};
const failed = (changes: Partial<FailedRun> = {}): RunEnd => ({
  status: 'failed',
  failed: {
    export: 'daily',
    run,
    since: null,
    pages: 2,
    reports: 20,
    bytes: 2_000,
    error: 'RequestRejectedError',
    message: 'responded with 422\nfor page 3',
    resumable: true,
    ...changes,
  },
});
const startedEnd = (name: string): RunEnd => ({ status: 'started', execution: `arn:execution:${name}`, run: null });
const concurrently: Settings = { request: {}, follow: false, concurrent: true, command: 'start' };
const oneByOne: Settings = { ...concurrently, follow: true, concurrent: false };
/** Without the times, which lines that go to a pipe begin with. */
const linesOf = (text: string) =>
  text
    .replaceAll(/^20\d\d-\d\d-\d\dT[\d:]{8}Z (?=\S)/gm, '')
    .split('\n')
    .slice(0, -1);
const names = (count: number) => Array.from({ length: count }, (_, index) => `export-${index}`);
const jsonLines = (text: string) => linesOf(text).map((line) => JSON.parse(line) as object);

describe('starting exports of a stack', () => {
  it('starts eight at the same time, and the next ones as these have started', async () => {
    const { startable, starts, started, announce, end } = someExports(names(20));
    const { context, written } = aContext();
    const request = { restart: true };
    const status = startExports(startable, names(20), { ...concurrently, request }, context);
    await expect.poll(started).toEqual(names(8));
    await announce('export-3');
    await expect.poll(started).toEqual(names(9));
    for (const name of names(20)) {
      await announce(name);
      end(name, startedEnd(name));
    }
    expect(await status).toBe(0);
    expect(starts.map((each) => each.request)).toEqual(Array(20).fill(request));
    expect(linesOf(written.stdout).slice(-3)).toEqual([
      'In progress: export-19',
      '  execution  arn:execution:export-19',
      '20 exports: 20 in progress',
    ]);
    expect(written.stderr).toBe('→ to see how it goes: npx --no -- report-exporter status --stack Reports\n');
  });

  it('passes on how many runs are in progress', async () => {
    const { startable, starts, announce, end } = someExports(names(3));
    const status = startExports(startable, names(3), { ...concurrently, follow: true }, aContext().context);
    for (const name of names(3)) await announce(name);
    const followers = () => starts[2]?.options.followers?.();
    expect(followers()).toBe(3);
    end('export-0', completed('export-0'));
    await expect.poll(followers).toBe(2);
    for (const name of names(3)) end(name, completed(name));
    expect(await status).toBe(0);
  });

  it('starts no more after an interruption, and says which runs are still in progress', async () => {
    const { startable, started, announce, end } = someExports(names(10));
    const { context, written, interrupt } = aContext();
    const status = startExports(startable, names(10), { ...concurrently, follow: true }, context);
    await announce('export-0');
    await expect.poll(started).toEqual(names(9));
    interrupt();
    for (const name of started()) end(name, startedEnd(name));
    expect(await status).toBe(130);
    expect(started()).toEqual(names(9));
    expect(linesOf(written.stdout)).toContain('In progress: export-0');
    expect(linesOf(written.stdout)).toContain('Not started: export-9');
    expect(linesOf(written.stdout).at(-1)).toBe('10 exports: 1 not started, 9 in progress');
  });
});

describe('running exports of a directory', () => {
  it('stops all at an interruption', async () => {
    const all = ['daily', 'weekly'];
    const { startable, started, end } = someExports(all);
    const { context, written, interrupt } = aContext();
    const status = startExports(startable, all, { ...oneByOne, json: true }, context);
    await expect.poll(started).toEqual(['daily']);
    interrupt();
    end('daily', { status: 'interrupted' });
    expect(await status).toBe(130);
    expect(started()).toEqual(['daily']);
    expect(jsonLines(written.stdout)).toMatchObject([
      { export: 'daily', status: 'interrupted' },
      { export: 'weekly', status: 'not-started' },
    ]);
    expect(written.stderr).toContain('2 exports: 1 interrupted, 1 not started\n');
  });
});

describe('the end of a start', () => {
  const since = at('2026-01-01T00:00:00Z');
  const began = { event: 'run-resumed', export: 'daily', run, since, executionNumber: 1, page: 8 } as const;
  const seven = { ...began, pages: 7, reports: 70, bytes: 7_000 };
  const sliced = { ...seven, pages: 418, slices: { done: 63, count: 64 } };
  const unknown = { run: null, pages: 0, reports: 0, bytes: 0 };
  const diskFull = { ...unknown, error: 'ConfigurationError', message: 'the disk is full' };
  const failedAfter7 = `Failed: daily (run ${run}, 7 pages, 70 reports, 7 kB)`;
  const status = '→ to see how it goes: npx --no -- report-exporter status daily --stack Reports';
  const bounds = { since, until: at('2026-02-01T00:00:00Z'), bounded: true };

  it.each<[string, ExportEvent | undefined, RunEnd | Error, number, readonly string[]]>([
    [
      'of a bounded run with slices, whose address is printable',
      sliced,
      { ...completed('daily', bounds), manifest: 'out\x1b[31m/m' } as RunEnd,
      0,
      [
        'Completed: daily (3 pages, 250 reports, 123.5 kB in 0.0 s)',
        `  run        ${run}`,
        '  slices     64',
        '  period     bounded run from 2026-01-01T00:00:00Z to 2026-02-01T00:00:00Z',
        '  manifest   out[31m/m',
      ],
    ],
    [
      'that is no longer followed',
      seven,
      startedEnd('daily'),
      130,
      ['In progress: daily', `  run        ${run}`, '  execution  arn:execution:daily', status],
    ],
    [
      'whose failure could not be recorded',
      seven,
      failed(diskFull),
      1,
      [
        failedAfter7,
        '  ConfigurationError: the disk is full',
        '  Correct this, then run again: the run resumes after page 7.',
      ],
    ],
    [
      'of a parent that fails',
      { ...seven, slices: { done: 63, count: 64, parents: { gone: 0, skipped: 0 } } },
      failed({ ...diskFull, message: 'no page 1 of parent 7' }),
      1,
      [
        failedAfter7,
        '  ConfigurationError: no page 1 of parent 7',
        '  Correct this, then run again: the run resumes after 7 pages, with 63 of 64 parents done. ' +
          'To export without this parent, add --skip-parent with its value, which status shows.',
      ],
    ],
    [
      'whose run another execution may have published',
      seven,
      failed({ ...diskFull, error: 'EventBridge.FailedEntry', resumable: false }),
      1,
      [failedAfter7, '  EventBridge.FailedEntry: the disk is full', status],
    ],
    ['that AWS refuses', undefined, new Error('Too many'), 1, ['Failed: daily', '  Error: Too many']],
  ])('%s', async (_, event, ended, exitStatus, lines) => {
    const { startable, emit, end } = someExports(['daily']);
    const { context, written } = aContext();
    const status = startExports(startable, ['daily'], { ...oneByOne, quiet: true }, context);
    if (event !== undefined) await emit('daily', event);
    end('daily', ended);
    expect(await status).toBe(exitStatus);
    // On a busy machine, it takes longer.
    const shown = linesOf(written.stdout + written.stderr).map((line) => line.replace(/ in \d+\.\d s\)/, ' in 0.0 s)'));
    expect(shown).toEqual(lines);
  });
});

it('exports start after that of their parents, which is not started unless it is named', async () => {
  const names = ['grandchildren', 'children', 'list'];
  const { startable, started, end } = someExports([...names, 'other']);
  const parentsOf: Readonly<Record<string, string>> = { grandchildren: 'children', children: 'list', list: 'other' };
  const rest = { id: '/id', also: {}, where: [], inHeaders: [], hasCoverage: false, listsChanges: false };
  const open = async (name: string) => {
    const parents = { export: parentsOf[name] ?? '', ...rest };
    return { ...(await startable.open(name)), definition: anExportDefinition({ name, parents }) };
  };
  for (const name of [...names, 'other']) end(name, completed(name));
  expect(await startExports({ ...startable, open }, names, oneByOne, aContext().context)).toBe(0);
  expect(started()).toEqual(['list', 'children', 'grandchildren']);
});

describe('a period with --each', () => {
  const since = at('2026-01-01T00:00:00Z');
  const until = at('2026-04-01T00:00:00Z');
  const series = { since, until, each: 'month', parallel: 2 };
  const dates = { unitMs: 1_000, zone: 'UTC', upperBound: 'date.lt' };
  const [january, february] = ['2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z'].map(at);

  /** The start of each bounded run ends as `endOf` says. */
  async function startSeries(request: RequestedStart, endOf: (start: StartRequest) => RunEnd, zone = 'UTC') {
    const requests: StartRequest[] = [];
    const open = async () => ({
      definition: anExportDefinition({ name: 'daily', dates: { ...dates, zone } }),
      log: { async *boundedStates() {} },
      start: async (start: StartRequest) => {
        requests.push(start);
        return endOf(start);
      },
    });
    const { context, written } = aContext();
    const settings = { ...oneByOne, request };
    const status = await startExports({ option: '--stack Reports', open }, ['daily'], settings, context);
    return { requests, written, status };
  }

  it.each<[RunEnd, boolean, number]>([
    [failed(), false, 1],
    [failed(), true, 1],
    [{ status: 'skipped', reason: 'execution x is still exporting run y' }, false, 130],
    [{ status: 'interrupted' }, false, 130],
  ])(
    'ends with the first run that does not complete, and says what is left: %j (again: %s)',
    async (end, again, exit) => {
      const { requests, written, status } = await startSeries({ ...series, again }, (start) =>
        start.since === january ? completed('daily', { ...start, bounded: true }) : end,
      );
      expect(requests).toHaveLength(2);
      expect(status).toBe(exit);
      const from = again ? ` with --since ${february}` : '';
      expect(linesOf(written.stdout + written.stderr)).toContain(
        `  Left: ${february} to ${until}. To continue, run the same command again${from}.`,
      );
    },
  );

  it('says what is left by the instants at which days begin', async () => {
    const days = { ...series, days: ['since', 'until'] as const };
    const { written } = await startSeries(days, () => ({ status: 'interrupted' }), 'Europe/Berlin');
    expect(written.stdout + written.stderr).toContain('Left: 2025-12-31T23:00:00Z to 2026-03-31T22:00:00Z.');
  });
});
