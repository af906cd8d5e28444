import { expect } from 'vitest';
import { instantAt, isTimeZoneName, repeatedPeriodAt, wallClockOf } from '../../../lib/core/time/time-zones.ts';
import { cases, fc, it, test } from '../../support/property.ts';

const ms = (text: string): number => Date.parse(text);
const pacific = 'America/Los_Angeles';

it('reads the clocks of a zone', () => {
  expect(wallClockOf(ms('2026-07-01T06:30:00.250Z'), pacific)).toBe(ms('2026-06-30T23:30:00.250Z'));
  expect(wallClockOf(ms('1969-12-31T23:59:59.750Z'), 'Asia/Tokyo')).toBe(ms('1970-01-01T08:59:59.750Z'));
});

it('knows zones by their IANA names', () => {
  expect(['UTC', pacific].filter(isTimeZoneName)).toEqual(['UTC', pacific]);
  expect(['Europe/Atlantis', 'europe/berlin', '+01:00', ''].filter(isTimeZoneName)).toEqual([]);
});

it('takes the first of two instants in autumn, and the end of the skipped hour in spring', () => {
  expect(instantAt(ms('2026-11-01T01:30:00Z'), pacific)).toBe(ms('2026-11-01T08:30:00Z'));
  expect(instantAt(ms('2026-03-08T02:00:00Z'), pacific)).toBe(ms('2026-03-08T10:00:00Z'));
  // In Chile, midnight was skipped.
  expect(instantAt(ms('2024-09-08T00:00:00Z'), 'America/Santiago')).toBe(ms('2024-09-08T04:00:00Z'));
});

it.each([
  ['before the hour', '2026-11-01T07:59:59Z', undefined],
  ['its begin', '2026-11-01T08:00:00Z', undefined],
  ['the first time', '2026-11-01T08:00:01Z', { begin: ms('2026-11-01T01:00:00Z'), end: ms('2026-11-01T02:00:00Z') }],
  ['its second begin', '2026-11-01T09:00:00Z', { begin: ms('2026-11-01T01:00:00Z'), end: ms('2026-11-01T02:00:00Z') }],
  ['the second time', '2026-11-01T09:59:59Z', { begin: ms('2026-11-01T01:00:00Z'), end: ms('2026-11-01T02:00:00Z') }],
  ['its end', '2026-11-01T10:00:00Z', undefined],
])('finds the hour that is repeated in autumn: %s', (_, instant, expected) => {
  expect(repeatedPeriodAt(ms(instant), pacific)).toEqual(expected);
});

const zones = [pacific, 'Europe/Berlin', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'UTC', 'America/Santiago'];
const instants = fc.integer({ min: ms('1975-01-01T00:00:00Z'), max: ms('2035-01-01T00:00:00Z') });

test.prop([instants, fc.constantFrom(...zones)], { numRuns: cases(1_000) })(
  'finds an instant by its wall-clock time',
  (instant, zone) => {
    const found = instantAt(wallClockOf(instant, zone), zone);
    expect(wallClockOf(found, zone)).toBe(wallClockOf(instant, zone));
    expect(found).toBeLessThanOrEqual(instant);
  },
);
