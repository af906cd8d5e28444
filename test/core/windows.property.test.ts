/** Windows of a backfill: whatever the bounds, the length and the splits, each instant of the backfill is in one of them. */

import { describe, expect } from 'vitest';
import type { Window } from '../../lib/core/model.ts';
import { epochMsOf, instantOf } from '../../lib/core/timestamps.ts';
import {
  ancestorsOf,
  countFirstWindows,
  currentWindows,
  firstWindows,
  isWindowOf,
  parseWindowName,
  partsOf,
  splitPoint,
  windowName,
  windowsPrefix,
} from '../../lib/core/windows.ts';
import { cases, fc, test } from '../support/property.ts';

const day = 86_400_000;
const earliest = Date.parse('0000-01-01T00:00:00Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');

/** Leap days, ends of years and centuries, changes to and from daylight saving time, the epoch, the ends of the calendar. */
const specialMoments = [
  '2024-02-29T00:00:00Z',
  '2026-02-28T23:59:59.999Z',
  '2100-02-28T12:00:00Z',
  '2026-12-31T23:59:59Z',
  '2026-03-29T01:00:00Z',
  '2026-10-25T00:59:59.999Z',
  '2026-11-01T06:00:00Z',
  '1970-01-01T00:00:00Z',
  '0000-01-01T00:00:00Z',
  '9999-12-31T00:00:00.001Z',
].map((text) => Date.parse(text));

const moment = fc.oneof(
  fc.constantFrom(...specialMoments),
  fc.integer({ min: Date.UTC(2015, 0), max: Date.UTC(2030, 0) }),
  fc.integer({ min: earliest, max: latest - 1 }),
);

const windowLength = fc.oneof(
  fc.constantFrom(1, 999, 1_000, 1_001, 3_600_000, day, 7 * day, 30 * day, 365 * day),
  fc.integer({ min: 1, max: 5_000 }),
  fc.integer({ min: 1, max: 3_650 * day }),
);

/** `last`: the share of its length that the last window has. */
const boundsOf = ({
  from,
  windowMs,
  windows,
  last,
}: {
  from: number;
  windowMs: number;
  windows: number;
  last: number;
}) => {
  const to = from + (windows - 1) * windowMs + Math.max(1, Math.ceil(windowMs * last));
  return { from: instantOf(from), to: instantOf(Math.min(to, latest)), windowMs };
};

const bounds = fc
  .record({
    from: moment,
    windowMs: windowLength,
    windows: fc.integer({ min: 1, max: 30 }),
    last: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
  })
  .map(boundsOf);

/** Which of the windows is split, as a share of their number. */
const splits = fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { maxLength: 25 });

/** The windows after the splits, as a backfill has them, and the windows that were split. */
function splitSome(backfill: ReturnType<typeof boundsOf>, picks: readonly number[]) {
  const states = new Map<string, { splitAt: ReturnType<typeof instantOf> }>();
  const split: Window[] = [];
  const current = () => [...firstWindows(backfill)].flatMap((window) => [...currentWindows('reports', window, states)]);
  for (const pick of picks) {
    const windows = current();
    const window = windows[Math.floor(pick * windows.length)];
    const splitAt = window && splitPoint(window);
    if (window === undefined || splitAt === undefined) continue;
    states.set(windowName('reports', window), { splitAt });
    split.push(window);
  }
  return { windows: current(), split };
}

const contains = (outer: Window, inner: Window): boolean =>
  epochMsOf(outer.since) <= epochMsOf(inner.since) && epochMsOf(outer.until) >= epochMsOf(inner.until);

describe('the windows of a backfill', () => {
  test.prop([bounds, splits], { numRuns: cases(1_000) })(
    'are half-open, touch, and cover the backfill exactly, also after any splits',
    (backfill, picks) => {
      const { windows } = splitSome(backfill, picks);
      let end: string = backfill.from;
      for (const { since, until } of windows) {
        expect(since).toBe(end);
        expect(epochMsOf(until)).toBeGreaterThan(epochMsOf(since));
        expect(epochMsOf(until) - epochMsOf(since)).toBeLessThanOrEqual(backfill.windowMs);
        end = until;
      }
      expect(end).toBe(backfill.to);
    },
  );

  test.prop([bounds], { numRuns: cases(500) })('have the given length, except for the last one', (backfill) => {
    const lengths = [...firstWindows(backfill)].map(({ since, until }) => epochMsOf(until) - epochMsOf(since));
    expect(lengths.slice(0, -1).every((length) => length === backfill.windowMs)).toBe(true);
    expect(countFirstWindows(backfill)).toBe(lengths.length);
  });

  test.prop([moment, fc.integer({ min: 0, max: 10 * day }), windowLength])(
    'are none if the backfill ends where it begins, or before',
    (to, beforeMs, windowMs) => {
      const empty = { from: instantOf(Math.min(to + beforeMs, latest)), to: instantOf(to), windowMs };
      expect([...firstWindows(empty)]).toEqual([]);
      expect(countFirstWindows(empty)).toBe(0);
    },
  );

  test.prop([fc.record({ since: moment, lengthMs: windowLength })], { numRuns: cases(500) })(
    'are split in two halves that meet at a whole second, unless no whole second is within',
    ({ since, lengthMs }) => {
      const window = { since: instantOf(since), until: instantOf(Math.min(since + lengthMs, latest)) };
      const [low, high] = [since, epochMsOf(window.until)];
      const at = splitPoint(window);
      if (at === undefined) {
        // The middle is within the first second.
        expect(Math.floor((low + high) / 2_000) * 1_000).toBeLessThanOrEqual(low);
        return;
      }
      expect(Number.isInteger(epochMsOf(at) / 1_000)).toBe(true);
      expect(epochMsOf(at)).toBeGreaterThan(low);
      expect(epochMsOf(at)).toBeLessThan(high);
      expect(Math.abs(epochMsOf(at) - (low + high) / 2)).toBeLessThan(1_000);
      expect(partsOf(window, at)).toEqual([
        { since: window.since, until: at },
        { since: at, until: window.until },
      ]);
    },
  );
});

describe('the windows that belong to a backfill', () => {
  test.prop([bounds, splits], { numRuns: cases(500) })(
    'are those it begins with, and those that any split leads to, with the windows that were split',
    (backfill, picks) => {
      const { windows, split } = splitSome(backfill, picks);
      for (const window of [...windows, ...split]) {
        expect(isWindowOf(backfill, window)).toBe(true);
        const longer = split.filter((other) => other !== window && contains(other, window));
        const longestFirst = longer.sort((one, other) => (contains(one, other) ? -1 : 1));
        expect(ancestorsOf(backfill, window)).toEqual(longestFirst);
      }
    },
  );

  // Short windows, so that all their parts can be listed.
  const shortBounds = fc
    .record({
      from: moment.map((from) => Math.min(from, latest - 600_000)),
      windowMs: fc.oneof(
        fc.integer({ min: 1, max: 20_000 }),
        fc.integer({ min: 1, max: 20 }).map((s) => s * 1_000),
      ),
      windows: fc.integer({ min: 1, max: 4 }),
      last: fc.double({ min: 0, max: 1, noNaN: true }),
    })
    .map(boundsOf);

  const allWindows = (backfill: ReturnType<typeof boundsOf>): string[] => {
    const withParts = (low: number, high: number): string[] => {
      const middle = Math.floor((low + high) / 2 / 1_000) * 1_000;
      const parts = middle > low && middle < high ? [...withParts(low, middle), ...withParts(middle, high)] : [];
      return [`${low} ${high}`, ...parts];
    };
    const [from, to] = [epochMsOf(backfill.from), epochMsOf(backfill.to)];
    const first = Array.from({ length: Math.ceil((to - from) / backfill.windowMs) }, (_, index) => index);
    return first.flatMap((index) => {
      const low = from + index * backfill.windowMs;
      return withParts(low, Math.min(low + backfill.windowMs, to));
    });
  };

  test.prop(
    [shortBounds, fc.array(fc.tuple(fc.nat(10_000), fc.nat(10_000), fc.constantFrom(0, 0, 1, -1, 500, 1_000)))],
    { numRuns: cases(300) },
  )('are no others', (backfill, picks) => {
    const all = allWindows(backfill);
    const known = new Set(all);
    expect(known.size).toBe(all.length);
    const edges = [...new Set(all.flatMap((each) => each.split(' ').map(Number)))];
    for (const [one, other, shift] of picks) {
      const since = (edges[one % edges.length] ?? 0) + shift;
      const until = edges[other % edges.length] ?? 0;
      if (since >= until) continue;
      const window = { since: instantOf(since), until: instantOf(until) };
      expect(isWindowOf(backfill, window), `${window.since} to ${window.until}`).toBe(known.has(`${since} ${until}`));
    }
    for (const each of all) {
      const [since = 0, until = 0] = each.split(' ').map(Number);
      expect(isWindowOf(backfill, { since: instantOf(since), until: instantOf(until) })).toBe(true);
    }
  });
});

describe('the name of a window', () => {
  const exportName = fc.constantFrom('nightly', 'a', 'reports-2026', 'x'.repeat(40));
  const window = fc
    .record({ since: moment, lengthMs: windowLength })
    .filter(({ since, lengthMs }) => since + lengthMs <= latest)
    .map(({ since, lengthMs }) => ({ since: instantOf(since), until: instantOf(since + lengthMs) }));

  test.prop([exportName, window], { numRuns: cases(500) })('names its export and its bounds', (name, given) => {
    const text = windowName(name, given);
    expect(parseWindowName(text)).toEqual({ export: name, window: given });
    expect(text.startsWith(windowsPrefix(name))).toBe(true);
  });

  /** Other ways to write an instant that a reader may take for the same. */
  const respellings: readonly ((text: string) => string)[] = [
    (text) => text.replace('Z', '+00:00'),
    (text) => text.replace('Z', 'z'),
    (text) => text.replace('T', 't'),
    (text) => text.replace('T', ' '),
    (text) => (text.includes('.') ? text.replace('Z', '0Z') : text.replace('Z', '.000Z')),
    (text) => (text.includes('.') ? text.replace('Z', '999Z') : text.replace('Z', '.0Z')),
    (text) => text.replace(':00Z', 'Z'),
    (text) => ` ${text}`,
    (text) => `+00${text}`,
    (text) => encodeURIComponent(text),
  ];

  test.prop([exportName, window, fc.nat(respellings.length - 1), fc.boolean()], { numRuns: cases(500) })(
    'has no other spelling',
    (name, given, index, isSince) => {
      const respell = respellings[index] ?? ((text: string) => text);
      const other = isSince ? { ...given, since: respell(given.since) } : { ...given, until: respell(given.until) };
      const text = `${name}/${other.since}/${other.until}`;
      if (text !== windowName(name, given)) expect(parseWindowName(text)).toBeUndefined();
    },
  );

  test.prop([exportName, window])('has two bounds, the earlier one first', (name, { since, until }) => {
    for (const text of [
      name,
      `${name}/${since}`,
      `${name}/${since}/${since}`,
      `${name}/${until}/${since}`,
      `${name}/${since}/${until}/`,
      `${name}/${since}/${until}/${until}`,
      `${name}//${since}/${until}`,
    ]) {
      expect([text, parseWindowName(text)]).toEqual([text, undefined]);
    }
  });
});
