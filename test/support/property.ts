/**
 * fast-check for property tests: the same cases in every run, and as many as the tier can afford.
 *
 * `FUZZ_SEED=$RANDOM npm test` looks for new cases. `FUZZ_FACTOR` multiplies the number of cases: by default,
 * `npm test` takes a twentieth of them.
 */

import { fc, it, test } from '@fast-check/vitest';

const factor = Number(process.env.FUZZ_FACTOR ?? 1);

/** How many of `count` cases this tier runs. */
export const cases = (count: number): number => Math.max(1, Math.ceil(count * factor));

/**
 * Any code point but a surrogate. The unit `binary` of fast-check generates the same, but spends a second on a table of
 * all of them.
 */
export const anyCodePoint = fc.nat(0x10ffff - 0x800).map(
  (index) => String.fromCodePoint(index < 0xd800 ? index : index + 0x800),
  (text) => {
    const point = String(text).codePointAt(0) ?? 0;
    if (text !== String.fromCodePoint(point)) throw new Error('not one code point');
    return point < 0xd800 ? point : point - 0x800;
  },
);

fc.configureGlobal({ seed: Number(process.env.FUZZ_SEED ?? 20_261_120), numRuns: cases(100) });

export { fc, it, test };
