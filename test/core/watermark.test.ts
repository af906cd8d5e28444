/** Where the next run starts, where clocks cannot be believed. */

import { describe, expect, it } from 'vitest';
import { watermarkAfter } from '../../lib/core/watermark.ts';
import { aHead, anExportDefinition, aPageEntry, aRun, at } from '../support/builders.ts';

describe('the watermark', () => {
  it.each([
    [
      'our own, where that of the service runs more than a day ahead',
      '2026-11-20T02:00:00Z',
      '2026-11-25T00:00:00Z',
      '2026-11-20T02:00:00Z',
    ],
    [
      'the earlier, where ours ran further ahead as the run began',
      '2026-11-27T02:00:00Z',
      '2026-11-25T00:00:00Z',
      '2026-11-25T00:00:00Z',
    ],
    ["the service's, however far behind", '2026-11-20T02:00:00Z', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z'],
  ])('is %s', (_, startedAt, serviceTime, expected) => {
    const run = aRun({ startedAt: at(startedAt) });
    const first = aPageEntry({ serviceTime: at(serviceTime), loggedAt: at('2026-11-20T02:00:01Z') });
    expect(watermarkAfter(aHead(), anExportDefinition(), run, first)?.instant).toBe(expected);
  });
});
