/** Python environments of MiniStack and of the linters in test/templates, one for each version of the requirements. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { runTool } from './processes.ts';
import { programVersion } from './program-version.ts';

const [minMajor, minMinor] = [3, 10];

export interface PythonTools {
  /** The name of the environment's folder. */
  readonly name: string;
  /** For messages. */
  readonly tools: string;
  readonly requirements: string;
  /** The command that needs them. */
  readonly neededBy: string;
}

const emulators: PythonTools = {
  name: 'python',
  tools: 'MiniStack',
  requirements: join(import.meta.dirname, 'requirements.txt'),
  neededBy: 'npm run test:aws',
};

/** The path of the environment's `python`. @throws Error with a one-line message if there is no Python, or pip fails */
export async function pythonEnvironment(wanted: PythonTools = emulators): Promise<string> {
  const { name, tools, requirements, neededBy } = wanted;
  const { command, version } = await findPython(wanted);
  const recipe = `${version.join('.')}\n${await readFile(requirements, 'utf8')}`;
  const folder = await cached(name, recipe, async (folder) => {
    process.stdout.write(`Installing ${tools} (once; about a minute) …\n`);
    try {
      await runTool(`${name}-venv`, command, ['-m', 'venv', folder]);
      const pip = ['-m', 'pip', 'install', '--quiet', '--requirement', requirements];
      await runTool('pip', join(folder, 'bin/python'), pip);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`${neededBy} cannot install ${requirements} with ${command}: ${reason}`);
    }
  });
  return join(folder, 'bin/python');
}

async function findPython({
  tools,
  neededBy,
}: PythonTools): Promise<{ readonly command: string; readonly version: number[] }> {
  for (const command of ['python3', 'python']) {
    const version = await programVersion(command, '--version');
    const [major = 0, minor = 0] = version ?? [];
    const isNewEnough = major > minMajor || (major === minMajor && minor >= minMinor);
    if (version !== undefined && isNewEnough) return { command, version };
  }
  throw new Error(`${neededBy} needs Python ${minMajor}.${minMinor} or newer (python3 in PATH) to install ${tools}`);
}
