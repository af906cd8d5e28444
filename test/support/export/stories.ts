/**
 * Stories of one export in memory: its starts, one after the other, and how each ends. After each start, every
 * published run has exactly the reports between its bounds, and `latest.json` points to one of them.
 */

import { expect } from 'vitest';
import type { ErrorName } from '../../../lib/core/errors.ts';
import type { FailedRun, LatestPointer, RunResult } from '../../../lib/core/model.ts';
import type { ExecutionOutcome } from '../../../lib/local/execution.ts';
import { anExportBench, type Bench, type BenchOptions, manifestsOf, pageAt } from './export-bench.ts';
import { type ScriptedReport, someReports } from './scripted-service.ts';

/** One start. Its options apply to it and to all later ones. */
export interface Start extends BenchOptions {
  readonly input?: unknown;
  /** The time since the start before. */
  readonly afterMs?: number;
  readonly ends: object;
  /** The number of requests that it sends. */
  readonly requests?: number;
  /** The milliseconds that it sleeps. */
  readonly slept?: readonly number[];
  /** What else must hold after it. */
  readonly after?: (bench: Bench) => unknown;
}

export const completes = (fields: Partial<RunResult> = {}) => ({ status: 'completed', ...fields });
export const fails = (error: ErrorName, says: string | RegExp = '', fields: Partial<FailedRun> = {}) => ({
  status: 'failed',
  error,
  message: typeof says === 'string' ? expect.stringContaining(says) : expect.stringMatching(says),
  ...fields,
});
export const skips = (reason = '') => ({ status: 'skipped', reason: expect.stringContaining(reason) });

const flat = (end: ExecutionOutcome): object => ({
  status: end.status,
  ...(end.status === 'completed' ? end.result : end.status === 'failed' ? end.failed : end),
});

/** Starts the export again and again. Returns the bench of the last start. */
export async function expectStory(options: BenchOptions, ...starts: readonly Start[]): Promise<Bench> {
  let bench = anExportBench(options);
  let reports = options.reports;
  const checked = new Set<string>();
  for (const [index, { input, afterMs = 0, ends, requests, slept, after, ...changes }] of starts.entries()) {
    bench = index === 0 && Object.keys(changes).length === 0 ? bench : bench.with(changes);
    reports = changes.reports ?? reports;
    bench.advance(afterMs);
    const before = { requests: bench.service.requests.length, slept: bench.slept.length };
    const end = await bench.start(input);
    expect(flat(end), `start ${index + 1}`).toMatchObject(ends);
    expectWholeRuns(bench, reports, checked);
    if (requests !== undefined) expect(bench.service.requests.slice(before.requests)).toHaveLength(requests);
    if (slept !== undefined) expect(bench.slept.slice(before.slept)).toEqual(slept);
    await after?.(bench);
  }
  return bench;
}

/** What consumers rely on, for the runs that are not in `checked`. */
function expectWholeRuns(
  bench: Bench,
  reports = someReports(5) as readonly ScriptedReport[],
  checked: Set<string>,
): void {
  for (const manifest of manifestsOf(bench).filter(({ run }) => !checked.has(run))) {
    checked.add(manifest.run);
    const { since, until = '9', totals, pages } = manifest as typeof manifest & { readonly until?: string };
    expect(pages.map(({ page }) => page)).toEqual(Array.from({ length: totals.pages }, (_, index) => index + 1));
    const found = pages.flatMap(({ key }) => [...pageAt(bench, key).matchAll(/id="([^"]+)"/g)].map(([, id]) => id));
    // Pages of a script have reports without IDs.
    const isOfService = totals.reports === found.length;
    const expected = reports.filter(
      ({ date }) => date.replace('.000', '') >= since && date.replace('.000', '') < until,
    );
    if (isOfService) expect(found).toEqual(expected.map(({ id }) => id));
  }
  const latest = bench.store.objects.get(`${bench.deps.definition.name}/latest.json`);
  if (latest === undefined) return;
  const { manifest } = JSON.parse(latest) as LatestPointer;
  expect(bench.store.objects.has(manifest)).toBe(true);
}
