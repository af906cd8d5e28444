import { describe, expect, it } from 'vitest';
import { findFreshnessProblem, scheduleSettingsSchema } from '../../lib/settings/schedule-settings.ts';
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
    ['cron(0 2 * * ? 2026;)', 'must be rate('],
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
    for (const freshness of ['none', 'PT10M', 'PT26H', 'P7D', 'P14D']) expect(problemsOf({ freshness })).toEqual([]);
    for (const freshness of ['PT9M', 'P8D', 'P15D', 'soon', null, 26]) {
      expect(problemsOf({ freshness })).toEqual([expect.stringContaining('PT26H for a nightly export')]);
    }
  });

  const warningOf = (overrides: object) => findFreshnessProblem(scheduleSettingsSchema.parse(aSchedule(overrides)));

  it.each([
    ['rate(6 hours)', 'PT6H', 'PT7H', '6 h'],
    ['rate(1 day)', 'PT24H', 'PT25H', '24 h'],
    ['rate(10 days)', 'P14D', 'none', '240 h'],
    ['cron(0 2 * * ? *)', 'PT24H', 'PT25H', '24 h'],
    ['cron(0 2 ? * * *)', 'PT12H', 'PT26H', '24 h'],
    ['cron(0 2 ? * MON *)', 'P7D', 'P14D', '168 h'],
    ['cron(0 2 ? * 2 *)', 'P6D', 'P14D', '168 h'],
  ])('with %s has a freshness that is too short: %s, but not %s', (expression, tooShort, enough, interval) => {
    expect(warningOf({ expression, freshness: tooShort })).toContain(
      `${expression} starts a run every ${interval}. Set`,
    );
    expect(warningOf({ expression, freshness: enough })).toBeUndefined();
  });

  it('may start later within its flexible window', () => {
    const flexible = { expression: 'cron(0 2 * * ? *)', flexibleWindow: 'PT2H' };
    expect(warningOf({ ...flexible, freshness: 'PT26H' })).toContain(
      'every 24 h, and up to 2 h later (flexibleWindow)',
    );
    expect(warningOf({ ...flexible, freshness: 'PT27H' })).toBeUndefined();
  });

  it.each(['cron(0 2 ? * MON-FRI *)', 'cron(0 2 1 * ? *)', 'cron(0/15 8-18 ? * * *)', 'cron(0 2 * * ? 2026)'])(
    'is not judged if it is irregular: %s',
    (expression) => expect(warningOf({ expression, freshness: 'PT10M' })).toBeUndefined(),
  );
});
