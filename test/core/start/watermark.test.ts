/** How the watermark moves when clocks disagree or runs overlap. */

import { describe, expect, it } from 'vitest';
import type { Instant, PageEntry, Run } from '../../../lib/core/model.ts';
import { watermarkAfter } from '../../../lib/core/start/watermark.ts';
import {
  anExportDefinition,
  anExportRequest,
  anExportState,
  aPageEntry,
  aRun,
  at,
  aWatermark,
} from '../../support/builders.ts';

describe('the watermark', () => {
  it.each([
    ['our own clock, if the service’s is ahead', '2026-11-20T02:00:05Z', '2026-11-20T02:00:04Z'],
    ['our own clock, if the Date is that of a wrong clock', '2026-11-20T07:00:03Z', '2026-11-20T02:00:04Z'],
    ['our own clock, if the Date is in the far future', '2036-11-25T00:00:00Z', '2026-11-20T02:00:04Z'],
    ["the service's clock, if ours is ahead", '2026-11-20T02:00:03Z', '2026-11-20T02:00:03Z'],
    ["the service's clock, however slow", '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z'],
  ])('is %s', (_, serviceTime, expected) => {
    const run = aRun({ startedAt: at('2026-11-20T02:00:00Z') });
    const timing = { requestedAt: at('2026-11-20T02:00:04Z'), latencyMs: 1 };
    const first = aPageEntry({ serviceTime: at(serviceTime), timing });
    expect(watermarkAfter(anExportState(), anExportDefinition(), run, [first])).toBe(expected);
  });

  it('is the earliest of when the run began and of all first pages of its slices, less the lag', () => {
    const slices = { count: 3, lengthMs: 3_600_000, parallel: 3 };
    const run = aRun({ startedAt: at('2026-11-20T02:00:00Z'), slices });
    const timing = { requestedAt: at('2026-11-20T02:10:00Z'), latencyMs: 1 };
    const after = (lagMs: number, ...times: readonly string[]) =>
      watermarkAfter(
        anExportState(),
        anExportDefinition(),
        { ...run, lagMs },
        times.map((serviceTime) => aPageEntry({ serviceTime: at(serviceTime), timing })),
      );
    expect(after(0, '2026-11-20T02:00:01Z', '2026-11-20T01:59:58Z', '2026-11-20T02:05:00Z')).toBe(
      '2026-11-20T01:59:58Z',
    );
    expect(after(0, '2026-11-20T02:10:01Z', '2026-11-20T02:10:02Z')).toBe('2026-11-20T02:00:00Z');
    expect(after(60_000, '2026-11-20T02:10:01Z')).toBe('2026-11-20T01:59:00Z');
  });

  it('is not after the upper bound of the run', () => {
    const until = at('2026-11-20T01:00:00Z');
    const run = aRun({ startedAt: at('2026-11-20T02:00:00Z'), until, lagMs: 3_000_000 });
    const first = aPageEntry({ serviceTime: at('2026-11-20T02:00:00Z') });
    expect(watermarkAfter(anExportState(), anExportDefinition(), run, [first])).toBe(until);
  });

  it.each([
    ['starts where the next one would have started', '2026-11-20T00:50:00Z', '2026-11-20T02:00:00Z'],
    ['starts before that', '2026-11-05T00:00:00Z', '2026-11-20T02:00:00Z'],
    // A report dated before that and added later would be requested by no later run.
    ['starts within the overlap', '2026-11-20T00:50:00.001Z', '2026-11-20T01:00:00Z'],
    ['starts after it, so that reports in between would be missed', '2026-11-20T01:30:00Z', '2026-11-20T01:00:00Z'],
    ['has a service whose clock was set back', '2026-11-20T00:50:00Z', '2026-11-20T01:00:00Z', '2026-11-19T00:00:00Z'],
  ])('is right after a run that %s', (_, since, expected, serviceTime = '2026-11-20T02:00:00Z') => {
    const definition = anExportDefinition({ since: { from: 'watermark', overlapMs: 600_000 } });
    const run = aRun({ since: at(since) });
    const state = anExportState({ watermark: aWatermark({ instant: at('2026-11-20T01:00:00Z') }) });
    expect(watermarkAfter(state, definition, run, [aPageEntry({ serviceTime: at(serviceTime) })])).toBe(expected);
  });

  it.each([
    ['starts after since.initial', '2026-11-10T00:00:00Z', undefined],
    ['starts at since.initial', '2026-11-01T00:00:00Z', '2026-11-20T02:00:00Z'],
    ['ends before since.initial: the next run starts there', '2026-09-01T00:00:00Z', '2026-10-01T00:00:00Z'],
    ['starts before since.initial, with a service whose clock is slow', '2026-10-15T00:00:00Z', '2026-10-15T00:00:00Z'],
  ])('is right after a first run that %s', (_, since, expected) => {
    const initial = at('2026-11-01T00:00:00Z');
    const definition = anExportDefinition({ since: { from: 'watermark', initial, overlapMs: 0 } });
    const run = aRun({ since: at(since) });
    const serviceTime = at(since < initial ? '2026-10-01T00:00:00Z' : '2026-11-20T02:00:00Z');
    expect(watermarkAfter(anExportState(), definition, run, [aPageEntry({ serviceTime })])).toBe(expected);
  });

  const described = anExportRequest({ api: { ...anExportRequest().api, pagination: 'link' } });
  const timing = { requestedAt: at('2026-11-20T02:00:04Z'), latencyMs: 1 };
  it.each<[what: string, serviceTime: Instant | null, page: Partial<PageEntry>, run?: Partial<Run>]>([
    ['the first page was adopted', at('2026-11-20T02:00:01Z'), { timing: null }],
    ['the service sends no Date', null, { timing: null }],
    ['requests may have no reports since then', at('2026-11-20T02:00:09Z'), { timing }, { request: described }],
  ])('is our own clock at the start of the run if %s', (_, serviceTime, page, ofRun = {}) => {
    const run = aRun({ startedAt: at('2026-11-20T02:00:00Z'), ...ofRun });
    const first = aPageEntry({ serviceTime, ...page });
    expect(watermarkAfter(anExportState(), anExportDefinition(), run, [first])).toBe(run.startedAt);
  });
});
