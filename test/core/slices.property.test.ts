/** How the period of a run is cut into slices. */

import { describe, expect } from 'vitest';
import type { ExportState, RequestDates, Run, Slicing } from '../../lib/core/model.ts';
import { chooseSlices, hasSlices, maxSlices, sliceCountOf, sliceOf } from '../../lib/core/slices.ts';
import { wallClockOf } from '../../lib/core/time/time-zones.ts';
import { epochMsOf, instantOf } from '../../lib/core/timestamps.ts';
import { aRun, at } from '../support/builders.ts';
import { fc, it, test } from '../support/property.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

const seconds: RequestDates = { unitMs: 1_000, zone: 'UTC' };

function sliced(
  run: Partial<Run>,
  slicing: Slicing,
  dates: RequestDates = seconds,
  lastCompleted?: ExportState['lastCompleted'],
): Run {
  const period = aRun(run);
  return { ...period, slices: chooseSlices(period, slicing, dates, lastCompleted) };
}

const countOf = (run: Run): number => run.slices?.count ?? 1;

/** A completed run with so many pages in a day. */
const aDayWith = (pages: number) =>
  ({
    completedAt: at('2026-11-20T00:00:00Z'),
    result: { since: at('2026-11-19T00:00:00Z'), pages },
  }) as NonNullable<ExportState['lastCompleted']>;

describe('the slices of a run', () => {
  it.prop([
    fc.record({
      since: fc.integer({ min: 1, max: Date.UTC(2030, 0) }),
      periodMs: fc.integer({ min: 1, max: 20 * 365 * dayMs }),
      isOpen: fc.boolean(),
      parallel: fc.integer({ min: 1, max: 16 }),
      minutes: fc.option(fc.integer({ min: 1, max: 100_000 })),
      pages: fc.option(fc.integer({ min: 1, max: 100_000 })),
      isDaily: fc.boolean(),
      zone: fc.constantFrom('UTC', 'America/Los_Angeles', 'Australia/Lord_Howe'),
    }),
  ])('touch, cover its period, and are cut at multiples of a length since 1970', (options) => {
    const { since, periodMs, isOpen, parallel, minutes, pages, zone } = options;
    const isDaily = options.isDaily || zone !== 'UTC';
    const dates = { unitMs: isDaily ? dayMs : 1_000, zone };
    const end = instantOf(since + periodMs);
    const bounds = isOpen ? { startedAt: end } : { startedAt: instantOf(since + periodMs + dayMs), until: end };
    const lengthMs = minutes === null ? undefined : minutes * (isDaily ? dayMs : minuteMs);
    const last = pages === null ? undefined : aDayWith(pages);
    const run = sliced({ since: instantOf(since), ...bounds }, { parallel, lengthMs }, dates, last);
    const slices = Array.from({ length: sliceCountOf(run) }, (_, index) => sliceOf(run, index + 1));

    expect(slices[0]?.since).toBe(run.since);
    expect(slices.at(-1)?.until).toBe(run.until);
    expect(slices).toHaveLength(countOf(run));
    expect(slices.length).toBeLessThanOrEqual(maxSlices);
    for (const [index, slice] of slices.entries()) {
      const next = slices[index + 1];
      expect(slice.slice).toBe(run.slices && index + 1);
      if (next === undefined) continue;
      expect(slice.until).toBe(next.since);
      const cut = epochMsOf(next.since);
      expect(wallClockOf(cut, zone) % (run.slices?.lengthMs ?? 1)).toBe(0);
      expect(wallClockOf(cut, zone) % Math.max(minuteMs, dates.unitMs)).toBe(0);
      expect(cut).toBeGreaterThan(epochMsOf(slice.since));
      expect(cut).toBeLessThan(epochMsOf(end));
    }
    if (lengthMs !== undefined) expect(hasSlices(run, lengthMs, dates)).toBe(true);
  });

  const night = { since: at('2026-11-19T02:00:30Z'), startedAt: at('2026-11-20T02:00:30Z') };

  test('are about eight for each that is walked at the same time', () => {
    for (const parallel of [2, 4, 8, 16]) {
      const count = countOf(sliced(night, { parallel }));
      expect(count).toBeGreaterThan(6 * parallel);
      expect(count).toBeLessThanOrEqual(8 * parallel + 1);
    }
  });

  test('are fewer if the last run suggests fewer than eight pages for each', () => {
    const parallel = 8;
    expect(countOf(sliced(night, { parallel }, seconds, aDayWith(7)))).toBe(1);
    expect(countOf(sliced(night, { parallel }, seconds, aDayWith(80)))).toBeLessThanOrEqual(11);
    expect(countOf(sliced(night, { parallel }, seconds, aDayWith(10_000)))).toBeGreaterThan(48);
    // A run from the beginning of time says nothing about a night.
    const first = { ...aDayWith(10), result: { ...aDayWith(10).result, since: at('1970-01-01T00:00:00Z') } };
    expect(countOf(sliced(night, { parallel }, seconds, first))).toBeGreaterThan(48);
  });

  test('are one if nothing else is said, and for a run from the beginning of time', () => {
    expect(countOf(sliced(night, { parallel: 1 }))).toBe(1);
    expect(countOf(sliced({ ...night, since: at('1970-01-01T00:00:00Z') }, { parallel: 8, lengthMs: dayMs }))).toBe(1);
  });

  test('are longer than requested if there would be more than a thousand', () => {
    const run = sliced({ ...night, since: at('2026-01-01T00:00:00Z') }, { parallel: 4, lengthMs: minuteMs });
    expect(countOf(run)).toBeLessThanOrEqual(maxSlices);
    expect((run.slices?.lengthMs ?? 0.5) % minuteMs).toBe(0);
    expect(hasSlices(run, minuteMs, seconds)).toBe(true);
    expect(hasSlices(run, 2 * dayMs, seconds)).toBe(false);
  });

  test('are as long as requested if there are exactly a thousand', () => {
    const startedAt = instantOf(epochMsOf(night.since) - 30_000 + 1_000 * minuteMs);
    const run = sliced({ since: night.since, startedAt }, { parallel: 4, lengthMs: minuteMs });
    expect(run.slices).toMatchObject({ count: 1_000, lengthMs: minuteMs });
  });
});
