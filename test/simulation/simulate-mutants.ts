/** `npm run simulate:mutants`: breaks the protocol in many ways, one at a time, and tells whether the simulation notices each. */

import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Mutant, mutants } from './mutants/mutants.ts';

/** A mutant that lives through so many histories is not noticed. */
const mostHistories = 1_000;
/** The same seeds for each, so that what is found today is found tomorrow. */
const firstSeed = 1;

interface Hunt {
  readonly histories: number;
  /** Why it could not be hunted, such as an edit that does not apply any more. */
  readonly trouble?: string;
  readonly found?: { readonly seed: number; readonly invariant: string };
}

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

async function hunt({ name }: Mutant): Promise<Hunt> {
  const ended = await promisify(execFile)(
    process.execPath,
    [
      '--import',
      here('./mutants/patch-on-load.ts'),
      here('./mutants/find-violation.ts'),
      String(firstSeed),
      String(mostHistories),
    ],
    { env: { ...process.env, MUTANT: name }, maxBuffer: 64 * 1024 * 1024 },
  ).catch((error: unknown) => ({ stdout: '', error }));
  if ('error' in ended) return { histories: 0, trouble: String(ended.error) };
  const { stdout } = ended;
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Hunt;
}

const left = [...mutants];
let survivors = 0;
const lane = async () => {
  for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
    const { histories, found, trouble } = await hunt(mutant);
    if (found === undefined) survivors += 1;
    const end =
      trouble ??
      (found === undefined ? `SURVIVED ${histories} histories` : `found in history ${histories}: ${found.invariant}`);
    process.stdout.write(`${mutant.name.padEnd(68)} ${end}\n`);
  }
};
await Promise.all(Array.from({ length: availableParallelism() }, lane));
process.stdout.write(`${mutants.length - survivors} of ${mutants.length} mutants found\n`);
process.exitCode = survivors === 0 ? 0 : 1;
