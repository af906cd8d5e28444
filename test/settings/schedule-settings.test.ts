import { describe, expect, it } from 'vitest';
import { alarmedAge, scheduleSettingsSchema } from '../../lib/settings/schedule-settings.ts';
import { aSchedule } from '../support/aws/cdk-deployment.ts';

function problemsOf(overrides: object): string[] {
  const { error } = scheduleSettingsSchema.safeParse(aSchedule(overrides));
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`);
}

describe('a schedule', () => {
  it.each([
    'rate(1 minute)',
    'rate(6 hours)',
    'rate(1 day)',
    'cron(0 2 * * ? *)',
    'cron(0/15 8-18 ? * MON-FRI *)',
    'cron(0,30 2 1,15 * ? 2026-2030)',
    'cron(0 0 L * ? *)',
    'cron(0 0 LW JAN,jul ? *)',
    'cron(0 0 15W * ? *)',
    'cron(0 0 ? * 6L *)',
    'cron(0 0 ? * FRI#2 *)',
  ])('accepts %s', (expression) => expect(problemsOf({ expression, freshness: 'none' })).toEqual([]));

  it.each([
    ['every day', 'must be rate('],
    ['at(2026-11-20T02:00:00)', 'must be rate('],
    ['rate(0 hours)', 'must be rate('],
    ['rate(1 hours)', 'must be rate(1 hour)'],
    ['rate(2 hour)', 'must be rate(2 hours)'],
    ['cron(0 2 * * *)', 'must be rate('],
    ['cron(60 2 * * ? *)', 'invalid value for minutes'],
    ['cron(0 24 * * ? *)', 'invalid value for hours'],
    ['cron(0 2 32 * ? *)', 'invalid value for day-of-month'],
    ['cron(0 2 * FOO ? *)', 'invalid value for month'],
    ['cron(0 2 ? * 8 *)', 'invalid value for day-of-week'],
    ['cron(0 2 * * ? 1969)', 'invalid value for year'],
    ['cron(60 24 * * ? *)', 'invalid value for minutes and hours'],
    ['cron(0 2 1-2-3 * ? *)', 'invalid value for day-of-month'],
    ['cron(0/0 2 * * ? *)', 'invalid value for minutes'],
    ['cron(0 2 * * * *)', 'a ? for either'],
    ['cron(0 2 ? * ? *)', 'a ? for either'],
  ])('rejects %s', (expression, message) => {
    expect(problemsOf({ expression })).toEqual([expect.stringContaining(message)]);
  });

  it.each(['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Asia/Kolkata', 'Etc/GMT+3'])(
    'accepts the time zone %s',
    (timeZone) => expect(problemsOf({ timeZone })).toEqual([]),
  );
  it.each(['', 'CEST', 'Europe/Atlantis', 'europe/berlin', '+01:00'])('rejects the time zone %j', (timeZone) =>
    expect(problemsOf({ timeZone })).toEqual([expect.stringContaining('timeZone: must be an IANA time zone')]),
  );

  it.each(['PT1M', 'PT15M', 'P1D'])('accepts a flexible window of %s', (flexibleWindow) =>
    expect(problemsOf({ flexibleWindow, freshness: 'none' })).toEqual([]),
  );
  it.each(['PT0S', 'PT90S', 'PT30S', 'P2D'])('rejects a flexible window of %s', (flexibleWindow) =>
    expect(problemsOf({ flexibleWindow })).toEqual([expect.stringContaining('whole minutes')]),
  );

  it('has no freshness alarm unless it sets one', () => {
    const { freshness: _, ...schedule } = aSchedule();
    expect(scheduleSettingsSchema.parse(schedule).freshness).toBe('none');
    expect(alarmedAge(scheduleSettingsSchema.parse(schedule))).toBeUndefined();
    expect(alarmedAge(scheduleSettingsSchema.parse(aSchedule({ freshness: 'PT25H' })))).toBe(25 * 3_600_000);
    expect(problemsOf({ freshness: 'none' })).toEqual([]);
    for (const freshness of ['PT9M', 'P8D', 'soon', null, 26]) {
      expect(problemsOf({ freshness })).toEqual([expect.stringContaining('PT26H for a nightly export')]);
    }
  });

  it('requires a freshness longer than its interval', () => {
    expect(problemsOf({ expression: 'rate(6 hours)', freshness: 'PT6H' })).toEqual([
      expect.stringContaining('rate(6 hours) has a gap of 6 h. Set a longer one'),
    ]);
    expect(problemsOf({ expression: 'rate(6 hours)', freshness: 'PT7H' })).toEqual([]);
  });

  it.each([
    ['cron(0 2 * * ? *)', 'PT24H', 'PT25H', '24 h'],
    ['cron(0 6,18 * * ? *)', 'PT12H', 'PT13H', '12 h'],
    ['cron(0/15 8-18 ? * * *)', 'PT13H', 'PT14H', '795 min'],
    ['cron(0 2 ? * MON-FRI *)', 'PT72H', 'PT73H', '72 h'],
    ['cron(0 2 ? * MON *)', 'P7D', 'none', '168 h'],
    ['cron(0 2 1 * ? *)', 'P7D', 'none', '744 h'],
    ['cron(0 2 ? * SUN#5 *)', 'P7D', 'none', '2856 h'],
  ])('requires a freshness longer than the longest gap of %s', (expression, tooShort, enough, gap) => {
    expect(problemsOf({ expression, freshness: tooShort })).toEqual([
      expect.stringContaining(`${expression} has a gap of ${gap}. Set a longer one (at most P7D), or none`),
    ]);
    expect(problemsOf({ expression, freshness: enough })).toEqual([]);
  });

  it('adds the flexible window to the gap', () => {
    const flexible = { expression: 'cron(0 2 * * ? *)', flexibleWindow: 'PT2H' };
    expect(problemsOf({ ...flexible, freshness: 'PT26H' })).toEqual([
      expect.stringContaining('a gap of 24 h, and flexibleWindow adds 2 h'),
    ]);
    expect(problemsOf({ ...flexible, freshness: 'PT27H' })).toEqual([]);
  });
});
