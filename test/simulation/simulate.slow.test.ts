import { describe, expect, it } from 'vitest';
import { runHistory } from './histories/history.ts';
import { regressionSeeds } from './histories/regression-seeds.ts';
import { runSimulate } from './run-simulate.ts';

describe('a simulated history', () => {
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
