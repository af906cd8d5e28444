import { describe, expect, it } from 'vitest';
import { assertFitsDates, chooseParallel, findBackfillProblem } from '../../lib/backfill/request.ts';
import { isExportError } from '../../lib/core/errors.ts';
import type { Api } from '../../lib/settings/api-settings.ts';
import { at } from '../support/builders.ts';

describe('the period of a backfill', () => {
  const now = Date.parse('2026-11-20T00:00:00Z');
  const problemOf = (to: string) =>
    findBackfillProblem({ from: at('2026-11-19T00:00:00Z'), to: at(to), windowMs: 3_600_000 }, now);

  it('may end now', () => {
    expect(problemOf('2026-11-20T00:00:00Z')).toBeUndefined();
  });

  it('must not end in the future: windows that are done get no later reports', () => {
    expect(problemOf('2026-11-20T00:00:00.001Z')).toMatch(/^--to: must not be in the future/);
  });
});

describe('bounds that requests would round, so that windows overlap', () => {
  const period = { from: at('2026-11-01T00:00:00Z'), to: at('2026-11-03T00:00:00Z'), windowMs: 86_400_000 };
  const problemsOf = (dates: Api['dates'] | undefined, changes: Partial<typeof period> = {}) => {
    try {
      assertFitsDates({ ...period, ...changes }, dates && { dates });
      return [];
    } catch (error) {
      return isExportError(error, 'ConfigurationError') ? error.message.split('; ') : [error];
    }
  };

  it.each([undefined, 'iso', 'iso-ms', 'epoch', 'epoch-ms', 'date'] as const)('are none in whole days: %s', (dates) => {
    expect(problemsOf(dates)).toEqual([]);
  });

  it('are refused for dates without a time, each with its option and the reason', () => {
    const halves = { from: at('2026-11-01T12:00:00Z'), to: at('2026-11-02T23:59:59Z'), windowMs: 43_200_000 };
    expect(problemsOf('date', halves)).toEqual(
      ['--from', '--to', '--window'].map(
        (option) =>
          `${option}: must be in whole days (UTC): requests have no finer dates (api.dates is date), so windows would overlap`,
      ),
    );
    expect(problemsOf('iso', halves)).toEqual([]);
  });

  it.each(['iso', 'epoch', undefined] as const)('are refused if they have milliseconds: %s', (dates) => {
    const why = dates === undefined ? '' : ` (api.dates is ${dates})`;
    const refused = [expect.stringContaining(`must be in whole seconds: requests have no finer dates${why},`)];
    expect(problemsOf(dates, { windowMs: 1_500 })).toEqual(refused);
    expect(problemsOf(dates, { from: at('1969-12-31T23:59:59.999Z') })).toEqual(refused);
    expect(problemsOf('epoch-ms', { windowMs: 1_500 })).toEqual([]);
  });
});

describe('how many windows of a backfill are exported at the same time', () => {
  it.each([
    { wanted: undefined, maxConcurrentPages: undefined, parallel: 4 },
    { wanted: undefined, maxConcurrentPages: 100, parallel: 4 },
    { wanted: undefined, maxConcurrentPages: 2, parallel: 2 },
    { wanted: 16, maxConcurrentPages: undefined, parallel: 16 },
    { wanted: 3, maxConcurrentPages: 3, parallel: 3 },
    { wanted: undefined, maxConcurrentPages: 3, spareConcurrency: 1, parallel: 1 },
    { wanted: undefined, maxConcurrentPages: 1, spareConcurrency: 3, parallel: 1 },
    { wanted: 2, maxConcurrentPages: undefined, spareConcurrency: 2, parallel: 2 },
  ])(
    '$parallel, if $wanted are wanted, the service allows $maxConcurrentPages, the function $spareConcurrency',
    (each) => {
      expect(chooseParallel(each.wanted, each)).toBe(each.parallel);
    },
  );

  it('is refused if the service allows fewer', () => {
    expect(() => chooseParallel(4, { maxConcurrentPages: 3 })).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        message: expect.stringMatching(/^--parallel: .* at most 3/),
      }),
    );
  });

  it('is refused if the function that exports them has fewer invocations left', () => {
    expect(() => chooseParallel(4, { spareConcurrency: 3 })).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        message: expect.stringMatching(/^--parallel: must be at most 3, because .*exportPage\.reservedConcurrency/),
      }),
    );
  });

  it.each([undefined, 1])('is refused if that has none left, also for %s', (wanted) => {
    expect(() => chooseParallel(wanted, { spareConcurrency: 0 })).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        message: expect.stringMatching(/no invocation for a window.*Raise exportPage\.reservedConcurrency.*deploy/s),
      }),
    );
  });
});
