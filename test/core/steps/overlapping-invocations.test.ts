/** Invocations that live on after nobody waits for them: they wake up pages later, in an execution that has gone on. */

import { describe, expect, it } from 'vitest';
import { asRunId, type RunId } from '../../../lib/core/model.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { anExportBench, type Bench } from '../../support/export-bench.ts';

/** What BeginRun does in that execution; the run it is to work on. */
async function begin(bench: Bench, execution: string, input: object = {}): Promise<RunId> {
  const begun = await beginRun(bench.deps, { input, execution });
  if (begun.next === 'skip') throw new Error(begun.reason);
  return asRunId(begun.run);
}

/** A run of one page, begun and walked by `execution`, and not yet finished. */
async function walked(bench: Bench, execution: string): Promise<RunId> {
  const run = await begin(bench, execution);
  const loop = { export: bench.deps.definition.name, run, executionNumber: 1, page: 1, iterations: 0, waits: 0 };
  expect(await exportPage(bench.deps, { loop, execution })).toMatchObject({ next: 'finish' });
  return run;
}

const manifestsIn = ({ store }: Bench) => [...store.objects.keys()].filter((key) => key.endsWith('/manifest.json'));

describe('FinishRun', () => {
  it('finishes the run it was sent for, and no other that its execution has begun since', async () => {
    const bench = anExportBench({ reports: [] });
    const old = await walked(bench, 'one');
    // As a BeginRun that lived on would, once another execution had given that run up.
    await begin(bench, 'another', { restart: true });
    const fresh = await begin(bench, 'one', { restart: true });
    await expect(finishRun(bench.deps, { run: old, execution: 'one' })).rejects.toMatchObject({
      name: 'RunSupersededError',
    });
    expect((await bench.head()).active?.run).toBe(fresh);
    expect(manifestsIn(bench)).toEqual([]);
  });

  it('leaves a run alone that took the place of its own while it was at work', async () => {
    const bench = anExportBench({ reports: [] });
    const old = await walked(bench, 'one');
    let fresh: RunId | undefined;
    const store = {
      ...bench.store,
      async putManifest(...written: Parameters<typeof bench.store.putManifest>) {
        await bench.store.putManifest(...written);
        const head = await bench.head();
        // The very same execution owns another run now.
        fresh = asRunId(`${old}0`);
        const active = head.active && { ...head.active, run: fresh, completedAt: undefined };
        await bench.log.replaceState({ ...head, version: head.version + 1, active });
      },
    };
    await expect(finishRun({ ...bench.deps, store }, { run: old, execution: 'one' })).rejects.toMatchObject({
      name: 'RunSupersededError',
      message: expect.stringContaining(`has taken the place of run ${old}`) as unknown as string,
    });
    const head = await bench.head();
    expect(head.active?.run).toBe(fresh);
    expect(head.lastCompleted).toBeUndefined();
    expect(head.watermark).toBeUndefined();
  });
});

describe('two FinishRuns of one execution', () => {
  it.each(['putManifest', 'putLatest'] as const)('tell the same, also where one is overtaken in %s', async (slow) => {
    const bench = anExportBench({ reports: [] });
    const run = await walked(bench, 'one');
    const overtaken = {
      ...bench.store,
      async [slow](...written: never[]) {
        await (bench.store[slow] as (...args: never[]) => Promise<void>)(...written);
        await finishRun(bench.deps, { run, execution: 'one' });
      },
    };
    const told = await finishRun({ ...bench.deps, store: overtaken }, { run, execution: 'one' });
    expect(told).toEqual((await bench.head()).lastCompleted?.result);
  });
});

describe('BeginRun', () => {
  it('restarts once: waking up later, it does not give up the run it began, whoever works on it now', async () => {
    const bench = anExportBench();
    const abandoned = await begin(bench, 'one');
    const run = await begin(bench, 'two', { restart: true });
    expect(run).not.toBe(abandoned);
    expect(await begin(bench, 'two', { restart: true })).toBe(run);
    expect(await begin(bench, 'three')).toBe(run);

    bench.running.add('three');
    const woken = await beginRun(bench.deps, { input: { restart: true }, execution: 'two' });
    expect(woken).toMatchObject({ next: 'skip', reason: `run ${run} is still being worked on by three` });
    expect((await bench.head()).active).toMatchObject({ run, execution: 'three' });
  });
});
