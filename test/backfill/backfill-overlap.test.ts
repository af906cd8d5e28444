/** Backfills of an export, one after the other, and what happens between: no report is published in two windows. */

import { describe, expect, it } from 'vitest';
import type { ExportState, Instant } from '../../lib/core/model.ts';
import { abandonBackfill } from '../../lib/backfill/abandon.ts';
import { beginBackfill, planBackfill } from '../../lib/backfill/plan.ts';
import { remainingWindows } from '../../lib/backfill/window-states.ts';
import { beginRun } from '../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../lib/core/steps/export-page.ts';
import { failRun } from '../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../lib/core/steps/finish-run.ts';
import { manifestKey } from '../../lib/core/storage/keys.ts';
import { windowName, windowsOf } from '../../lib/backfill/windows.ts';
import { anExportRequest, at, collect } from '../support/builders.ts';
import { exportWindow, operatorOf, root, windowBench, windowManifestsOf } from '../support/export/backfill-bench.ts';
import { anExportBench, type Bench } from '../support/export/export-bench.ts';
import { createMemoryLog, type MemoryLog } from '../support/export/memory-adapters.ts';
import { someReports } from '../support/export/scripted-service.ts';

const minute = 60_000;
const request = {
  from: at('2026-11-01T00:00:00Z'),
  to: at('2026-11-01T00:08:00Z'),
  windowMs: 2 * minute,
  parallel: 2,
};
const windowOf = (sinceMinute: number, untilMinute: number) => ({
  since: `2026-11-01T00:0${sinceMinute}:00Z` as Instant,
  until: `2026-11-01T00:0${untilMinute}:00Z` as Instant,
});

function aBench() {
  const bench = anExportBench({ reports: someReports(8), size: 1 });
  return { bench, name: bench.deps.definition.name, operator: operatorOf(bench) };
}

const publishedWindows = (bench: Bench) => windowManifestsOf(bench).map(({ since, until }) => [since, until]);

/** Leaves the run of the window as an invocation of FinishRun does that is cut off before the manifest. */
async function leavePublishing(bench: Bench, name: string, window: ReturnType<typeof windowOf>): Promise<void> {
  const { deps } = windowBench(bench, window);
  const failing = { ...deps.store, putDocument: () => Promise.reject(new Error('cut off')) };
  const begun = await beginRun(deps, { input: { export: windowName(name, window) }, execution: 'first' });
  if (begun.next === 'skip') throw new Error(begun.reason);
  let loop = await exportPage(deps, { loop: begun, execution: 'first' });
  while (loop.next === 'page') loop = await exportPage(deps, { loop, execution: 'first' });
  const { active } = (await bench.log.exportState(windowName(name, window))) ?? {};
  if (active === undefined) throw new Error('no active run');
  await expect(finishRun({ ...deps, store: failing }, { run: active.run, execution: 'first' })).rejects.toThrow(
    'cut off',
  );
}

/** The log, whose first access of this kind waits until something else was done. */
function suspendedAt(
  log: MemoryLog,
  method: 'windowStates' | 'replaceState',
  meanwhile: () => Promise<unknown>,
): MemoryLog {
  let isDue = true;
  const suspend = async () => {
    if (!isDue) return;
    isDue = false;
    await meanwhile();
  };
  return {
    ...log,
    async replaceState(state) {
      if (method === 'replaceState') await suspend();
      return await log.replaceState(state);
    },
    backfills: {
      ...log.backfills,
      async *windowStates(exportName) {
        if (method === 'windowStates') await suspend();
        yield* log.backfills.windowStates(exportName);
      },
    },
  };
}

const withLog = <Deps extends object>(deps: Deps, log: MemoryLog) => ({ ...deps, log, backfills: log.backfills });

const plansOf = async ({ log }: Bench, name: string) =>
  (await collect(log.backfills.windowStates(name))).map(({ plan }) => plan);

describe('the windows of a backfill', () => {
  it('are planned before any of them begins, with the root and a sequence of the export', async () => {
    const { bench, name, operator } = aBench();
    expect((await bench.start()).status).toBe('completed');
    const { sequence } = await bench.state();
    const { requestChecksum } = await beginBackfill(operator, request, root);
    const states = await collect(bench.log.backfills.windowStates(name));
    expect(states).toHaveLength(4);
    for (const state of states) {
      expect(state).toMatchObject({ sequence, documentRoot: root, plan: { id: 1, requestChecksum } });
      expect(state.active).toBeUndefined();
    }
  });

  it('record their root with an export that has had no run, and leave its state as it is otherwise', async () => {
    const { bench, operator } = aBench();
    await beginBackfill(operator, request, root);
    expect(await bench.state()).toMatchObject({ version: 1, sequence: 0, documentRoot: root });
    await bench.start();
    const state = await bench.state();
    await abandonBackfill(operator, state.export);
    await beginBackfill(operator, request, undefined);
    await exportWindow(bench, windowOf(0, 2));
    expect(await bench.state()).toEqual(state);
  });

  it('cannot begin before they are planned', async () => {
    const { bench, operator } = aBench();
    const crashing = withLog(operator, { ...bench.log, replaceState: () => Promise.reject(new Error('cut off')) });
    await expect(beginBackfill(crashing, request, undefined)).rejects.toThrow('cut off');
    expect(await windowBench(bench, windowOf(0, 2)).start()).toMatchObject({
      status: 'failed',
      failed: { error: 'ConfigurationError', message: expect.stringContaining('is not a window of the backfill') },
    });
  });

  it('keep their plan if the backfill is continued, and those that are missing are written', async () => {
    const { bench, name, operator } = aBench();
    let writes = 0;
    const cutOff = {
      ...bench.log,
      async replaceState(state: ExportState) {
        writes += 1;
        if (writes > 2) throw new Error('cut off');
        return await bench.log.replaceState(state);
      },
    };
    await expect(beginBackfill(withLog(operator, cutOff), request, undefined)).rejects.toThrow('cut off');
    const before = await collect(bench.log.backfills.windowStates(name));
    expect(before).toHaveLength(2);
    expect(await beginBackfill(operator, request, undefined)).toMatchObject({ version: 2, plan: 1 });
    expect((await plansOf(bench, name)).map((plan) => plan?.id)).toEqual([1, 1, 1, 1]);
    for (const state of before) expect(await bench.log.exportState(state.export)).toEqual(state);
  });

  it('have a later plan if the record of the backfill was deleted, and others are then refused', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    const states = await collect(bench.log.backfills.windowStates(name));
    const restored = bench.with({ log: createMemoryLog() });
    for (const state of states) await restored.log.replaceState({ ...state, version: 1 });
    await expect(beginBackfill(operatorOf(restored), { ...request, windowMs: 3 * minute }, root)).rejects.toThrow(
      /which is none of these windows/,
    );
    expect(await beginBackfill(operatorOf(restored), request, root)).toMatchObject({ version: 1, plan: 2 });
  });
});

describe('a command that is suspended', () => {
  it.each(['abandonBackfill', 'beginBackfill'] as const)(
    'once the backfill is recorded as abandoned, ends no run of one that was begun meanwhile: %s',
    async (command) => {
      const { bench, name, operator } = aBench();
      await beginBackfill(operator, request, root);
      if (command === 'beginBackfill') await abandonBackfill(operator, name);
      const input = { export: windowName(name, windowOf(0, 2)) };
      const beginAgain = async () => {
        if (command === 'abandonBackfill') await abandonBackfill(operator, name);
        await beginBackfill(operator, request, root);
        const { deps } = windowBench(bench, windowOf(0, 2));
        expect(await beginRun(deps, { input, execution: 'one' })).toMatchObject({ next: 'export' });
      };
      if (command === 'abandonBackfill') {
        // After the record of the backfill.
        const log = suspendedAt(bench.log, 'replaceState', beginAgain);
        await abandonBackfill(withLog(operator, log), name);
      } else {
        const log = suspendedAt(bench.log, 'windowStates', beginAgain);
        await beginBackfill(withLog(operator, log), request, root);
      }
      expect((await bench.log.exportState(input.export))?.active).toMatchObject({ execution: 'one' });
    },
  );

  it.each([
    ['abandoned', undefined],
    ['abandoned, and replaced by another one', { ...request, windowMs: 3 * minute }],
    ['abandoned, and begun again', request],
  ])('while it begins a backfill, begins none that was %s', async (_, next) => {
    const { bench, name, operator } = aBench();
    const log = suspendedAt(bench.log, 'replaceState', async () => {
      await abandonBackfill(operator, name);
      if (next !== undefined) await beginBackfill(operator, next, root);
    });
    await expect(beginBackfill(withLog(operator, log), request, undefined)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('was abandoned while it was started. Start it again'),
    });
    const [first, second] = [windowOf(0, 2), windowOf(2, 4)];
    const states = [first, second].map((window) => bench.log.exportState(windowName(name, window)));
    const isAgain = next === request;
    for (const state of await Promise.all(states)) expect(state?.plan?.abandonedAt === undefined).toBe(isAgain);
    const { status } = await windowBench(bench, first).start();
    expect(status).toBe(isAgain ? 'completed' : 'skipped');
  });
});

describe('a backfill that is abandoned', () => {
  it('also abandons the windows that were not planned yet, and keeps those that it does not have', async () => {
    const { bench, name, operator } = aBench();
    const later = { ...request, from: at('2026-11-01T00:08:00Z'), to: at('2026-11-01T00:10:00Z') };
    await beginBackfill(operator, later, root);
    await exportWindow(bench, { since: later.from, until: later.to });
    const crashing = withLog(operator, { ...bench.log, replaceState: () => Promise.reject(new Error('cut off')) });
    await expect(beginBackfill(crashing, request, undefined)).rejects.toThrow('cut off');
    await abandonBackfill(operator, name);
    const plans = await plansOf(bench, name);
    expect(plans).toHaveLength(5);
    expect(plans.filter((plan) => plan?.id === 2 && plan.abandonedAt !== undefined)).toHaveLength(4);
    expect(plans.filter((plan) => plan?.id === 1 && plan.abandonedAt === undefined)).toHaveLength(1);
  });

  it('is abandoned completely by the next command, if its own was cut off', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    for (const cut of [1, 2]) {
      let writes = 0;
      const cutOff = {
        ...bench.log,
        async replaceState(state: ExportState) {
          writes += 1;
          if (writes > cut) throw new Error('cut off');
          return await bench.log.replaceState(state);
        },
      };
      await expect(abandonBackfill(withLog(operator, cutOff), name)).rejects.toThrow('cut off');
    }
    expect((await plansOf(bench, name)).filter((plan) => plan?.abandonedAt === undefined)).toHaveLength(1);
    await abandonBackfill(operator, name);
    expect((await plansOf(bench, name)).filter((plan) => plan?.abandonedAt === undefined)).toEqual([]);
  });

  it('begins none of its windows again with restart', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    await exportWindow(bench, windowOf(0, 2));
    await leavePublishing(bench, name, windowOf(2, 4));
    await abandonBackfill(operator, name);
    for (const window of [windowOf(0, 2), windowOf(2, 4), windowOf(4, 6)]) {
      const input = { export: windowName(name, window), restart: true };
      expect(await windowBench(bench, window).start(input)).toMatchObject({
        status: 'skipped',
        reason: expect.stringContaining('the backfill was abandoned'),
      });
    }
  });
});

describe('a window that is exported again with restart', () => {
  it('is left until its second run is completed, too', async () => {
    const { bench, name, operator } = aBench();
    const backfill = await beginBackfill(operator, request, root);
    for (const window of windowsOf(backfill)) await exportWindow(bench, window);
    const again = windowOf(2, 4);
    const input = { export: windowName(name, again), restart: true };
    await beginRun(windowBench(bench, again).deps, { input, execution: 'stopped' });
    const continued = await beginBackfill(operator, request, root);
    expect(await remainingWindows(bench.log.backfills, continued)).toEqual([again]);
    await exportWindow(bench, again);
    expect(await remainingWindows(bench.log.backfills, continued)).toEqual([]);
    expect(publishedWindows(bench)).toHaveLength(5);
  });
});

describe('a backfill with windows twice as long as those of an abandoned one', () => {
  it('is refused if one of those was exported', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    await exportWindow(bench, windowOf(0, 2));
    await abandonBackfill(operator, name);
    await expect(beginBackfill(operator, { ...request, windowMs: 4 * minute }, root)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('2026-11-01T00:00:00Z to 2026-11-01T00:02:00Z'),
    });
  });

  it('exports none of those, although each is half of one of its own', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    await abandonBackfill(operator, name);
    await beginBackfill(operator, { ...request, windowMs: 4 * minute }, root);
    expect(await windowBench(bench, windowOf(0, 2)).start()).toMatchObject({
      status: 'skipped',
      reason: expect.stringContaining('the backfill was abandoned'),
    });
    await exportWindow(bench, windowOf(0, 4));
    expect(publishedWindows(bench)).toEqual([['2026-11-01T00:00:00Z', '2026-11-01T00:04:00Z']]);
  });
});

describe('a window that has begun to be published', () => {
  it('is not abandoned, as an invocation may still write its manifest, and completes when it is started again', async () => {
    const { bench, name, operator } = aBench();
    const backfill = await beginBackfill(operator, request, root);
    await leavePublishing(bench, name, windowOf(0, 2));
    expect(await abandonBackfill(operator, name)).toMatchObject({ abandonedRuns: 0, publishing: [windowOf(0, 2)] });
    expect((await windowBench(bench, windowOf(0, 2)).start()).status).toBe('completed');
    expect((await windowBench(bench, windowOf(2, 4)).start()).status).toBe('skipped');
    expect(publishedWindows(bench)).toEqual([['2026-11-01T00:00:00Z', '2026-11-01T00:02:00Z']]);
    expect(await remainingWindows(bench.log.backfills, backfill)).toHaveLength(3);
  });

  it('excludes a backfill with other windows', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    await leavePublishing(bench, name, windowOf(0, 2));
    await abandonBackfill(operator, name);
    await expect(beginBackfill(operator, { ...request, windowMs: 3 * minute }, root)).rejects.toMatchObject({
      name: 'ConfigurationError',
    });
    await expect(beginBackfill(operator, request, root)).resolves.toMatchObject({ windowMs: 2 * minute });
  });
});

describe('a backfill after one whose abandonment ended half-way', () => {
  it('ends the runs that it has left', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    const window = windowOf(0, 2);
    const input = { export: windowName(name, window) };
    await beginRun(windowBench(bench, window).deps, { input, execution: 'first' });
    const backfill = await bench.log.backfills.read(name);
    if (backfill === undefined) throw new Error('no backfill');
    await bench.log.backfills.replace({ ...backfill, version: 2, abandonedAt: at('2026-11-20T03:00:00Z') });

    await beginBackfill(operator, { ...request, windowMs: 3 * minute }, root);
    expect((await bench.log.exportState(windowName(name, window)))?.active).toBeUndefined();
  });
});

describe('a window whose publication has failed', () => {
  it('is abandoned an hour later, unless its execution is running or its manifest exists', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    const window = windowOf(0, 2);
    await leavePublishing(bench, name, window);
    const { deps } = windowBench(bench, window);
    await failRun(deps, { failure: { Error: 'PageConflictError', Cause: 'a page is missing' }, execution: 'first' });
    const abandon = () => abandonBackfill(operator, name);
    const { active } = (await bench.log.exportState(windowName(name, window))) ?? {};
    if (active === undefined) throw new Error('no active run');

    expect(await abandon()).toMatchObject({
      abandonedRuns: 0,
      publishing: [{ ...window, run: active.run, state: 'failed', lastFailure: { message: 'a page is missing' } }],
    });
    bench.advance(3_600_000);
    bench.running.add('first');
    expect(await abandon()).toMatchObject({ abandonedRuns: 0, publishing: [{ state: 'running' }] });
    bench.running.clear();
    bench.store.objects.set(manifestKey(active), '{}');
    expect(await abandon()).toMatchObject({ abandonedRuns: 0, publishing: [{ state: 'published' }] });
    bench.store.objects.delete(manifestKey(active));
    expect(await abandon()).toMatchObject({ abandonedRuns: 1, publishing: [] });

    await beginBackfill(operator, request, root);
    await exportWindow(bench, window);
    expect(publishedWindows(bench)).toEqual([['2026-11-01T00:00:00Z', '2026-11-01T00:02:00Z']]);
  });
});

describe('a window that was cut off while it was published', () => {
  it('is abandoned at once where no invocation outlives its execution, as in a directory', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    await leavePublishing(bench, name, windowOf(0, 2));
    expect(await abandonBackfill(operator, name)).toMatchObject({
      abandonedRuns: 0,
      publishing: [{ state: 'interrupted', lastFailure: null }],
    });
    const here = { ...operator, maxInvocationMs: 0 };
    bench.running.add('first');
    expect(await abandonBackfill(here, name)).toMatchObject({ abandonedRuns: 0, publishing: [{ state: 'running' }] });
    bench.running.clear();
    expect(await abandonBackfill(here, name)).toMatchObject({ abandonedRuns: 1, publishing: [] });
    expect(publishedWindows(bench)).toEqual([]);
    await expect(beginBackfill(operator, { ...request, windowMs: 3 * minute }, root)).resolves.toMatchObject({
      version: 5,
      plan: 2,
    });
  });
});

describe('a backfill whose published windows the state does not have', () => {
  /** Two windows are published: the first one, and the third one in the run that was in progress when the state was copied. */
  async function aRestoredState() {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    const third = windowName(name, windowOf(4, 6));
    await beginRun(windowBench(bench, windowOf(4, 6)).deps, { input: { export: third }, execution: 'first' });
    const states = (await collect(bench.log.backfills.windowStates(name))).filter(({ active }) => active !== undefined);
    await exportWindow(bench, windowOf(0, 2));
    await exportWindow(bench, windowOf(4, 6));
    const restored = bench.with({ log: createMemoryLog() });
    for (const state of states) await restored.log.replaceState({ ...state, version: 1 });
    return { bench: restored, name, operator: operatorOf(restored), published: publishedWindows(bench) };
  }

  it('counts them as done, and exports the others', async () => {
    const { bench, name, operator, published } = await aRestoredState();
    expect((await planBackfill(operator, request)).map(({ done }) => done)).toEqual([true, false, true, false]);
    expect(await collect(bench.log.backfills.windowStates(name))).toHaveLength(1);
    const backfill = await beginBackfill(operator, request, root);
    expect(await remainingWindows(bench.log.backfills, backfill)).toEqual([windowOf(2, 4), windowOf(6, 8)]);
    expect((await windowBench(bench, windowOf(4, 6)).start()).status).toBe('skipped');
    expect(publishedWindows(bench)).toEqual(published);
  });

  it('is refused with windows that overlap them', async () => {
    const { operator } = await aRestoredState();
    for (const start of [beginBackfill, planBackfill]) {
      await expect(start(operator, { ...request, windowMs: 3 * minute }, root)).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringMatching(
          /which is none of these windows.*or --from 2026-11-01T00:06:00Z for what follows$/,
        ),
      });
    }
    const outside = { ...request, from: at('2026-11-01T00:06:00Z'), windowMs: minute };
    await expect(beginBackfill(operator, outside, root)).resolves.toMatchObject({ windowMs: minute });
  });

  it('is refused if they were exported with another filter', async () => {
    const { bench } = await aRestoredState();
    const other = bench.with({ definition: { request: anExportRequest({ size: 1, filter: { type: 'other' } }) } });
    await expect(beginBackfill(operatorOf(other), request, root)).rejects.toThrow(
      /has exported .* with another service, filter or format/,
    );
  });

  it('is refused while a manifest is missing: nothing says with which filter its window was exported', async () => {
    const { bench, operator } = await aRestoredState();
    for (const key of bench.store.objects.keys()) if (key.endsWith('/manifest.json')) bench.store.objects.delete(key);
    await expect(beginBackfill(operator, request, root)).rejects.toMatchObject({
      name: 'PageConflictError',
      message: expect.stringMatching(/manifest\.json is missing.*Restore/),
    });
  });
});

describe('a backfill with a later end, after one whose last window was shorter', () => {
  it('is refused, and can begin where that window ends', async () => {
    const { bench, operator } = aBench();
    const until = at('2026-11-01T00:03:00Z');
    await beginBackfill(operator, { ...request, to: until }, root);
    await exportWindow(bench, windowOf(0, 2));
    await exportWindow(bench, windowOf(2, 3));
    await expect(beginBackfill(operator, request, root)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('2026-11-01T00:02:00Z to 2026-11-01T00:03:00Z, which is none of these windows'),
    });
    await expect(beginBackfill(operator, request, root)).rejects.toThrow(
      /or --from 2026-11-01T00:03:00Z for what follows$/,
    );
    await expect(beginBackfill(operator, { ...request, from: until }, root)).resolves.toMatchObject({ from: until });
  });
});

describe('settings that change during a backfill', () => {
  const otherFilter = ({ bench, operator }: ReturnType<typeof aBench>) => {
    const definition = { ...operator.definition, request: anExportRequest({ size: 1, filter: { type: 'invoice' } }) };
    return { bench: bench.with({ definition }), operator: { ...operator, definition } };
  };

  it('stop it: windows of one backfill have one request', async () => {
    const before = aBench();
    await beginBackfill(before.operator, request, root);
    await exportWindow(before.bench, windowOf(0, 2));
    const { bench, operator } = otherFilter(before);
    expect(await windowBench(bench, windowOf(2, 4)).start()).toMatchObject({
      status: 'failed',
      failed: {
        error: 'ConfigurationError',
        message: expect.stringMatching(/have changed since its backfill began.*abandon --backfill/),
        since: '2026-11-01T00:02:00Z',
        until: '2026-11-01T00:04:00Z',
      },
    });
    await expect(beginBackfill(operator, request, root)).rejects.toThrow(
      /has exported 2026-11-01T00:00:00Z to 2026-11-01T00:02:00Z with another service, filter or format/,
    );
    await expect(beginBackfill(before.operator, request, root)).resolves.toMatchObject({ version: 2 });
  });

  it('stop it also if a window is unfinished, until it is abandoned', async () => {
    const before = aBench();
    await beginBackfill(before.operator, request, root);
    const input = { export: windowName(before.name, windowOf(0, 2)) };
    await beginRun(windowBench(before.bench, windowOf(0, 2)).deps, { input, execution: 'first' });
    const { bench, operator } = otherFilter(before);
    await expect(beginBackfill(operator, request, root)).rejects.toThrow(
      /has begun to export .* abandon the backfill first/,
    );
    await abandonBackfill(operator, before.name);
    await beginBackfill(operator, request, root);
    await exportWindow(bench, windowOf(0, 2));
    expect(windowManifestsOf(bench)).toMatchObject([{ filter: { type: 'invoice' } }]);
  });

  it.each(['window', 'backfill'] as const)(
    'refuse a window that begins while the backfill is started with other ones, or that start: the %s is first',
    async (first) => {
      const before = aBench();
      await beginBackfill(before.operator, request, root);
      const window = windowOf(0, 2);
      const input = { export: windowName(before.name, window) };
      const { deps } = windowBench(before.bench, window);
      const { operator } = otherFilter(before);
      const { log } = before.bench;
      const begin = (of: MemoryLog) => beginRun({ ...deps, log: of }, { input, execution: 'first' });
      const restart = (of: MemoryLog) => beginBackfill(withLog(operator, of), request, root);
      const second =
        first === 'window'
          ? restart(suspendedAt(log, 'replaceState', () => begin(log)))
          : begin(suspendedAt(log, 'replaceState', () => restart(log)));
      await expect(second).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringMatching(/Restore/),
      });
      const { active } = (await log.exportState(input.export)) ?? {};
      expect(active?.execution).toBe(first === 'window' ? 'first' : undefined);
    },
  );

  it('do not stop a window that is being published', async () => {
    const before = aBench();
    await beginBackfill(before.operator, request, root);
    await leavePublishing(before.bench, before.name, windowOf(0, 2));
    const { bench } = otherFilter(before);
    expect((await windowBench(bench, windowOf(0, 2)).start()).status).toBe('completed');
    expect(windowManifestsOf(bench)[0]?.filter).toEqual({
      date: { gte: '2026-11-01T00:00:00Z', lt: '2026-11-01T00:02:00Z' },
    });
  });

  it('do not matter if they only change the size of pages', async () => {
    const { bench, operator } = aBench();
    await beginBackfill(operator, request, root);
    await exportWindow(bench, windowOf(0, 2));
    const definition = { ...operator.definition, request: { ...operator.definition.request, size: 2 } };
    await beginBackfill({ ...operator, definition }, request, root);
    await exportWindow(bench.with({ definition }), windowOf(2, 4));
    expect(publishedWindows(bench)).toHaveLength(2);
  });
});

describe('windows that begin in the same second', () => {
  it('have run IDs with twelve random digits: under one name, six would not always differ', async () => {
    const { bench, name, operator } = aBench();
    await beginBackfill(operator, request, root);
    const { deps } = windowBench(bench, windowOf(0, 2));
    const runtime = { ...deps.runtime, now: () => 0, randomHex: (length: number) => 'a'.repeat(length) };
    const input = { export: windowName(name, windowOf(0, 2)) };
    const begun = await beginRun({ ...deps, runtime }, { input, execution: 'first' });
    expect(begun).toMatchObject({ run: '19700101T000000Z-aaaaaaaaaaaa' });
    expect(await bench.start()).toMatchObject({ result: { run: expect.stringMatching(/-[0-9a-f]{6}$/) } });
  });
});
