/** That the simulation is what it says: repeatable, able to be left out of, and calm where nothing strikes. */

import { describe, expect, it } from 'vitest';
import { timelineOf } from './histories/event-log.ts';
import { makeHistory } from './histories/history.ts';
import { failedSeeds } from './histories/regression-seeds.ts';
import { shrink } from './histories/shrink.ts';
import { run } from './run-simulate.ts';
import { strikeName } from './world/world.ts';

const theSeeds = (count: number, first = 1) => Array.from({ length: count }, (_, index) => String(first + index));

describe('a simulated history', () => {
  it.each(theSeeds(3))('is the same every time, line by line (seed %s)', async (seed) => {
    const [one, other] = [
      await makeHistory({ seed, pages: 6, writeDown: true }),
      await makeHistory({ seed, pages: 6, writeDown: true }),
    ];
    expect(one.lines.length).toBeGreaterThan(100);
    expect(timelineOf(other)).toBe(timelineOf(one));
    expect(other.figures).toEqual(one.figures);
  });

  it('is the same whether or not it is written down', async () => {
    const [told, untold] = [
      await makeHistory({ seed: '7', pages: 6, writeDown: true }),
      await makeHistory({ seed: '7', pages: 6 }),
    ];
    expect(untold.strikes).toEqual(told.strikes);
    expect(untold.figures).toEqual(told.figures);
    expect(untold.lines).toEqual([]);
  });

  it('knows no fault but those it is allowed', async () => {
    const { strikes } = await makeHistory({ seed: '7', pages: 6 });
    const names = strikes.map(strikeName);
    expect(names.length).toBeGreaterThan(3);
    const none = await makeHistory({ seed: '7', pages: 6, only: new Set() });
    expect(none.strikes).toEqual([]);
    expect(none.violation).toBeUndefined();
    const [first = ''] = names;
    const one = await makeHistory({ seed: '7', pages: 6, only: new Set([first]) });
    expect(one.strikes.map(strikeName)).toEqual([first]);
  });

  it.each(theSeeds(6, 1_000))('keeps every promise (seed %s)', async (seed) => {
    const { violation, figures } = await makeHistory({ seed, pages: 5 });
    expect(violation).toBeUndefined();
    expect(figures.runsPublished).toBeGreaterThan(0);
  });

  it.each(failedSeeds)('keeps every promise where it once did not: $what (seed $seed)', async ({ seed, pages }) => {
    expect((await makeHistory({ seed, pages })).violation).toBeUndefined();
  });
});

describe('npm run simulate', () => {
  it('tells the one history of a seed, and that every promise was kept', async () => {
    const { status, stdout } = await run(['--seed', '7', '--pages', '2']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d\.\d{3} {2}scheduler +starts reports-1 with \{"scheduledTime":/m);
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d\.\d{3} {2}FAULT +/m);
    expect(stdout.trimEnd()).toMatch(/\n\d+ faults, \d+ runs published\.\nEvery promise was kept\.$/);
  });

  it('adds up many', async () => {
    const { status, stdout } = await run(['--seed', '1', '--runs', '6', '--pages', '3', '--json']);
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ seed: 1, histories: 6, violations: [], faults: expect.any(Object) });
  });

  it('names every mistake in its options, and exits with 2', async () => {
    const { status, stdout, stderr } = await run(['--seed', 'x', '--runs', '0', '--pages', '1001']);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    for (const option of ['--seed', '--runs', '--pages']) expect(stderr).toContain(`${option}: must be a whole number`);
    expect((await run(['--sead'])).status).toBe(2);
  });

  it('with a broken protocol tells the seed, what was broken and the shortest history that shows it', async () => {
    const ended = await run(['--seed', '1', '--runs', '100', '--pages', '6'], 'an error is taken for the end');
    expect(ended.status).toBe(1);
    expect(ended.stdout).toMatch(/^BROKEN, seed \d+: /m);
    expect(ended.stdout).toMatch(/^Shrunk in \d+ replays to \d+ pages and \d+ of \d+ faults:$/m);
    expect(ended.stdout).toMatch(/ {2}VIOLATION +/);
    expect(ended.stdout.trimEnd()).toMatch(/Again: npm run simulate -- --seed \d+ --pages 6$/);
  });
});

describe('a shrunk history', () => {
  it('of one that keeps its promises has nothing to be shrunk to', async () => {
    const plan = { seed: '7', pages: 2 };
    const { history } = await shrink(plan, await makeHistory(plan));
    expect(history.violation).toBeUndefined();
  });
});
