import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runHistory } from './histories/history.ts';
import { regressionSeeds } from './histories/regression-seeds.ts';
import { shrink } from './histories/shrink.ts';
import { invariants } from './invariants/invariant-names.ts';
import { mutants } from './mutants/mutants.ts';
import { runSimulate } from './run-simulate.ts';
import { formatEventLog } from './world/event-log.ts';
import { faultKinds } from './world/faults.ts';
import { faultName } from './world/world.ts';

const seeds = (count: number, first = 1) => Array.from({ length: count }, (_, index) => String(first + index));

describe('a simulated history', () => {
  it.each(seeds(3))('has the same event log every time (seed %s)', async (seed) => {
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

  it('has only the faults that are allowed', async () => {
    const { injectedFaults } = await runHistory({ seed: '7', pages: 6 });
    const names = injectedFaults.map(faultName);
    expect(names.length).toBeGreaterThan(3);
    const withoutFaults = await runHistory({ seed: '7', pages: 6, allowedFaults: new Set() });
    expect(withoutFaults.injectedFaults).toEqual([]);
    expect(withoutFaults.violation).toBeUndefined();
    const [first = ''] = names;
    const withOneFault = await runHistory({ seed: '7', pages: 6, allowedFaults: new Set([first]) });
    expect(withOneFault.injectedFaults.map(faultName)).toEqual([first]);
  });

  it.each(seeds(6, 1_000))('violates no invariant (seed %s)', async (seed) => {
    const { violation, stats } = await runHistory({ seed, pages: 5 });
    expect(violation).toBeUndefined();
    expect(stats.runsPublished).toBeGreaterThan(0);
  });

  it.each(regressionSeeds)('violates no invariant where once $defect (seed $seed)', async ({ seed, pages }) => {
    expect((await runHistory({ seed, pages })).violation).toBeUndefined();
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
      'an error ends pagination',
    );
    expect(status).toBe(1);
    expect(stdout).toMatch(/^FAILED at seed \d+: /m);
    expect(stdout).toMatch(/^Shrunk to --pages \d+ and \d+ of \d+ faults in \d+ replays:$/m);
    expect(stdout).toMatch(/ {2}VIOLATION +/);
    expect(stdout.trimEnd()).toMatch(/To replay: npm run simulate -- --seed \d+ --pages 6$/);
  });
});

describe('shrinking', () => {
  it('leaves a history without a violation as it is', async () => {
    const plan = { seed: '7', pages: 2 };
    const { history } = await shrink(plan, await runHistory(plan));
    expect(history.violation).toBeUndefined();
  });
});

describe('docs/simulation.md', () => {
  const page = readFileSync(new URL('../../docs/simulation.md', import.meta.url), 'utf8');

  it.each(faultKinds)('describes the fault %s', (kind) => {
    expect(page).toContain(`\`${kind}\``);
  });

  it.each(invariants)('lists the invariant "%s"', (invariant) => {
    expect(page).toContain(`\n- ${invariant}\n`);
  });

  it('states the number of mutants', () => {
    expect(page).toContain(`# ${mutants.length} ways to break the protocol`);
    expect(page).toContain(`breaks the protocol in\n${mutants.length} ways`);
  });
});
