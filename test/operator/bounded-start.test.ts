/** A report is in two runs if their bounds overlap, so such starts are refused before anything is requested. */

import { describe, expect, it } from 'vitest';
import { boundedStateName } from '../../lib/core/bounded-runs.ts';
import type { Bounds, ExportDefinition, ExportState } from '../../lib/core/model.ts';
import { findStarts, type RequestedStart } from '../../lib/operator/bounded-start.ts';
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
const find = async (states: readonly ExportState[], request: RequestedStart, changes?: Partial<ExportDefinition>) =>
  await findStarts(exportWith(states, changes), request, now);
const left = (...starts: readonly object[]) => ({ kind: 'left', left: starts });

describe('a bounded start', () => {
  it('has something to do if no other has its bounds, or its run is unfinished', async () => {
    expect(await find([], january)).toEqual(left(january));
    expect(await find([unfinished(january)], january)).toEqual(left(january));
    // With --again, a run of these bounds began after another one had completed.
    expect(await find([{ ...done(january), ...unfinished(january) }], january)).toEqual(left(january));
  });

  it('from a day to an instant has the first moment of the day in the zone of the dates', async () => {
    const dates = { unitMs: 86_400_000, zone: 'Europe/Berlin', upperBound: '{until}' };
    const request = { since: at('2026-01-01T00:00:00Z'), until: at('2026-01-31T23:00:00Z'), days: ['since'] as const };
    const january = { since: '2025-12-31T23:00:00Z', until: '2026-01-31T23:00:00Z' };
    expect(await find([], request, { dates })).toEqual(left(january));
    const unknown = { ...dates, zone: undefined };
    const regular = { since: request.since, days: request.days };
    expect(await find([], regular, { dates: unknown })).toEqual(left({ since: '2026-01-01T00:00:00Z' }));
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
    expect(await find([state], { ...overlapping, again: true })).toMatchObject({ kind: 'left' });
  });

  it('may touch another one, and overlap one that was abandoned', async () => {
    expect(await find([done(january)], february)).toEqual(left(february));
    expect(await find([done(february)], january)).toEqual(left(january));
    expect(await find([stateOf(january, {})], quarter)).toEqual(left(quarter));
  });
});

describe('the starts of a period with --each', () => {
  const series = { ...quarter, each: 'month' };
  const march = bounds('2026-03-01', '2026-04-01');

  it('are the bounded runs that are left, and none when all are complete', async () => {
    expect(await find([], { ...series, parallel: 2 })).toEqual(
      left(...[january, february, march].map((part) => ({ ...part, parallel: 2 }))),
    );
    expect(await find([done(january), unfinished(february)], series)).toEqual(left(february, march));
    const all = [january, february, march].map(done);
    expect(await find(all, series)).toMatchObject({ reason: expect.stringMatching(/^3 runs have exported nightly/) });
    const again = [january, february, march].map((part) => ({ ...part, again: true }));
    expect(await find(all, { ...series, again: true })).toEqual(left(...again));
  });

  it.each([
    ['calendar months', 'UTC', 'month', '2026-01-15T00:00:00Z', '2026-02-10T00:00:00Z', ['2026-02-01T00:00:00Z']],
    ['a duration', 'UTC', 'P14D', '2026-01-01T00:00:00Z', '2026-01-20T00:00:00Z', ['2026-01-15T00:00:00Z']],
    // Summer time begins on March 29.
    [
      'days of a zone',
      'Europe/Berlin',
      'P1D',
      '2026-03-28T23:00:00Z',
      '2026-03-30T22:00:00Z',
      ['2026-03-29T22:00:00Z'],
    ],
  ])('touch each other, and have %s', async (_, zone, each, since, until, cuts) => {
    const instants = [since, ...cuts, until].map(at);
    const parts = cuts.concat(until).map((_end, index) => ({ since: instants[index], until: instants[index + 1] }));
    const dates = { unitMs: 1_000, zone, upperBound: 'date.lt' };
    expect(await find([], { since: at(since), until: at(until), each }, { dates })).toEqual(left(...parts));
  });

  it('are refused if there are too many, or their length is no multiple of the unit of dates', async () => {
    await expect(find([], { ...quarter, each: 'PT1M' })).rejects.toThrow('--each: results in more than 1000 runs');
    const dates = { unitMs: 86_400_000, zone: 'UTC', upperBound: 'date.lt' };
    await expect(find([], { ...quarter, each: 'PT36H' }, { dates })).rejects.toThrow('--each: must be in whole days');
  });

  it('are refused if they overlap runs with other cuts', async () => {
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

  it.each(['2026-10-25T00:30:00Z', '2026-10-25T01:00:00Z', '2026-10-25T01:30:00Z'])(
    'is refused if a bound is in the hour that the clocks of the API repeat: %s',
    async (bound) => {
      const dates = { unitMs: 1_000, zone: 'Europe/Berlin', upperBound: '{until}' };
      const problem =
        'the clocks of Europe/Berlin show this time twice, so requests cannot have it as a bound. ' +
        'Choose 2026-10-25T00:00:00Z or 2026-10-25T02:00:00Z';
      const [from, to] = [at('2026-10-24T00:30:00Z'), at('2026-10-27T00:30:00Z')];
      await expect(find([], { since: at(bound), until: to }, { dates })).rejects.toThrow(`--since: ${problem}`);
      await expect(find([], { since: from, until: at(bound) }, { dates })).rejects.toThrow(`--until: ${problem}`);
    },
  );

  it('is refused if --each results in such a bound', async () => {
    const dates = { unitMs: 1_000, zone: 'Europe/Berlin', upperBound: '{until}' };
    const series = { since: at('2026-10-23T00:30:00Z'), until: at('2026-10-27T01:30:00Z'), each: 'P1D' };
    await expect(find([], series, { dates })).rejects.toThrow(
      '--each: a run would begin at 2026-10-25T00:30:00Z: the clocks of Europe/Berlin show this time twice',
    );
  });
});
