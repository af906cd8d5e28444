import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { runHistory } from '../histories/history.ts';
import { smallHistories } from '../histories/small-histories.ts';
import { faultName } from '../world/world.ts';
import { parseSmallOptions, UsageError } from './options.ts';
import {
  everything,
  findFirstFaults,
  findSecondFaults,
  type FirstFault,
  planOf,
  runPairs,
  selectSlice,
} from './pairs.ts';
import { openProgressFile, StaleProgressError } from './progress-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'pairs-'));
afterAll(() => rmSync(folder, { recursive: true }));

const history = '2-pages-4-in-flight';

/** It occurs at the end of the first run, so it has few pairs. */
async function lateFirstFault(): Promise<FirstFault> {
  const late = (await findFirstFaults(history)).find(({ fault }) => fault.startsWith('event-rejected '));
  return late as FirstFault;
}

describe('a small history', () => {
  it.each(smallHistories)('%s is the same every time', async (small) => {
    const [one, other] = [await findFirstFaults(small), await findFirstFaults(small)];
    expect(one).toEqual(other);
    const { stats, violation, injectedFaults } = await runHistory(planOf(small, []));
    expect(violation).toBeUndefined();
    expect(injectedFaults).toEqual([]);
    expect(stats.runsPublished).toBe(2);
  });

  it('has the pages and the pages in flight of its name', async () => {
    for (const small of smallHistories) {
      const [, pages, inFlight] = /^(\d)-pages-(\d)-in-flight$/.exec(small) ?? [];
      if (pages === undefined) continue;
      const { logLines } = await runHistory({ ...planOf(small, []), recordLog: true });
      const puts = logLines.flatMap(({ actor, message }) => {
        const [, run] =
          /^S3 (?:PutObject|CompleteMultipartUpload) .*\/run=([^/]+)\/page-\d+\.xml: ok$/.exec(message) ?? [];
        return run === undefined ? [] : [{ actor, run }];
      });
      const ofFirstRun = puts.filter(({ run }) => run === puts[0]?.run);
      expect(ofFirstRun).toHaveLength(Number(pages));
      const invocations = new Set(ofFirstRun.map(({ actor }) => actor));
      expect(invocations.size).toBe(inFlight === '1' ? Number(pages) : 1);
    }
  });
});

describe('the pairs of a small history', () => {
  it('allow the first execution that finds a damaged page to begin after the faults', async () => {
    const stopped = 'execution-stopped reports-manual-2-2s';
    const first = (await findFirstFaults('2-pages-1-in-flight')).find(({ fault }) => fault === stopped);
    if (first === undefined) throw new Error(`${stopped} does not occur`);
    const { faults } = await findSecondFaults(first);
    const damages = faults.filter((fault) => /^page-(deleted|truncated|added) .*\/page-000001\.xml#0$/.test(fault));
    expect(damages).toHaveLength(3);
    for (const damage of damages) {
      const { violation, injectedFaults } = await runHistory(planOf('2-pages-1-in-flight', [stopped, damage]));
      expect(violation).toBeUndefined();
      expect(injectedFaults).toHaveLength(2);
    }
  });

  it('contain each two faults of the history without faults once, unless one prevents the other', async () => {
    const all = await findFirstFaults(history);
    const names = all.map(({ fault }) => fault);
    expect(new Set(names).size).toBe(names.length);
    const sample = all.filter(({ index }) => index % 40 === 0);
    for (const first of sample) {
      const { faults: seconds } = await findSecondFaults(first);
      expect(new Set(seconds).size).toBe(seconds.length);
      // What comes earlier has this fault as its second.
      for (const { fault } of all.slice(0, first.index + 1)) expect(seconds).not.toContain(fault);
      for (const other of sample.slice(sample.indexOf(first) + 1)) {
        if (seconds.includes(other.fault)) continue;
        const { injectedFaults } = await runHistory(planOf(history, [first.fault, other.fault]));
        expect([...new Set(injectedFaults.map(faultName))]).toEqual([first.fault]);
      }
    }
  });

  it('contain the faults that only the first one makes possible', async () => {
    const all = await findFirstFaults(history);
    const killed = all.find(({ fault }) =>
      fault.startsWith('killed-before-request reports-1.FinishRun@'),
    ) as FirstFault;
    const { faults } = await findSecondFaults(killed);
    const ofRetry = faults.filter((fault) => /reports-1\.FinishRun@\d+#2\//.test(fault));
    expect(ofRetry.length).toBeGreaterThan(50);
    expect(all.map(({ fault }) => fault)).not.toContain(ofRetry[0]);
    // The retry completes the run, so the second start meets nothing of it.
    expect(faults.filter((fault) => fault.includes('reports-2'))).toEqual([]);
  });

  it('contain those of the recovery, if the first one ends the execution', async () => {
    const all = await findFirstFaults(history);
    const rejected = all.find(({ fault }) => fault.startsWith('service-rejects-key ')) as FirstFault;
    const { faults } = await findSecondFaults(rejected);
    expect(faults.filter((fault) => fault.includes('reports-2.FinishRun')).length).toBeGreaterThan(50);
  });

  it('both occur', async () => {
    const first = await lateFirstFault();
    const { faults: seconds } = await findSecondFaults(first);
    expect(seconds.length).toBeGreaterThan(0);
    for (const second of seconds) {
      const faults = [first.fault, second];
      const { injectedFaults } = await runHistory(planOf(history, faults));
      expect([...new Set(injectedFaults.map(faultName))]).toEqual(faults);
    }
  });

  it('belong to exactly one slice each', () => {
    const seconds = Array.from({ length: 100 }, (_, index) => `fault ${index}`);
    for (const index of [0, 5, 1_234]) {
      const first = { index, history, fault: 'first' } as const;
      const slices = Array.from({ length: 7 }, (_, part) => selectSlice(first, seconds, { part: part + 1, parts: 7 }));
      expect(slices.flat().toSorted()).toEqual(seconds.toSorted());
      for (const slice of slices) expect(slice.length).toBeGreaterThanOrEqual(14);
      expect(selectSlice(first, seconds, everything)).toEqual(seconds);
    }
  });

  it('are run by slice', async () => {
    const first = await lateFirstFault();
    const { pairs } = await runPairs(first, everything);
    const parts = [1, 2, 3].map((part) => runPairs(first, { part, parts: 3 }));
    expect((await Promise.all(parts)).reduce((total, part) => total + part.pairs, 0)).toBe(pairs);
    expect(pairs).toBeGreaterThan(2);
  });
});

describe('a progress file', () => {
  const header = { digest: 'one', slice: '1/2', histories: ['a'], faults: [] };
  const path = join(folder, 'stale.jsonl');

  it.each([
    [{ digest: 'two' }, 'another version of the code'],
    [{ slice: '2/2' }, 'the slice 1/2, not 2/2'],
    [{ histories: ['b'] }, 'other histories: a'],
    [{ faults: ['f'] }, 'other faults'],
  ])('of another run is refused (%o)', (difference, message) => {
    writeFileSync(path, '');
    openProgressFile(path, header);
    const open = () => openProgressFile(path, { ...header, ...difference });
    expect(open).toThrow(StaleProgressError);
    expect(open).toThrow(`${path} has the progress of ${message}. Delete it to begin again`);
  });

  it('that is something else is refused, and not overwritten', () => {
    writeFileSync(path, 'shopping list\nmilk\n');
    expect(() => openProgressFile(path, header)).toThrow('something else');
    expect(readFileSync(path, 'utf8')).toBe('shopping list\nmilk\n');
  });
});

describe('the options of pairs', () => {
  it('are those of other histories without --pairs and --small', () => {
    expect(parseSmallOptions(['--seed', '7', '--runs', '3'])).toBeUndefined();
  });

  it('name a slice', () => {
    expect(parseSmallOptions(['--pairs', '--slice', '3/50'])).toMatchObject({
      pairs: true,
      slice: { part: 3, parts: 50 },
    });
  });

  it.each([
    [['--pairs', '--slice', '4/3'], '--slice'],
    [['--pairs', '--slice', '0/3'], '--slice'],
    [['--pairs', '--slice', '1'], '--slice'],
    [['--pairs', '--small', 'tiny'], '--small must be one of 2-pages-1-in-flight'],
    [['--pairs', '--max-failures', '0'], '--max-failures'],
    [['--small', history, '--slice', '1/2'], 'require --pairs'],
    [['--pairs', '--seed', '5'], "Unknown option '--seed'"],
  ])('%s: invalid', (args, message) => {
    expect(() => parseSmallOptions(args)).toThrow(UsageError);
    expect(() => parseSmallOptions(args)).toThrow(message);
  });
});
