/** Amounts and times, as a person reads them. */

import { describe, expect, it } from 'vitest';
import { coarseDuration, delay } from '../../../lib/operator/output/format.ts';

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
