/** Invocations that outlive their timeout and act while, or after, their retry has moved the execution on. */

import { describe, expect, it } from 'vitest';
import { definitionOfStart } from '../../../lib/core/bounded-runs.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import { asRunId, type ExportState, type RunId } from '../../../lib/core/model.ts';
import type { Executions, PageLog } from '../../../lib/core/ports.ts';
import { abandonRun } from '../../../lib/operator/abandon-run.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { aFetchedPage, at, collect } from '../../support/builders.ts';
import { anExportBench, begin, type Bench, manifestsIn } from '../../support/export/export-bench.ts';
import { cursorAt } from '../../support/export/scripted-service.ts';
import { fc } from '../../support/property.ts';

/** The run that BeginRun says that execution is to export. */
const runOf = async (bench: Bench, execution: string, input: object = {}): Promise<RunId> =>
  asRunId((await begin(bench.deps, execution, input)).run);

const loopOf = (bench: Bench, run: RunId) => ({
  export: bench.deps.definition.name,
  run,
  executionNumber: 1,
  page: 1,
  iterations: 0,
  waits: 0,
});

/** A run of one page, exported by `execution` and not yet finished. */
async function exported(bench: Bench, execution: string, input: object = {}): Promise<RunId> {
  const run = await runOf(bench, execution, input);
  expect(await exportPage(bench.deps, { loop: loopOf(bench, run), execution })).toMatchObject({ next: 'finish' });
  return run;
}

const abandon = ({ deps, store }: Bench, run: RunId) =>
  abandonRun({ ...deps, store }, { export: deps.definition.name, run, since: at('1970-01-01T00:00:00Z') });

describe('FinishRun', () => {
  /** As after a rejected cursor, which starts the run over in the same execution. */
  async function replaceRun(bench: Bench, run: RunId): Promise<RunId> {
    const state = await bench.state();
    const newer = asRunId(`${run}0`);
    const active = state.active && { ...state.active, run: newer, completion: undefined };
    await bench.log.replaceState({ ...state, version: state.version + 1, active });
    return newer;
  }

  it.each(['before', 'during'])(
    'finishes no other run than its own, which was replaced %s the invocation',
    async (when) => {
      const bench = anExportBench({ reports: [] });
      const old = await exported(bench, 'one');
      if (when === 'before') await replaceRun(bench, old);
      const store = {
        ...bench.store,
        async putDocument(...written: Parameters<typeof bench.store.putDocument>) {
          await bench.store.putDocument(...written);
          await replaceRun(bench, old);
        },
      };
      await expect(finishRun({ ...bench.deps, store }, { run: old, execution: 'one' })).rejects.toMatchObject({
        name: 'RunSupersededError',
        message: expect.stringContaining(`has replaced run ${old}`) as unknown as string,
      });
      const { active, lastCompleted, watermark } = await bench.state();
      expect([active?.run, lastCompleted, watermark]).toEqual([`${old}0`, undefined, undefined]);
      expect(manifestsIn(bench)).toHaveLength(when === 'before' ? 0 : 1);
    },
  );
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
    const run = await runOf(bench, 'one');
    const first = loopOf(bench, run);
    const loop = { ...first, page: 2, iterations: 1 };
    expect(await exportPage(bench.deps, { loop: first, execution: 'one' })).toMatchObject({ next: 'page' });

    // An invocation whose cursor is rejected stalls before it starts the run over. Meanwhile its retry exports the last
    // page, and FinishRun is killed after it has decided that the run is not published.
    const [rejected, resumed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const stale = exportPage(
      {
        ...bench.deps,
        service: {
          async fetch() {
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

describe('bounded runs that begin at the same time', () => {
  const day = (date: number) => at(`2026-11-${String(date).padStart(2, '0')}T00:00:00Z`);
  const starts = [
    { since: day(1), until: day(4) },
    { since: day(3), until: day(6) },
    { since: day(3), until: day(4) },
  ] as const;
  const scheduled = ({ log }: Bench, wait: () => Promise<void>): PageLog => ({
    ...log,
    exportState: async (name) => await wait().then(() => log.exportState(name)),
    replaceState: async (state) => await wait().then(() => log.replaceState(state)),
    async *boundedStates(name) {
      await wait();
      yield* log.boundedStates(name);
    },
  });
  const activeIn = async ({ log, deps }: Bench) =>
    (await collect(log.boundedStates(deps.definition.name))).filter(({ active }) => active !== undefined);

  const kills = fc.array(fc.option(fc.nat(12)), { minLength: 3, maxLength: 3 });

  it('are one at most of those that overlap, although some are killed, and one once all others have ended', async () => {
    const property = fc.asyncProperty(fc.scheduler(), kills, fc.boolean(), async (scheduler, killed, isKnown) => {
      const bench = anExportBench();
      const beginning = starts.map(async (input, index) => {
        const execution = `execution-${index}`;
        const killedAt = killed[index] ?? Number.POSITIVE_INFINITY;
        let operations = 0;
        const wait = async () => {
          await scheduler.schedule(Promise.resolve());
          if ((operations += 1) > killedAt) throw new Error('killed');
        };
        if (isKnown) bench.running.add(execution);
        const deps = { ...bench.deps, log: scheduled(bench, wait) };
        const retried = async (): Promise<unknown> =>
          await beginRun(deps, { input, execution }).catch(async (error: Error) =>
            error.name === 'ServiceUnavailableError' ? await retried() : undefined,
          );
        await retried();
        if (killedAt !== Number.POSITIVE_INFINITY) bench.running.delete(execution);
      });
      await scheduler.waitFor(Promise.all(beginning));
      const begun = await activeIn(bench);
      const stateName = definitionOfStart(bench.deps.definition, starts[0]).stateName;
      expect(begun.length).toBeLessThanOrEqual(1);
      bench.running.clear();
      const last = await beginRun(bench.deps, { input: starts[0], execution: 'last' }).catch(({ message }) => message);
      const isOther = begun.length === 1 && begun[0]?.export !== stateName;
      expect(String(last).includes('The bounds overlap')).toBe(isOther);
      expect(await activeIn(bench)).toHaveLength(1);
    });
    await fc.assert(property);
  });
});

describe('BeginRun', () => {
  it('restarts once: a late duplicate does not abandon the run that it began, whichever execution owns it now', async () => {
    const bench = anExportBench({ reports: [] });
    const abandoned = await exported(bench, 'one');
    const run = await exported(bench, 'two', { restart: true });
    expect(run).not.toBe(abandoned);
    expect(await runOf(bench, 'two', { restart: true })).toBe(run);
    expect(await runOf(bench, 'three')).toBe(run);

    bench.running.add('three');
    const duplicate = await beginRun(bench.deps, { input: { restart: true }, execution: 'two' });
    expect(duplicate).toMatchObject({ next: 'skip', reason: `execution three is still exporting run ${run}` });
    expect((await bench.state()).active).toMatchObject({ run, execution: 'three' });
  });

  describe('of an execution whose run is over', () => {
    const finish = async (bench: Bench, run: RunId, execution = 'late') =>
      void (await finishRun(bench.deps, { run, execution }));

    it.each<[how: string, end: (bench: Bench, run: RunId) => Promise<void>]>([
      ['it has completed one', finish],
      [
        'it has completed one, and another execution the next one',
        async (bench, run) => {
          await finish(bench, run);
          await finish(bench, await exported(bench, 'another'), 'another');
        },
      ],
      ['an operator has abandoned its run', async (bench, run) => void (await abandon(bench, run))],
    ])('begins no other run once %s', async (_, end) => {
      const bench = anExportBench({ reports: [] });
      await end(bench, await exported(bench, 'late', { restart: true }));
      const before = await bench.state();
      const reason = 'this execution has had its run, and begins no other';
      expect(await beginRun(bench.deps, { input: { restart: true }, execution: 'late' })).toMatchObject({ reason });
      expect(await bench.state()).toEqual(before);
    });

    it('begins no bounded run that it has published', async () => {
      const bench = anExportBench({ reports: [] });
      const bounds = { since: at('2026-10-01T00:00:00Z'), until: at('2026-10-03T00:00:00Z') };
      const deps = { ...bench.deps, definition: definitionOfStart(bench.deps.definition, bounds) };
      const loop = await begin(bench.deps, 'late', bounds);
      await exportPage(deps, { loop, execution: 'late' });
      await finishRun(deps, { run: asRunId(loop.run), execution: 'late' });
      for (const again of [undefined, true]) {
        const command = { input: { ...bounds, again }, execution: 'late' };
        expect(await beginRun(bench.deps, command)).toMatchObject({ next: 'skip' });
      }
      const states = await collect(bench.log.boundedStates(bench.deps.definition.name));
      expect(states).toMatchObject([{ lastCompleted: { result: { run: loop.run } } }]);
    });
  });

  it('of an execution that was stopped before it had a run begins none with restart or since', async () => {
    const bench = anExportBench();
    const executions: Executions = {
      status: async (execution) => (execution === 'late' ? 'ended' : bench.deps.executions.status(execution)),
    };
    const late = (input: object) => beginRun({ ...bench.deps, executions }, { input, execution: 'late' });
    const run = await runOf(bench, 'another', { restart: true });
    bench.running.add('another');
    await expect(late({ restart: true })).rejects.toMatchObject({ name: 'ServiceUnavailableError' });
    expect((await bench.state()).active).toMatchObject({ run, execution: 'another' });
    await abandon(bench, run);
    for (const input of [{ since: '2026-11-01T00:00:00Z' }, { restart: true }]) {
      await expect(late(input)).rejects.toMatchObject({ name: 'ServiceUnavailableError' });
    }
    expect((await bench.state()).active).toBeUndefined();
  });

  it('does not ask for its own execution without restart and since', async () => {
    const bench = anExportBench({ reports: [] });
    const executions: Executions = {
      async status() {
        throw new Error('It was asked');
      },
    };
    const first = { input: {}, execution: 'first' };
    expect(await beginRun({ ...bench.deps, executions }, first)).toMatchObject({ next: 'export' });
  });
});
