/**
 * Contenders measured side by side: they take turns within each round, so that whatever else the machine is doing meets
 * them all, and each is held against the baseline of its own round.
 */

import type { BenchOptions, Figures } from './benchmark.ts';

export interface Contender<Measured extends Figures> {
  readonly name: string;
  readonly once: () => Promise<Measured>;
}

/** The figures of each contender, one for each round. */
export type Rounds<Measured extends Figures> = ReadonlyMap<string, readonly Measured[]>;

/** Runs every contender once a round, each round beginning with another one. */
export async function sideBySide<Measured extends Figures>(
  contenders: readonly Contender<Measured>[],
  { repetitions, say }: BenchOptions,
  what: string,
): Promise<Rounds<Measured>> {
  const rounds = new Map<string, Measured[]>(contenders.map(({ name }) => [name, []]));
  for (let round = 0; round <= repetitions; round += 1) {
    say(`${what}: ${round === 0 ? 'warming up' : `round ${round} of ${repetitions}`}`);
    const shift = round % contenders.length;
    for (const { name, once } of [...contenders.slice(shift), ...contenders.slice(0, shift)]) {
      const figures = await once();
      if (round > 0) rounds.get(name)?.push(figures);
    }
  }
  return rounds;
}

export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  return { median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2, least: at(0), most: at(sorted.length - 1) };
}

/** A figure of a contender over all rounds. */
export function figureOf<Measured extends Figures>(
  rounds: Rounds<Measured>,
  name: string,
  figure: (figures: Measured) => number,
): Spread {
  return spreadOf((rounds.get(name) ?? []).map(figure));
}

/** How many times the baseline's figure a contender's is, taken round by round. */
export function ratioOf<Measured extends Figures>(
  rounds: Rounds<Measured>,
  name: string,
  baseline: string,
  figure: (figures: Measured) => number,
): Spread {
  const base = rounds.get(baseline) ?? [];
  return spreadOf((rounds.get(name) ?? []).map((figures, round) => figure(figures) / figure(base[round] ?? figures)));
}
