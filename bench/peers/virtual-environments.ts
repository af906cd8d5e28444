/**
 * The peers from Python, each in a virtual environment of its own under node_modules/.cache, made on the first run. Where
 * that cannot be, for want of Python, venv or a package index, the benchmark says so and goes on without them.
 */

import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const cache = join('node_modules', '.cache', 'bench-peers');

export interface Environment {
  /** Its interpreter, as an absolute path. */
  readonly python: string;
}

export interface Missing {
  /** Why it is not there, in a few words. */
  readonly missing: string;
}

/** The environments of all packages named in requirements.txt, by package. With `install` those that lack are made. */
export async function virtualEnvironments(
  install: boolean,
  say: (line: string) => void,
): Promise<ReadonlyMap<string, Environment | Missing>> {
  const lines = (await readFile(new URL('python/requirements.txt', import.meta.url), 'utf8')).split('\n');
  const found = new Map<string, Environment | Missing>();
  for (const requirement of lines.filter((line) => line.includes('=='))) {
    found.set(requirement.split('==')[0] ?? '', await environment(requirement, install, say));
  }
  return found;
}

async function environment(
  requirement: string,
  install: boolean,
  say: (line: string) => void,
): Promise<Environment | Missing> {
  const folder = join(process.cwd(), cache, requirement);
  const python = join(folder, 'bin', 'python');
  // Written last: an environment without it was left half made.
  const mark = join(folder, 'installed');
  try {
    await readFile(mark);
    return { python };
  } catch {
    if (!install) return { missing: `${requirement} is not installed; a run without --quick tries to` };
  }
  say(`peers: installing ${requirement}`);
  try {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    await run('python3', ['-m', 'venv', folder]);
    await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', requirement]);
    await writeFile(mark, requirement);
    return { python };
  } catch (error) {
    const { message, stderr } = error as Error & { readonly stderr?: string };
    const why = (stderr?.trim() || message).split('\n').at(-1) ?? '';
    return { missing: `${requirement} could not be installed: ${why}` };
  }
}
