/**
 * `npm run simulate:mutants`: breaks the protocol in many ways, one at a time, and checks that the simulation finds
 * each. With `-- 3/10`, the third of ten parts of them.
 */

import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { SearchResult } from './mutants/find-violation.ts';
import { type Mutant, mutants } from './mutants/mutants.ts';

const runFile = promisify(execFile);

/** A mutant whose invariant is violated in none of the first histories is not found. */
const maxHistories = 1_000;

const [part = 1, parts = 1] = (process.argv[2] ?? '1/1').split('/').map(Number);
const selected = mutants.filter((_, index) => index % parts === part - 1);
const remaining = [...selected];
let found = 0;
const runSearches = async () => {
  for (let mutant = remaining.shift(); mutant !== undefined; mutant = remaining.shift()) {
    process.stdout.write(`${mutant.name.padEnd(78)} ${await describeSearch(mutant)}\n`);
  }
};
await Promise.all(Array.from({ length: availableParallelism() }, runSearches));
process.stdout.write(`${found} of ${selected.length} mutants found\n`);
process.exitCode = found === selected.length && found > 0 ? 0 : 1;

async function describeSearch({ name, violates, firstSeed = 1, jobs = false }: Mutant): Promise<string> {
  const startedAt = performance.now();
  const args = ['--import', pathOf('./mutants/patch-on-load.ts'), pathOf('./mutants/find-violation.ts')];
  const options = { env: { ...process.env, MUTANT: name }, maxBuffer: 64 * 1024 * 1024 };
  try {
    const { stdout } = await runFile(
      process.execPath,
      [...args, violates, String(firstSeed), String(maxHistories), jobs ? 'jobs' : ''],
      options,
    );
    const { seed, others } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as SearchResult;
    if (seed === undefined)
      return `NOT FOUND: ${maxHistories} histories violate [${others.join(', ')}], not ${violates}`;
    found += 1;
    return `found at seed ${seed} after ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`;
  } catch (error) {
    return `ERROR: ${String(error)}`;
  }
}

function pathOf(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}
