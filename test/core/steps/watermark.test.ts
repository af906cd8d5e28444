/** How the watermark moves when clocks disagree or runs overlap. */

import { describe, expect, it } from 'vitest';
import { watermarkAfter } from '../../../lib/core/steps/watermark.ts';
import { anExportDefinition, anExportState, aPageEntry, aRun, at } from '../../support/builders.ts';

describe('the watermark', () => {
  it.each([
    [
      'our own clock, if the service’s is more than a day ahead',
      '2026-11-20T02:00:00Z',
      '2026-11-25T00:00:00Z',
      '2026-11-20T02:00:00Z',
    ],
    ['the earlier clock, if both are ahead', '2026-11-27T02:00:00Z', '2026-11-25T00:00:00Z', '2026-11-25T00:00:00Z'],
    ["the service's clock, however far behind", '2026-11-20T02:00:00Z', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z'],
  ])('is %s', (_, startedAt, serviceTime, expected) => {
    const run = aRun({ startedAt: at(startedAt) });
    const first = aPageEntry({ serviceTime: at(serviceTime), loggedAt: at('2026-11-20T02:00:01Z') });
    expect(watermarkAfter(anExportState(), anExportDefinition(), run, first)?.instant).toBe(expected);
  });

  it.each([
    ['starts where the next one would have started', '2026-11-20T00:50:00Z', '2026-11-20T02:00:00Z'],
    // A report dated before that and added later would be requested by no later run.
    ['starts within the overlap', '2026-11-20T00:50:00.001Z', '2026-11-20T01:00:00Z'],
  ])('is right after a run that %s', (_, since, expected) => {
    const definition = anExportDefinition({ since: { from: 'watermark', overlapMs: 600_000 } });
    const run = aRun({ since: at(since) });
    const { source, filter } = run.request;
    const state = anExportState({ watermark: { instant: at('2026-11-20T01:00:00Z'), source, filter } });
    const first = aPageEntry({ serviceTime: at('2026-11-20T02:00:00Z'), loggedAt: at('2026-11-20T02:00:01Z') });
    expect(watermarkAfter(state, definition, run, first)?.instant).toBe(expected);
  });
});
