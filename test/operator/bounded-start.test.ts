/** A report is in two runs if their bounds overlap, so such starts are refused before anything is requested. */

import { describe, expect, it } from 'vitest';
import { boundedStateName } from '../../lib/core/bounded-runs.ts';
import type { Bounds, ExportDefinition, ExportState } from '../../lib/core/model.ts';
import { findDone } from '../../lib/operator/bounded-start.ts';
import type { StartRequest } from '../../lib/core/steps/start-input.ts';
import { aCompletion, anExportDefinition, anExportState, aRun, at } from '../support/builders.ts';

const now = Date.parse('2026-11-20T12:00:00Z');
const day = (date: string) => at(`${date}T00:00:00Z`);
const bounds = (since: string, until: string): Bounds => ({ since: day(since), until: day(until) });
const january = bounds('2026-01-01', '2026-02-01');
const february = bounds('2026-02-01', '2026-03-01');
const quarter = bounds('2026-01-01', '2026-04-01');

const stateOf = (of: Bounds, state: Partial<ExportState>) =>
  anExportState({ export: boundedStateName('nightly', of), ...state });
const unfinished = (of: Bounds) => stateOf(of, { active: aRun({ export: 'nightly', ...of, bounded: true }) });
const done = (of: Bounds) =>
  stateOf(of, { lastCompleted: aCompletion('x', { export: 'nightly', ...of, bounded: true }) });

const definition: ExportDefinition = anExportDefinition({
  name: 'nightly',
  stateName: 'nightly',
  dates: { unitMs: 1_000, zone: 'UTC', upperBound: 'date.lt' },
});
const exportWith = (states: readonly ExportState[], changes: Partial<ExportDefinition> = {}) => ({
  definition: { ...definition, ...changes },
  log: {
    async *boundedStates() {
      yield* states;
    },
  },
});
const find = async (states: readonly ExportState[], request: StartRequest, changes?: Partial<ExportDefinition>) =>
  await findDone(exportWith(states, changes), request, now);

describe('a bounded start', () => {
  it('has something to do if no other has its bounds, or its run is unfinished', async () => {
    expect(await find([], january)).toBeUndefined();
    expect(await find([unfinished(january)], january)).toBeUndefined();
    // With --again, a run of these bounds began after another one had completed.
    expect(await find([{ ...done(january), ...unfinished(january) }], january)).toBeUndefined();
  });

  it('has nothing to do if its bounds have been exported', async () => {
    const state = done(january);
    expect(await find([state], january)).toBe(
      `run ${state.lastCompleted?.result.run} has exported nightly from 2026-01-01T00:00:00Z to 2026-02-01T00:00:00Z. ` +
        'To export it again: --again',
    );
    expect(await find([state], { ...january, again: true })).toBeUndefined();
  });

  it.each([
    [
      'is unfinished',
      unfinished(january),
      ', which is unfinished, so reports would be in two runs. Start with its bounds to complete it, or abandon it. ' +
        'Or choose bounds beside it, or start with --again',
    ],
    [
      'is complete',
      done(january),
      ', so reports would be in two runs. Choose bounds beside it, or start with --again to export them again',
    ],
  ])('is refused if it overlaps another bounded run, which %s', async (_, state, end) => {
    const overlapping = bounds('2026-01-31', '2026-02-02');
    const run = state.active?.run ?? state.lastCompleted?.result.run;
    await expect(find([state], overlapping)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message:
        `The bounds overlap the bounded run ${run} of export nightly, from 2026-01-01T00:00:00Z to ` +
        `2026-02-01T00:00:00Z${end}`,
    });
    expect(await find([state], { ...overlapping, again: true })).toBeUndefined();
  });

  it('may touch another one, and overlap one that was abandoned', async () => {
    expect(await find([done(january)], february)).toBeUndefined();
    expect(await find([done(february)], january)).toBeUndefined();
    expect(await find([stateOf(january, {})], quarter)).toBeUndefined();
  });
});

describe('the start of a series', () => {
  const series = { ...quarter, each: 'month' };
  const march = bounds('2026-03-01', '2026-04-01');

  it('continues with the parts that are left, and is done when none is', async () => {
    expect(await find([done(january), unfinished(february)], series)).toBeUndefined();
    expect(await find([january, february, march].map(done), series)).toMatch(/^3 runs have exported nightly from/);
  });

  it('is refused if its parts overlap runs with other cuts', async () => {
    await expect(find([done(bounds('2026-01-01', '2026-01-08'))], series)).rejects.toThrow(/overlap the bounded run/);
    await expect(find([done(quarter)], series)).rejects.toThrow(/overlap the bounded run/);
    await expect(find([done(january)], { ...quarter, each: 'P7D' })).rejects.toThrow(/overlap the bounded run/);
  });
});

describe('what a start says about bounds and slices', () => {
  it('is refused with every problem, each by its option', async () => {
    const request = { since: at('2026-01-01T00:00:00.500Z'), until: at('2026-12-01T00:00:00Z') };
    await expect(find([], request)).rejects.toMatchObject({
      message:
        '--since: must be in whole seconds (UTC), such as 2026-01-01T00:00:00Z: requests have no finer dates, so slices or runs would overlap\n' +
        '--until: must not be after 2026-11-20T12:00:00Z, which is now: later reports would never be exported',
    });
  });
});
