/** All pairs of some faults, in several threads, interrupted and resumed. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { everything, findFirstFaults } from './pairs.ts';
import { openProgressFile } from './progress-file.ts';
import { runAllPairs } from './run-all-pairs.ts';

const folder = mkdtempSync(join(tmpdir(), 'pairs-'));
afterAll(() => rmSync(folder, { recursive: true }));

const history = '2-pages-4-in-flight';

describe('a run of all pairs', () => {
  const header = { digest: 'of the code', slice: '1/1', histories: [history], faults: [] };

  it('gives the same result in one go as after an interruption', async () => {
    const faults = (await findFirstFaults(history))
      .map(({ fault }) => fault)
      // Those near the end of the first run have few pairs.
      .filter((fault) => /^event-rejected |^execution-stopped .*-6s$/.test(fault));
    const options = { histories: [history], faults, slice: everything, maxFailures: 10 } as const;
    const whole = openProgressFile(join(folder, 'whole.jsonl'), header);
    const result = await runAllPairs({ ...options, progress: whole });
    expect(result).toMatchObject({ firstFaults: 2, counted: 2, failures: [] });
    expect(result.done).toBe(result.pairs);
    expect(result.done).toBeGreaterThan(10);

    const path = join(folder, 'interrupted.jsonl');
    const interruption = new AbortController();
    const interrupted = await runAllPairs({
      ...options,
      progress: openProgressFile(path, header),
      signal: interruption.signal,
      onProgress: ({ done }) => {
        if (done > 0) interruption.abort();
      },
    });
    expect(interrupted.counted).toBe(2);
    expect(interrupted.done).toBeLessThan(result.done);
    const before = readFileSync(path, 'utf8');
    // An interruption can leave an incomplete line.
    writeFileSync(path, `${before}{"kind":"done","key":"${history}/`);
    const resumed = openProgressFile(path, header);
    expect(await runAllPairs({ ...options, progress: resumed })).toEqual(result);
    expect(readFileSync(path, 'utf8').startsWith(before)).toBe(true);
    expect(resumed.done).toEqual(whole.done);
  });
});
