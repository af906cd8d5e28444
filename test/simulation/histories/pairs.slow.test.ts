import { describe, expect, it } from 'vitest';
import { faultName } from '../world/world.ts';
import { runHistory } from './history.ts';
import { findFirstFaults, findSecondFaults, pairPlans, planOf } from './pairs.ts';
import { smallHistories } from './small-histories.ts';

const small = '2-pages-4-in-flight';
const firstFault = async (prefix: string, history: (typeof smallHistories)[number] = small) =>
  (await findFirstFaults(history)).find((fault) => fault.startsWith(prefix)) ?? '';

describe('a small history', () => {
  it.each(smallHistories)('%s is the same every time', async (history) => {
    expect(await findFirstFaults(history)).toEqual(await findFirstFaults(history));
    const { stats, violation, injectedFaults } = await runHistory(planOf(history, []));
    expect(violation).toBeUndefined();
    expect(injectedFaults).toEqual([]);
    expect(stats.runsPublished).toBe(2);
  });

  it('has the pages and the pages in flight of its name', async () => {
    for (const history of smallHistories) {
      const [, pages, inFlight] = /^(\d)-pages-(\d)-in-flight$/.exec(history) ?? [];
      if (pages === undefined) continue;
      const { logLines } = await runHistory({ ...planOf(history, []), recordLog: true });
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
    const history = '2-pages-1-in-flight';
    const stopped = await firstFault('execution-stopped reports-manual-2-2s', history);
    const faults = await findSecondFaults(history, stopped);
    const damages = faults.filter((fault) => /^page-(deleted|truncated|added) .*\/page-000001\.xml#0$/.test(fault));
    expect(damages).toHaveLength(3);
    for (const damage of damages) {
      const { violation, injectedFaults } = await runHistory(planOf(history, [stopped, damage]));
      expect(violation).toBeUndefined();
      expect(injectedFaults).toHaveLength(2);
    }
  });

  it('contain each two faults of the history without faults once, unless one prevents the other', async () => {
    const all = await findFirstFaults(small);
    expect(new Set(all).size).toBe(all.length);
    const sample = all.filter((_, index) => index % 40 === 0);
    for (const [index, first] of sample.entries()) {
      const seconds = await findSecondFaults(small, first);
      expect(new Set(seconds).size).toBe(seconds.length);
      // What comes earlier has this fault as its second.
      for (const fault of all.slice(0, index * 40 + 1)) expect(seconds).not.toContain(fault);
      for (const other of sample.slice(index + 1)) {
        if (seconds.includes(other)) continue;
        const { injectedFaults } = await runHistory(planOf(small, [first, other]));
        expect([...new Set(injectedFaults.map(faultName))]).toEqual([first]);
      }
    }
  });

  it('contain the faults that only the first one makes possible', async () => {
    const faults = await findSecondFaults(small, await firstFault('killed-before-request reports-1.FinishRun@'));
    const ofRetry = faults.filter((fault) => /reports-1\.FinishRun@\d+#2\//.test(fault));
    expect(ofRetry.length).toBeGreaterThan(50);
    expect(await findFirstFaults(small)).not.toContain(ofRetry[0]);
    // The retry completes the run, so the second start meets nothing of it.
    expect(faults.filter((fault) => fault.includes('reports-2'))).toEqual([]);
  });

  it('contain those of the recovery, if the first one ends the execution', async () => {
    const faults = await findSecondFaults(small, await firstFault('service-rejects-key '));
    expect(faults.filter((fault) => fault.includes('reports-2.FinishRun')).length).toBeGreaterThan(50);
  });

  it('belong to exactly one slice each, which has the first fault alone as well', async () => {
    // They occur at the end of the first run, so they have few pairs.
    const faults = (await findFirstFaults(small)).filter((fault) =>
      /^event-rejected |^execution-stopped .*-6s$/.test(fault),
    );
    const plansOf = async (part: number, parts: number) => {
      const plans: string[][] = [];
      for await (const { forcedFaults = [] } of pairPlans([small], { faults, slice: { part, parts } }))
        plans.push([...forcedFaults]);
      return plans;
    };
    const all = await plansOf(1, 1);
    expect(all.filter((each) => each.length === 1)).toEqual(faults.map((fault) => [fault]));
    expect(all.length).toBeGreaterThan(10);
    expect([...(await plansOf(1, 2)), ...(await plansOf(2, 2))]).toEqual(all);
  });
});
