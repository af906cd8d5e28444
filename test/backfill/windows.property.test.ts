/** Windows of a backfill: whatever the bounds and the length, each instant of the backfill is in one of them. */

import { describe, expect } from 'vitest';
import { epochMsOf, instantOf } from '../../lib/core/timestamps.ts';
import { countWindows, parseWindowName, windowName, windowsOf, windowsPrefix } from '../../lib/backfill/windows.ts';
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

describe('the windows of a backfill', () => {
  test.prop([bounds], { numRuns: cases(1_000) })('are half-open, touch, and cover the backfill exactly', (backfill) => {
    let end: string = backfill.from;
    for (const { since, until } of windowsOf(backfill)) {
      expect(since).toBe(end);
      expect(epochMsOf(until)).toBeGreaterThan(epochMsOf(since));
      end = until;
    }
    expect(end).toBe(backfill.to);
  });

  test.prop([bounds], { numRuns: cases(500) })('have the given length, except for the last one', (backfill) => {
    const lengths = [...windowsOf(backfill)].map(({ since, until }) => epochMsOf(until) - epochMsOf(since));
    expect(lengths.slice(0, -1).every((length) => length === backfill.windowMs)).toBe(true);
    expect(countWindows(backfill)).toBe(lengths.length);
  });

  test.prop([moment, fc.integer({ min: 0, max: 10 * day }), windowLength])(
    'are none if the backfill ends where it begins, or before',
    (to, beforeMs, windowMs) => {
      const empty = { from: instantOf(Math.min(to + beforeMs, latest)), to: instantOf(to), windowMs };
      expect([...windowsOf(empty)]).toEqual([]);
      expect(countWindows(empty)).toBe(0);
    },
  );
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
