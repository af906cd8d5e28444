/**
 * Measures contenders side by side: they take turns within each round, so that other load on the machine affects all of them,
 * and each is compared with the baseline of its own round.
 */

import type { BenchmarkOptions, Figures } from './benchmark.ts';

export interface Contender<Measured extends Figures> {
  readonly name: string;
  readonly measure: () => Promise<Measured>;
}

/** The figures of each contender, one per round. */
export type Rounds<Measured extends Figures> = ReadonlyMap<string, readonly Measured[]>;

/** Runs every contender once per round. Each round begins with another contender. */
export async function measureRounds<Measured extends Figures>(
  contenders: readonly Contender<Measured>[],
  { repetitions, warmUp = true, reportProgress }: BenchmarkOptions,
  label: string,
): Promise<Rounds<Measured>> {
  const rounds = new Map<string, Measured[]>(contenders.map(({ name }) => [name, []]));
  for (let round = warmUp ? 0 : 1; round <= repetitions; round += 1) {
    reportProgress(`${label}: ${round === 0 ? 'warming up' : `round ${round} of ${repetitions}`}`);
    const shift = round % contenders.length;
    for (const { name, measure } of [...contenders.slice(shift), ...contenders.slice(0, shift)]) {
      const figures = await measure();
      if (round > 0) rounds.get(name)?.push(figures);
    }
  }
  return rounds;
}

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** One figure of a contender over all rounds. */
export function figureOf<Measured extends Figures>(
  rounds: Rounds<Measured>,
  name: string,
  figure: (figures: Measured) => number,
): Spread {
  return spreadOf((rounds.get(name) ?? []).map(figure));
}

/** One figure of a contender divided by that of the baseline, round by round. */
export function ratioOf<Measured extends Figures>(
  rounds: Rounds<Measured>,
  name: string,
  baseline: string,
  figure: (figures: Measured) => number,
): Spread {
  const base = rounds.get(baseline) ?? [];
  return spreadOf((rounds.get(name) ?? []).map((figures, round) => figure(figures) / figure(base[round] ?? figures)));
}

/** By how much one figure of a contender exceeds that of the baseline, round by round. */
export function differenceOf<Measured extends Figures>(
  rounds: Rounds<Measured>,
  name: string,
  baseline: string,
  figure: (figures: Measured) => number,
): Spread {
  const base = rounds.get(baseline) ?? [];
  return spreadOf((rounds.get(name) ?? []).map((figures, round) => figure(figures) - figure(base[round] ?? figures)));
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  return { median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2, min: at(0), max: at(sorted.length - 1) };
}
