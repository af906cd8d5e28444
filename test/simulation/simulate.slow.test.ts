import { describe, expect, it } from 'vitest';
import { runHistory } from './histories/history.ts';
import { findFirstFaults } from './histories/pairs.ts';
import { regressionSeeds } from './histories/regression-seeds.ts';
import { runSimulate } from './run-simulate.ts';
import { formatEventLog } from './world/event-log.ts';

describe('a simulated history', () => {
  it.each(regressionSeeds)(
    'violates no invariant where once $defect (seed $seed)',
    async ({ seed, pages, days, jobs = false }) => {
      expect((await runHistory({ seed, pages, days, jobs })).violation).toBeUndefined();
    },
  );

  // In the last one, a response in gzip is no page: its beginning was decompressed in a thread, which virtual time does
  // not await.
  const plans = [
    { seed: '1', pages: 6 },
    { seed: '2', pages: 6 },
    { seed: '3', pages: 6 },
    { seed: '40956832052500', pages: 12 },
  ];

  it.each(plans)('has the same event log every time (seed $seed)', async (plan) => {
    const [one, other] = [
      await runHistory({ ...plan, recordLog: true }),
      await runHistory({ ...plan, recordLog: true }),
    ];
    expect(one.logLines.length).toBeGreaterThan(100);
    expect(formatEventLog(other.logLines, other.start)).toBe(formatEventLog(one.logLines, one.start));
    expect(other.stats).toEqual(one.stats);
  });

  it('is the same whether or not its event log is recorded', async () => {
    const [recorded, unrecorded] = [
      await runHistory({ seed: '7', pages: 6, recordLog: true }),
      await runHistory({ seed: '7', pages: 6 }),
    ];
    expect(unrecorded.injectedFaults).toEqual(recorded.injectedFaults);
    expect(unrecorded.stats).toEqual(recorded.stats);
    expect(unrecorded.logLines).toEqual([]);
  });
});

describe('npm run simulate', () => {
  it('prints the event log of a single seed, and that all invariants hold', async () => {
    const { status, stdout } = await runSimulate(['--seed', '7', '--pages', '2']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d\.\d{3} {2}scheduler +starts reports-1 with \{"scheduledTime":/m);
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d\.\d{3} {2}FAULT +/m);
    expect(stdout.trimEnd()).toMatch(/\n\d+ faults, \d+ runs published\.\nAll invariants hold\.$/);
  });

  it('prints the statistics of many histories', async () => {
    const { status, stdout } = await runSimulate(['--seed', '1', '--runs', '6', '--pages', '3']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^6 histories, [\d,]+ events: .*\n[\d,]+ faults of \d+ kinds: .*\nAll invariants hold\.$/m);
  });

  it('reports every invalid option, and exits with status 2', async () => {
    const { status, stdout, stderr } = await runSimulate(['--seed', 'x', '--runs', '0', '--pages', '1001']);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    for (const option of ['--seed', '--runs', '--pages']) expect(stderr).toContain(`${option} must be an integer`);
    expect((await runSimulate(['--sead'])).status).toBe(2);
  });

  it('prints the violation, the shrunk history and how to replay it when the protocol is broken', async () => {
    const { status, stdout } = await runSimulate(
      ['--seed', '1', '--runs', '20', '--pages', '4'],
      'the watermark moves when a run starts',
    );
    expect(status).toBe(1);
    expect(stdout).toMatch(/^FAILED at seed \d+: /m);
    expect(stdout).toMatch(/^Shrunk to --pages \d+ and \d+ of \d+ faults in \d+ replays:$/m);
    expect(stdout).toMatch(/ {2}VIOLATION +/);
    expect(stdout.trimEnd()).toMatch(/To replay: npm run simulate -- --seed \d+ --pages 4$/);
  });
});

describe('npm run simulate -- --pairs', () => {
  const small = '2-pages-1-in-flight';
  /** No single fault of a small history shows it: a run must fail after another execution has replaced it. */
  const mutant = 'FailRun changes a run of another execution';

  it('finds what no single fault shows, and prints how to replay it', async () => {
    const rejected = (await findFirstFaults(small)).find((fault) => fault.startsWith('service-rejects-key ')) ?? '';
    const found = await runSimulate(['--pairs', '--small', small, '--fault', rejected], mutant);
    expect(found.status).toBe(1);
    expect(found.stdout).toContain(`FAILED at seed ${small}: an export has one active run`);
    expect(found.stdout).toContain('Shrunk to --pages 1 and 2 of 2 faults');
    const [, command = ''] = /^To replay: npm run simulate -- (.*)$/m.exec(found.stdout) ?? [];
    const faults = [...command.matchAll(/--fault '([^']*)'/g)].map(([, fault = '']) => fault);
    expect(faults).toEqual([rejected, expect.any(String)]);

    const replay = ['--small', small, ...faults.flatMap((fault) => ['--fault', fault])];
    expect(await runSimulate(replay, mutant)).toMatchObject({ status: 1 });
    expect((await runSimulate(replay)).status).toBe(0);
  });

  it('runs one slice', async () => {
    const fault = (await findFirstFaults(small)).find((each) => each.startsWith('event-rejected ')) ?? '';
    const { status, stdout } = await runSimulate(['--pairs', '--small', small, '--fault', fault, '--slice', '1/2']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/\nAll invariants hold\.\n$/);
  });

  it.each([
    [['--pairs', '--slice', '4/3'], '--slice must be'],
    [['--pairs', '--small', 'tiny'], '--small must be one of 2-pages-1-in-flight'],
    [['--small', small, '--slice', '1/2'], '--slice requires --pairs'],
    [['--pairs', '--seed', '5'], '--pairs and --small exclude --seed'],
    [['--pairs', '--small', small, '--fault', 'killed by a cat'], 'No such fault can occur'],
    [['--small', small, '--fault', 'killed by a cat'], 'killed by a cat did not occur'],
  ])('reports invalid options: %j', async (args, message) => {
    expect(await runSimulate(args)).toMatchObject({ status: 2, stderr: expect.stringContaining(message) });
  });
});
