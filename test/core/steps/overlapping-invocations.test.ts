/** Invocations that outlive their timeout and act while, or after, their retry has moved the execution on. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { asRunId, type ExportState, type RunId } from '../../../lib/core/model.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { aFetchedPage } from '../../support/builders.ts';
import { anExportBench, type Bench } from '../../support/export/export-bench.ts';
import { cursorAt } from '../../support/export/scripted-service.ts';

/** Invokes BeginRun in that execution, and returns the run it is to export. */
async function begin(bench: Bench, execution: string, input: object = {}): Promise<RunId> {
  const begun = await beginRun(bench.deps, { input, execution });
  if (begun.next === 'skip') throw new Error(begun.reason);
  return asRunId(begun.run);
}

/** A run of one page, exported by `execution` and not yet finished. */
async function exported(bench: Bench, execution: string): Promise<RunId> {
  const run = await begin(bench, execution);
  const loop = { export: bench.deps.definition.name, run, executionNumber: 1, page: 1, iterations: 0, waits: 0 };
  expect(await exportPage(bench.deps, { loop, execution })).toMatchObject({ next: 'finish' });
  return run;
}

const manifestsIn = ({ store }: Bench) => [...store.objects.keys()].filter((key) => key.endsWith('/manifest.json'));

describe('FinishRun', () => {
  it('finishes the run that it was invoked for, and no other that its execution has begun since', async () => {
    const bench = anExportBench({ reports: [] });
    const old = await exported(bench, 'one');
    // As a late duplicate of BeginRun does after another execution has abandoned that run.
    await begin(bench, 'another', { restart: true });
    const newer = await begin(bench, 'one', { restart: true });
    await expect(finishRun(bench.deps, { run: old, execution: 'one' })).rejects.toMatchObject({
      name: 'RunSupersededError',
    });
    expect((await bench.state()).active?.run).toBe(newer);
    expect(manifestsIn(bench)).toEqual([]);
  });

  it('does not touch a run that replaced its own during the invocation', async () => {
    const bench = anExportBench({ reports: [] });
    const old = await exported(bench, 'one');
    let newer: RunId | undefined;
    const store = {
      ...bench.store,
      async putDocument(...written: Parameters<typeof bench.store.putDocument>) {
        await bench.store.putDocument(...written);
        const state = await bench.state();
        // The same execution now owns another run.
        newer = asRunId(`${old}0`);
        const active = state.active && { ...state.active, run: newer, completion: undefined };
        await bench.log.replaceState({ ...state, version: state.version + 1, active });
      },
    };
    await expect(finishRun({ ...bench.deps, store }, { run: old, execution: 'one' })).rejects.toMatchObject({
      name: 'RunSupersededError',
      message: expect.stringContaining(`has replaced run ${old}`) as unknown as string,
    });
    const state = await bench.state();
    expect(state.active?.run).toBe(newer);
    expect(state.lastCompleted).toBeUndefined();
    expect(state.watermark).toBeUndefined();
  });
});

describe('two FinishRun invocations of one execution', () => {
  it.each(['putDocument', 'putLatest'] as const)(
    'return the same result, even if one overtakes the other in %s',
    async (slow) => {
      const bench = anExportBench({ reports: [] });
      const run = await exported(bench, 'one');
      const overtaken = {
        ...bench.store,
        async [slow](...written: never[]) {
          await (bench.store[slow] as (...args: never[]) => Promise<void>)(...written);
          await finishRun(bench.deps, { run, execution: 'one' });
        },
      };
      const result = await finishRun({ ...bench.deps, store: overtaken }, { run, execution: 'one' });
      expect(result).toEqual((await bench.state()).lastCompleted?.result);
    },
  );
});

describe('ExportPage', () => {
  it('does not start a run over that is being published: a concurrent invocation has exported its last page', async () => {
    const bench = anExportBench({
      definition: { publishEmptyRuns: false },
      script: ({ cursor }) =>
        aFetchedPage({ body: '<reports/>', reports: 0, nextCursor: cursor === null ? cursorAt(1) : null }),
    });
    const run = await begin(bench, 'one');
    const first = { export: bench.deps.definition.name, run, executionNumber: 1, page: 1, iterations: 0, waits: 0 };
    const loop = { ...first, page: 2, iterations: 1 };
    expect(await exportPage(bench.deps, { loop: first, execution: 'one' })).toMatchObject({ next: 'page' });

    // An invocation whose cursor is rejected stalls before it starts the run over. Meanwhile its retry exports the last page,
    // and FinishRun is killed after it has decided that the run is not published.
    const [rejected, resumed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const stale = exportPage(
      {
        ...bench.deps,
        service: {
          async fetchPage() {
            throw new ExportError('CursorRejectedError', 'the cursor is unknown');
          },
        },
        store: {
          ...bench.store,
          async find(key) {
            const found = await bench.store.find(key);
            rejected.resolve();
            await resumed.promise;
            return found;
          },
        },
      },
      { loop, execution: 'one' },
    );
    await rejected.promise;
    expect(await exportPage(bench.deps, { loop, execution: 'one' })).toMatchObject({ next: 'finish' });
    const killed = {
      ...bench.log,
      async replaceState(state: ExportState) {
        if (state.lastCompleted !== undefined) throw new Error('killed');
        return await bench.log.replaceState(state);
      },
    };
    await expect(finishRun({ ...bench.deps, log: killed }, { run, execution: 'one' })).rejects.toThrow('killed');
    resumed.resolve();

    expect(await stale).toMatchObject({ next: 'finish', run });
    expect((await bench.state()).active?.run).toBe(run);
    const result = await finishRun(bench.deps, { run, execution: 'one' });
    expect(result).toMatchObject({ run, reports: 0, manifest: null });
  });
});

describe('BeginRun', () => {
  it('restarts once: a late duplicate does not abandon the run that it began, whichever execution owns it now', async () => {
    const bench = anExportBench();
    const abandoned = await begin(bench, 'one');
    const run = await begin(bench, 'two', { restart: true });
    expect(run).not.toBe(abandoned);
    expect(await begin(bench, 'two', { restart: true })).toBe(run);
    expect(await begin(bench, 'three')).toBe(run);

    bench.running.add('three');
    const duplicate = await beginRun(bench.deps, { input: { restart: true }, execution: 'two' });
    expect(duplicate).toMatchObject({ next: 'skip', reason: `execution three is still exporting run ${run}` });
    expect((await bench.state()).active).toMatchObject({ run, execution: 'three' });
  });
});
