import { describe, expect, it } from 'vitest';
import { scheduleSettingsSchema } from '../../lib/settings/schedule-settings.ts';
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
    'every day',
    'at(2026-11-20T02:00:00)',
    'rate(0 hours)',
    'rate(1 hours)',
    'rate(2 hour)',
    'cron(0 2 * * *)',
    'cron(0 2 * * ? 2026;)',
    'cron(0 2 * * * *)',
    'cron(0 2 ? * ? *)',
  ])('rejects %s', (expression) => {
    expect(problemsOf({ expression })).toEqual([expect.stringContaining('must be rate(')]);
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
});
