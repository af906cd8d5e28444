/**
 * The Python packages, each in its own virtual environment under node_modules/.cache, created on the first run. If one cannot be
 * created because Python, venv or a package index is missing, the benchmark says so and continues without it.
 */

import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const cache = join('node_modules', '.cache', 'bench-peers');

export interface Environment {
  /** The absolute path of its interpreter. */
  readonly python: string;
}

export interface MissingEnvironment {
  readonly reason: string;
}

/** The environments of all packages in requirements.txt, by package. `install`: creates those that are missing. */
export async function prepareEnvironments(
  install: boolean,
  reportProgress: (line: string) => void,
): Promise<ReadonlyMap<string, Environment | MissingEnvironment>> {
  const lines = (await readFile(new URL('python/requirements.txt', import.meta.url), 'utf8')).split('\n');
  const environments = new Map<string, Environment | MissingEnvironment>();
  for (const requirement of lines.filter((line) => line.includes('=='))) {
    const name = requirement.split('==')[0] ?? '';
    environments.set(name, await prepareEnvironment(requirement, install, reportProgress));
  }
  return environments;
}

async function prepareEnvironment(
  requirement: string,
  install: boolean,
  reportProgress: (line: string) => void,
): Promise<Environment | MissingEnvironment> {
  const folder = join(process.cwd(), cache, requirement);
  const python = join(folder, 'bin', 'python');
  // Written last: an environment without it is incomplete.
  const completionMark = join(folder, 'installed');
  try {
    await readFile(completionMark);
    return { python };
  } catch {
    if (!install) return { reason: `${requirement} is not installed. Run without --quick to install it` };
  }
  reportProgress(`peers: installing ${requirement}`);
  try {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    await run('python3', ['-m', 'venv', folder]);
    await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', requirement]);
    await writeFile(completionMark, requirement);
    return { python };
  } catch (error) {
    const { message, stderr } = error as Error & { readonly stderr?: string };
    const reason = (stderr?.trim() || message).split('\n').at(-1) ?? '';
    return { reason: `${requirement} could not be installed: ${reason}` };
  }
}
