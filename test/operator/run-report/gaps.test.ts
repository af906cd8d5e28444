import { describe, expect, it } from 'vitest';
import { asRunId, type ExportState } from '../../../lib/core/model.ts';
import { type CoveringRun, findGaps, hasUnknownDates, reachOf } from '../../../lib/operator/run-report/gaps.ts';
import { anExportDefinition, anExportState, aRun, at, aWatermark } from '../../support/builders.ts';

const definition = anExportDefinition();
const day = (number: number) => at(`2026-11-${String(number).padStart(2, '0')}T00:00:00Z`);

/** A completed run of day `started`, whose service has the same clock. */
const aCoveringRun = (since: number | null, started: number, overrides: Partial<CoveringRun> = {}): CoveringRun => ({
  run: asRunId(`202611${String(started).padStart(2, '0')}T000000Z-1f3a5c`),
  state: 'completed',
  since: since === null ? null : day(since),
  startedAt: day(started),
  completedAt: day(started),
  serviceStartedAt: day(started),
  pages: 3,
  ...overrides,
});
const gapsOf = (runs: readonly CoveringRun[], state?: ExportState) => findGaps(runs, state, definition);

describe('the gaps of an export', () => {
  it('are none if each run starts where the one before it reached, or earlier', () => {
    expect(gapsOf([])).toEqual([]);
    expect(gapsOf([aCoveringRun(9, 10)])).toEqual([]);
    expect(gapsOf([aCoveringRun(11, 12), aCoveringRun(9, 11), aCoveringRun(1, 10)])).toEqual([]);
  });

  it('are the dates between two runs', () => {
    expect(gapsOf([aCoveringRun(13, 14), aCoveringRun(12, 13), aCoveringRun(9, 10)])).toEqual([
      { from: day(10), to: day(12), before: '20261113T000000Z-1f3a5c', closedBy: null },
    ]);
  });

  it('are the dates after the upper bound of a run, unless the next one starts there', () => {
    const lagging = aCoveringRun(9, 12, { until: day(11) });
    expect(gapsOf([aCoveringRun(11, 13), lagging])).toEqual([]);
    expect(gapsOf([aCoveringRun(12, 13), lagging])).toMatchObject([{ from: day(11), to: day(12) }]);
  });

  it.each([
    ['by a later run with an earlier since', [aCoveringRun(10, 14), aCoveringRun(12, 13), aCoveringRun(9, 10)], []],
    ['in part', [aCoveringRun(11, 12), aCoveringRun(15, 16), aCoveringRun(9, 10)], [day(10), day(12)]],
    [
      'not by a failed run',
      [aCoveringRun(10, 14, { state: 'failed' }), aCoveringRun(12, 13), aCoveringRun(9, 10)],
      [day(10)],
    ],
    [
      'not by an abandoned run',
      [aCoveringRun(null, 14, { state: 'abandoned' }), aCoveringRun(12, 13), aCoveringRun(9, 10)],
      [day(10)],
    ],
    [
      'not by a run that starts in its future',
      [aCoveringRun(15, 13), aCoveringRun(11, 12), aCoveringRun(9, 10)],
      [day(10)],
    ],
    ['perhaps by a run of unknown since', [aCoveringRun(null, 14), aCoveringRun(12, 13), aCoveringRun(9, 10)], []],
  ])('are closed %s', (_, runs, starts) => {
    expect(gapsOf(runs).map(({ from }) => from)).toEqual(starts);
  });

  it.each([
    ['a damaged manifest', { since: null, completedAt: null, serviceStartedAt: null }],
    ['an empty run of several pages', { state: 'empty', serviceStartedAt: null }],
  ] as const)('are not claimed after %s, of which it is not known where it reached', (_, unknown) => {
    const run = aCoveringRun(10, 11, unknown);
    expect([reachOf(run), hasUnknownDates(run)]).toEqual([null, true]);
    expect(gapsOf([aCoveringRun(12, 13), run, aCoveringRun(9, 10)])).toEqual([]);
    expect(gapsOf([aCoveringRun(12, 13), run])).toEqual([]);
    // A later run shows how far the dates are covered.
    const later = [aCoveringRun(14, 15), aCoveringRun(11, 12), run, aCoveringRun(9, 10)];
    expect(gapsOf(later)).toMatchObject([{ from: day(12), to: day(14) }]);
  });

  it('are claimed after completed runs of a service without a clock', () => {
    const published = aCoveringRun(9, 10, { serviceStartedAt: null });
    const empty = aCoveringRun(9, 10, { serviceStartedAt: null, state: 'empty', pages: 1 });
    for (const run of [published, empty]) {
      expect([reachOf(run), hasUnknownDates(run)]).toEqual([day(10), false]);
      expect(gapsOf([aCoveringRun(12, 13), run])).toMatchObject([{ from: day(10), to: day(12) }]);
    }
  });

  it('say what will close them: the unfinished run, the next one, or nothing', () => {
    const runs = [aCoveringRun(12, 13), aCoveringRun(9, 10)];
    const closing = (state: Partial<ExportState>) => gapsOf(runs, anExportState(state)).map(({ closedBy }) => closedBy);
    const watermark = aWatermark({ instant: day(10) });
    expect(closing({ watermark })).toEqual(['next-run']);
    expect(closing({ watermark: { ...watermark, instant: day(13) } })).toEqual([null]);
    expect(closing({ watermark: { ...watermark, filter: { type: 'other' } } })).toEqual([null]);
    expect(closing({ watermark: { ...watermark, requestSha256: 'other headers' } })).toEqual([null]);
    expect(closing({ active: aRun({ since: day(10) }) })).toEqual(['unfinished-run']);
    expect(closing({ active: aRun({ since: day(13) }) })).toEqual([null]);
  });
});

describe('a completed run', () => {
  it('reaches the clock of the service at its first request, or else its own start', () => {
    const run = aCoveringRun(9, 10);
    expect(reachOf({ ...run, serviceStartedAt: at('2026-11-09T23:59:58Z') })).toBe('2026-11-09T23:59:58Z');
    expect(reachOf({ ...run, serviceStartedAt: null })).toBe(day(10));
    expect(reachOf({ ...run, serviceStartedAt: at('2031-01-01T00:00:00Z') })).toBe(day(10));
    expect(reachOf({ ...run, state: 'abandoned' })).toBeNull();
  });
});
