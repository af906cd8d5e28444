/** Runs histories until one violates the invariant. A child process of simulate-mutants.ts, with a mutant applied. */

import { runHistory } from '../histories/history.ts';

export interface SearchResult {
  /** The seed of the history that violates the invariant. Absent: none does. */
  readonly seed?: number | undefined;
  /** What the histories before it violate instead. */
  readonly others: readonly string[];
}

const [invariant, firstSeed, maxHistories, jobs] = process.argv.slice(2);

const others = new Set<string>();
let found: number | undefined;
const end = Number(firstSeed) + Number(maxHistories);
for (let seed = Number(firstSeed); seed < end && found === undefined; seed += 1) {
  const { violation } = await runHistory({ seed: String(seed), pages: 12, jobs: jobs === 'jobs' });
  if (violation?.invariant === invariant) found = seed;
  else if (violation !== undefined) others.add(violation.invariant);
}
process.stdout.write(`${JSON.stringify({ seed: found, others: [...others] } satisfies SearchResult)}\n`);
