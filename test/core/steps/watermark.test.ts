/** How the watermark moves when clocks disagree or runs overlap. */

import { describe, expect, it } from 'vitest';
import { watermarkAfter } from '../../../lib/core/steps/watermark.ts';
import { anExportDefinition, anExportState, aPageEntry, aRun, at, aWatermark } from '../../support/builders.ts';

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
    expect(watermarkAfter(anExportState(), anExportDefinition(), run, first)).toBe(expected);
  });

  it('is at most the start of the run, by our own clock, if the first page was adopted', () => {
    const run = aRun({ startedAt: at('2026-11-20T02:00:00Z') });
    const first = aPageEntry({ serviceTime: at('2026-11-20T02:00:01Z'), timing: null });
    expect(watermarkAfter(anExportState(), anExportDefinition(), run, first)).toBe('2026-11-20T02:00:00Z');
  });

  it.each([
    ['starts where the next one would have started', '2026-11-20T00:50:00Z', '2026-11-20T02:00:00Z'],
    // A report dated before that and added later would be requested by no later run.
    ['starts within the overlap', '2026-11-20T00:50:00.001Z', '2026-11-20T01:00:00Z'],
  ])('is right after a run that %s', (_, since, expected) => {
    const definition = anExportDefinition({ since: { from: 'watermark', overlapMs: 600_000 } });
    const run = aRun({ since: at(since) });
    const state = anExportState({ watermark: aWatermark({ instant: at('2026-11-20T01:00:00Z') }) });
    const first = aPageEntry({ serviceTime: at('2026-11-20T02:00:00Z') });
    expect(watermarkAfter(state, definition, run, first)).toBe(expected);
  });
});
