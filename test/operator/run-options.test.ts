/** The options of a run on the command line. */

import { describe, expect, it } from 'vitest';
import { readBounds, readMaxAttempts, readStartRequest } from '../../lib/operator/run-options.ts';
import type { Options } from '../../lib/operator/option-table.ts';

const now = Date.UTC(2026, 10, 20);

const problemsOf = (options: Options) => {
  const problems: string[] = [];
  readStartRequest(options, now, problems);
  return problems;
};

describe('the options of a start', () => {
  it('become fields of its start input; a date is its first moment', () => {
    const problems: string[] = [];
    const given = { since: '2020-01-01', until: '2021-01-01', each: 'month', slice: 'PT1H', again: true };
    expect(readStartRequest({ ...given, parallel: '16' }, now, problems)).toEqual({
      ...given,
      since: '2020-01-01T00:00:00Z',
      until: '2021-01-01T00:00:00Z',
      parallel: 16,
      days: ['since', 'until'],
    });
    expect(problems).toEqual([]);
  });

  it('name the parents to skip as they are written', () => {
    const problems: string[] = [];
    expect(readStartRequest({ skipParent: ['a b', 'ü/1'] }, now, problems)).toMatchObject({
      skipParent: ['a b', 'ü/1'],
    });
    expect(problems).toEqual([]);
  });

  it.each<[Options, string[]]>([
    [
      { skipParent: Array.from({ length: 101 }, (_, index) => `${index}`) },
      ['--skip-parent: must have at most 100 values'],
    ],
    [{ until: '2020-01-01' }, ['--until: needs --since: a run with an upper bound has both']],
    [
      { since: '2020-01-01', each: 'P7D', again: true },
      ['--again: needs --since and --until, or --parents', '--each: needs --since and --until'],
    ],
    [{ parallel: '0' }, ['--parallel: must be at least 1']],
    [{ parallel: 'all' }, ['--parallel: must be a whole number']],
  ])('are rejected with all problems: %j', (options, problems) => {
    expect(problemsOf(options)).toEqual(problems);
  });

  it('with one bound name no bounded run to abandon', () => {
    const problems: string[] = [];
    expect(readBounds({ since: '2020-01-01' }, now, problems)).toBeUndefined();
    expect(problems).toEqual(['--since: needs --until: together they name a bounded run']);
    expect(readBounds({ since: '2020-01-01', until: '2021-01-01' }, now, problems)).toEqual({
      since: '2020-01-01T00:00:00Z',
      until: '2021-01-01T00:00:00Z',
      days: ['since', 'until'],
    });
    expect(readBounds({}, now, problems)).toBeUndefined();
    expect(problems).toHaveLength(1);
  });

  it.each(['0x5', '5e0', ' 5', '5 ', '+5', '05', '5.0', '0b101', '٥', '', '0'])(
    'reject the number of attempts %j',
    (number) => {
      const problems: string[] = [];
      readMaxAttempts(number, problems);
      expect(problems).toEqual(['--max-attempts: must be a whole number from 1 to 1000']);
    },
  );
});
