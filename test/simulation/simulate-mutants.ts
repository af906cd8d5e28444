/**
 * `npm run simulate:mutants`: breaks the protocol in many ways, one at a time, and checks that the simulation finds each.
 * With `--slice K/N`, only part K of N parts of the mutants.
 */

import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { type Mutant, mutants } from './mutants/mutants.ts';
import { everything, itemsIn, parseSlice, type Slice, sliceProblem } from './slice.ts';

/** A mutant that violates no invariant in so many histories is not found. */
const maxHistories = 3_000;
/** The same seeds every time, so that a mutant found today is found tomorrow. */
const defaultFirstSeed = 1;

interface SearchResult {
  readonly histories: number;
  readonly violation?: { readonly seed: number; readonly invariant: string };
  /** Why the search failed, such as an edit that no longer applies. */
  readonly error?: string;
}

const chosen = itemsIn(mutants, chosenSlice());
const remaining = [...chosen];
let found = 0;
const runSearches = async () => {
  for (let mutant = remaining.shift(); mutant !== undefined; mutant = remaining.shift()) {
    const result = await findViolation(mutant);
    if (result.violation !== undefined) found += 1;
    process.stdout.write(`${mutant.name.padEnd(68)} ${describeResult(result)}\n`);
  }
};
await Promise.all(Array.from({ length: availableParallelism() }, runSearches));
process.stdout.write(`${found} of ${chosen.length} mutants found\n`);
process.exitCode = found === chosen.length ? 0 : 1;

/** Ends the process with status 2 if the options are wrong: status 1 means that a mutant was not found. */
function chosenSlice(): Slice {
  try {
    const { slice } = parseArgs({ options: { slice: { type: 'string' } } }).values;
    const parsed = slice === undefined ? everything : parseSlice(slice);
    if (parsed === undefined) throw new Error(sliceProblem);
    return parsed;
  } catch (error) {
    process.stderr.write(`Error: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(2);
  }
}

async function findViolation({ name, firstSeed = defaultFirstSeed }: Mutant): Promise<SearchResult> {
  const args = [
    '--import',
    pathOf('./mutants/patch-on-load.ts'),
    pathOf('./mutants/find-violation.ts'),
    String(firstSeed),
    String(maxHistories),
  ];
  const env = { ...process.env, MUTANT: name };
  try {
    const { stdout } = await promisify(execFile)(process.execPath, args, { env, maxBuffer: 64 * 1024 * 1024 });
    return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as SearchResult;
  } catch (error) {
    return { histories: 0, error: String(error) };
  }
}

function describeResult({ histories, violation, error }: SearchResult): string {
  if (error !== undefined) return `ERROR: ${error}`;
  if (violation === undefined) return `NOT FOUND in ${histories} histories`;
  return `found at seed ${violation.seed}: ${violation.invariant}`;
}

function pathOf(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}
