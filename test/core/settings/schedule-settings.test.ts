import { describe, expect, it } from 'vitest';
import { alarmedAge, scheduleSettingsSchema } from '../../../lib/core/settings/schedule-settings.ts';
import { aSchedule } from '../../support/aws/cdk-deployment.ts';

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
  ])('accepts %s', (expression) => expect(problemsOf({ expression, freshness: 'P6D' })).toEqual([]));

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
    expect(problemsOf({ flexibleWindow })).toEqual([]),
  );
  it.each(['PT0S', 'PT90S', 'PT30S', 'P2D'])('rejects a flexible window of %s', (flexibleWindow) =>
    expect(problemsOf({ flexibleWindow })).toEqual([expect.stringContaining('whole minutes')]),
  );

  it('has no freshness alarm unless it sets one', () => {
    const { freshness: _, ...schedule } = aSchedule();
    expect(scheduleSettingsSchema.parse(schedule).freshness).toBe('none');
    expect(alarmedAge(scheduleSettingsSchema.parse(schedule))).toBeUndefined();
    expect(alarmedAge(scheduleSettingsSchema.parse(aSchedule({ freshness: 'PT1H' })))).toBe(3_600_000);
    expect(problemsOf({ freshness: 'none' })).toEqual([]);
    for (const freshness of ['PT9M', 'P8D', 'soon', null, 26]) {
      expect(problemsOf({ freshness })).toEqual([expect.stringContaining('PT26H for a nightly export')]);
    }
  });

  it('requires a freshness longer than its interval', () => {
    expect(problemsOf({ expression: 'rate(6 hours)', freshness: 'PT6H' })).toEqual([
      expect.stringContaining('longer than the interval'),
    ]);
    expect(problemsOf({ expression: 'rate(6 hours)', freshness: 'PT7H' })).toEqual([]);
  });
});
