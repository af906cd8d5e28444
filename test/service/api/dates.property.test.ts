import { expect } from 'vitest';
import { instantAt, wallClockOf } from '../../../lib/core/time/time-zones.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { type Dates, datesSchema, unitOfDates, writeDate } from '../../../lib/service/api/dates.ts';
import { cases, fc, it, test } from '../../support/property.ts';

const pacific = 'America/Los_Angeles';
const at = (text: string) => instantOf(Date.parse(text));
const problemsOf = (dates: unknown) => datesSchema.safeParse(dates).error?.issues.map(({ message }) => message) ?? [];

it.each([
  ['iso', '2026-11-20T02:00:01.500Z', '2026-11-20T02:00:01Z', '2026-11-20T02:00:02Z'],
  ['iso-ms', '2026-11-20T02:00:01.500Z', '2026-11-20T02:00:01.500Z', '2026-11-20T02:00:01.500Z'],
  ['epoch', '1970-01-02T00:00:00.001Z', 86_400, 86_401],
  ['epoch-ms', '1970-01-02T00:00:00.001Z', 86_400_001, 86_400_001],
  [{ form: 'date', zone: 'UTC' }, '2026-11-20T02:00:00Z', '2026-11-20', '2026-11-21'],
  [{ form: 'date', zone: pacific }, '2026-11-20T02:00:00Z', '2026-11-19', '2026-11-20'],
  [{ form: 'yyyy-MM-dd HH:mm', zone: pacific }, '2026-11-20T02:00:30Z', '2026-11-19 18:00', '2026-11-19 18:01'],
  [{ form: "yyyyMMdd'T'HH", zone: 'UTC' }, '2026-11-20T02:00:00Z', '20261120T02', '20261120T02'],
  [
    { form: "dd/MM/yyyy HH 'o''clock'", zone: 'UTC' },
    '2026-11-20T02:00:00Z',
    "20/11/2026 02 o'clock",
    "20/11/2026 02 o'clock",
  ],
  [
    { form: 'yyyy-MM-dd HH:mm:ss.SSS', zone: 'UTC' },
    '2026-11-20T02:00:00.070Z',
    '2026-11-20 02:00:00.070',
    '2026-11-20 02:00:00.070',
  ],
] satisfies [Dates, string, string | number, string | number][])('writes %j', (dates, instant, since, until) => {
  expect([writeDate(dates, 'since', at(instant)), writeDate(dates, 'until', at(instant))]).toEqual([since, until]);
});

it('moves a bound by whole units, over the end of a month', () => {
  const dates: Dates = { form: 'date', zone: 'UTC' };
  expect(writeDate(dates, 'until', at('2026-03-01T00:00:00Z'), -1)).toBe('2026-02-28');
  expect(writeDate('epoch', 'since', at('1970-01-01T00:01:00Z'), -1)).toBe(59);
});

it('begins 12 hours earlier and ends 14 hours later without a zone', () => {
  expect(writeDate('date', 'since', at('2026-11-28T03:30:00Z'))).toBe('2026-11-27');
  expect(writeDate('date', 'until', at('2026-11-28T09:59:59Z'))).toBe('2026-11-29');
  expect(writeDate({ form: 'yyyyMMddHH' }, 'until', at('2026-11-28T10:00:00Z'))).toBe('2026112900');
});

it('begins and ends with the whole hour that is repeated in autumn', () => {
  const dates: Dates = { form: 'yyyy-MM-dd HH:mm', zone: pacific };
  for (const instant of ['2026-11-01T08:30:00Z', '2026-11-01T09:30:00Z'].map(at)) {
    expect(writeDate(dates, 'since', instant)).toBe('2026-11-01 01:00');
    expect(writeDate(dates, 'until', instant)).toBe('2026-11-01 02:00');
  }
});

it('knows the smallest part and the zone of a form', () => {
  expect(unitOfDates('iso')).toEqual({ unitMs: 1_000, zone: 'UTC' });
  expect(unitOfDates('date')).toEqual({ unitMs: 86_400_000, zone: undefined });
  expect(unitOfDates({ form: 'yyyy-MM-dd HH:mm', zone: pacific })).toEqual({ unitMs: 60_000, zone: pacific });
});

it.each([
  ['yyyy-MM-ddTHH', /^THH is no part of a date/],
  ['yy-MM-dd', /^yy is no part of a date/],
  ['yyyy-MM', /must have dd/],
  ['yyyy-MM-dd ss', /must have HH/],
  ['yyyy-MM-dd dd', /must have each part once/],
  ['', /must be at most 100/],
])('refuses the pattern %s', (form, problem) => {
  expect(problemsOf({ form })).toEqual([expect.stringMatching(problem)]);
});

it('refuses a zone that does not exist, and an unknown form', () => {
  expect(problemsOf({ form: 'date', zone: 'Mars/Olympus' })).toEqual([expect.stringContaining('IANA name')]);
  expect(problemsOf('rfc822')).toEqual([
    expect.stringContaining('must be one of iso, iso-ms, epoch, epoch-ms, date, or an'),
  ]);
});

const start = Date.UTC(2026, 1, 1);
const minutes = (count: number): number => start + count * 60_000;
const minuteOfYear = fc.integer({ min: 0, max: 365 * 1_440 });
const forms: readonly string[] = ['date', 'yyyy-MM-dd HH', 'yyyy-MM-dd HH:mm'];
const zones = [pacific, 'Europe/Berlin', 'Australia/Lord_Howe', 'Pacific/Kiritimati', 'UTC'];

/** An API that compares what its clocks showed when a report was written with the text of a bound. */
function selects(
  form: string,
  zone: string,
  reportMs: number,
  since: string | number,
  until: string | number,
): boolean {
  const shown = String(writeDate({ form, zone: 'UTC' }, 'since', instantOf(wallClockOf(reportMs, zone))));
  return shown >= String(since) && shown < String(until);
}

test.prop(
  [fc.constantFrom(...forms), fc.constantFrom(...zones), minuteOfYear, minuteOfYear, minuteOfYear, fc.boolean()],
  { numRuns: cases(3_000) },
)('selects each report of its period, with a zone and without', (form, zone, one, other, third, isKnown) => {
  const [since = 0, report = 0, until = 0] = [one, other, third].toSorted((a, b) => a - b).map(minutes);
  const dates: Dates = isKnown ? { form, zone } : { form };
  const bounds = [
    writeDate(dates, 'since', instantOf(since)),
    writeDate(dates, 'until', instantOf(Math.max(until, report + 1))),
  ] as const;
  expect(selects(form, zone, report, ...bounds)).toBe(true);
});

test.prop([fc.constantFrom(...zones), minuteOfYear, minuteOfYear], { numRuns: cases(1_000) })(
  'selects a report in one of two periods that touch at midnight of the zone',
  (zone, report, day) => {
    const cut = instantAt(Math.floor(minutes(day) / 86_400_000) * 86_400_000, zone);
    const dates: Dates = { form: 'date', zone };
    const bounds = ['since', 'until'].map((bound) => writeDate(dates, bound as 'since' | 'until', instantOf(cut)));
    expect(bounds[0]).toBe(bounds[1]);
    expect(selects('date', zone, minutes(report), String(bounds[0]), '9999')).toBe(minutes(report) >= cut);
  },
);
