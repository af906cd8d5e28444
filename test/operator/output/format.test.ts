/** Amounts and times, as a person reads them. */

import { describe, expect, it } from 'vitest';
import { coarseDuration, delay, totals } from '../../../lib/operator/output/format.ts';

describe('a duration', () => {
  it.each([
    [0, '0 s'],
    [119_999, '119 s'],
    [120_000, '2 min'],
    [7_199_000, '119 min'],
    [7_200_000, '2 h'],
    [47 * 3_600_000, '47 h'],
    [48 * 3_600_000, '2 days'],
    [-5, '0 s'],
  ])('of %i ms is %s', (ms, text) => {
    expect(coarseDuration(ms)).toBe(text);
  });
});

describe('a delay', () => {
  it.each([
    [0.04, '0.0 s'],
    [0.44, '0.4 s'],
    [7.6, '8 s'],
    [300, '300 s'],
  ])('of %d s is %s', (seconds, text) => {
    expect(delay(seconds)).toBe(text);
  });
});

describe('totals', () => {
  it('leave out the number of reports where it is unknown', () => {
    expect(totals({ pages: 1, reports: 2_000, bytes: 58 })).toBe('1 page, 2,000 reports, 58 bytes');
    expect(totals({ pages: 12, reports: null, bytes: 412_300 })).toBe('12 pages, 412.3 kB');
  });
});
