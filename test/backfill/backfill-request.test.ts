import { describe, expect, it } from 'vitest';
import { chooseParallel, findBackfillProblem } from '../../lib/backfill/request.ts';
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
