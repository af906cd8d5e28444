import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { runHistory } from './histories/history.ts';
import { regressionSeeds } from './histories/regression-seeds.ts';
import { findFirstFaults } from './pairs/pairs.ts';
import { runSimulate } from './run-simulate.ts';
import { formatEventLog } from './world/event-log.ts';

describe('a simulated history', () => {
  it.each(regressionSeeds)('violates no invariant where once $defect (seed $seed)', async ({ seed, pages }) => {
    expect((await runHistory({ seed, pages })).violation).toBeUndefined();
  });

  it.each(['1', '2', '3'])('has the same event log every time (seed %s)', async (seed) => {
    const [one, other] = [
      await runHistory({ seed, pages: 6, recordLog: true }),
      await runHistory({ seed, pages: 6, recordLog: true }),
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

  it('prints the statistics of many histories as JSON', async () => {
    const { status, stdout } = await runSimulate(['--seed', '1', '--runs', '6', '--pages', '3', '--json']);
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ seed: 1, histories: 6, violations: [], faults: expect.any(Object) });
  });

  it('reports every invalid option, and exits with status 2', async () => {
    const { status, stdout, stderr } = await runSimulate(['--seed', 'x', '--runs', '0', '--pages', '1001']);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    for (const option of ['--seed', '--runs', '--pages']) expect(stderr).toContain(`${option} must be an integer`);
    expect((await runSimulate(['--sead'])).status).toBe(2);
  });

  it('prints the violation, the shrunk history and how to replay it when the protocol is broken', async () => {
    const { status, stdout } = await runSimulate(
      ['--seed', '1', '--runs', '100', '--pages', '6'],
      'a run with a cursor cycle continues',
    );
    expect(status).toBe(1);
    expect(stdout).toMatch(/^FAILED at seed \d+: /m);
    expect(stdout).toMatch(/^Shrunk to --pages \d+ and \d+ of \d+ faults in \d+ replays:$/m);
    expect(stdout).toMatch(/ {2}VIOLATION +/);
    expect(stdout.trimEnd()).toMatch(/To replay: npm run simulate -- --seed \d+ --pages 6$/);
  });
});

describe('npm run simulate -- --pairs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'pairs-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  const small = '2-pages-1-in-flight';
  /** No single fault of a small history shows it: a run must fail after another execution has replaced it. */
  const mutant = 'FailRun changes a run of another execution';

  it('finds what no single fault shows, although it is interrupted, and prints how to replay it', async () => {
    const all = (await findFirstFaults(small)).map(({ fault }) => fault);
    const rejected = all.find((fault) => fault.startsWith('service-rejects-key ')) ?? '';
    const shortest = all.find((fault) => fault.startsWith('event-rejected ')) ?? '';
    const args = ['--pairs', '--small', small, '--fault', rejected, '--fault', shortest];

    // Its few pairs are done while those of the other fault are running.
    const state = join(folder, 'interrupted.jsonl');
    const hasProgress = () => existsSync(state) && readFileSync(state, 'utf8').includes('"kind":"done"');
    const interrupted = await runSimulate([...args, '--state', state], mutant, (child) => {
      const interruptIfDone = setInterval(() => {
        if (!hasProgress()) return;
        clearInterval(interruptIfDone);
        child.kill('SIGINT');
      }, 5);
      child.on('exit', () => clearInterval(interruptIfDone));
    });
    expect(interrupted.status).toBe(130);
    expect(interrupted.stdout).toContain(`To continue: npm run simulate -- --pairs --small ${small}`);
    expect(interrupted.stdout).toMatch(/ \d+ of \d+ pairs done, /);

    const stale = await runSimulate([...args, '--state', state]);
    expect(stale).toMatchObject({ status: 2, stdout: '' });
    expect(stale.stderr).toContain(
      `${state} has the progress of another version of the code. Delete it to begin again`,
    );

    const resumed = await runSimulate([...args, '--json', '--state', state], mutant);
    expect(resumed.status).toBe(1);
    expect(resumed.stderr).toContain(`Continuing what ${state} has recorded`);
    expect(existsSync(state)).toBe(false);
    const { violations, ...counts } = JSON.parse(resumed.stdout);
    expect(counts).toMatchObject({ slice: '1/1', firstFaults: 2, counted: 2, isComplete: true });
    expect(counts.done).toBe(counts.pairs);
    expect(violations.length).toBeGreaterThan(0);
    const [{ invariant, faults }] = violations;
    expect(faults).toEqual([rejected, expect.any(String)]);
    // The violation may have been found before the interruption.
    const printed = interrupted.stdout + interrupted.stderr + resumed.stderr;
    expect(printed).toContain(`FAILED in ${small}: ${invariant}`);
    expect(printed).toContain('It takes 2 of 2 faults:');
    expect(printed).toContain(`--fault '${faults[1]}'`);

    const replay = ['--small', small, ...faults.flatMap((fault: string) => ['--fault', fault])];
    const replayed = await runSimulate(replay, mutant);
    expect(replayed.status).toBe(1);
    expect(replayed.stdout).toContain(`FAILED: ${invariant}`);
    for (const fault of faults) {
      expect(await runSimulate(['--small', small, '--fault', fault, '--json'], mutant)).toMatchObject({ status: 0 });
    }
    expect((await runSimulate(replay)).status).toBe(0);
  });

  it('runs one slice, and reports invalid options', async () => {
    const [first] = await findFirstFaults('2-pages-4-in-flight');
    const args = ['--pairs', '--small', '2-pages-4-in-flight', '--fault', first?.fault ?? ''];
    const { status, stdout } = await runSimulate([...args, '--slice', '2/100', '--state', join(folder, 'slice.jsonl')]);
    expect(status).toBe(0);
    expect(stdout).toContain('Only slice 2/100. To repeat it: npm run simulate -- --pairs --small 2-pages-4-in-flight');
    expect(stdout).toMatch(/\n1 first fault, (\d+) of \1 pairs done, in /);
    const invalid = await runSimulate(['--pairs', '--slice', '3/2', '--max-failures', 'x']);
    expect(invalid).toMatchObject({ status: 2, stdout: '' });
    for (const option of ['--slice', '--max-failures']) expect(invalid.stderr).toContain(`${option} must be`);
    const unknown = ['--small', small, '--fault', 'killed by a cat'];
    for (const [extra, message] of [
      [['--state', join(folder, 'unknown.jsonl'), '--pairs'], 'cannot occur in'],
      [[], 'did not occur in'],
    ] as const) {
      const result = await runSimulate([...unknown, ...extra]);
      expect(result.status).toBe(2);
      expect(result.stderr).toContain(`Error: killed by a cat ${message} ${small}`);
    }
  });
});
