/** A Python environment of the tests' own, with MiniStack and moto in it, made once for each requirements.txt. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { runTool } from './processes.ts';
import { versionOf } from './program-version.ts';

const requirements = join(import.meta.dirname, 'requirements.txt');
const [oldestMajor, oldestMinor] = [3, 10];

/** The environment's `python`. @throws one line for a person, where there is no Python or no way to install */
export async function pythonEnvironment(): Promise<string> {
  const { command, version } = await findPython();
  const recipe = `${version.join('.')}\n${await readFile(requirements, 'utf8')}`;
  const folder = await cached('python', recipe, async (folder) => {
    process.stdout.write('Installing MiniStack and moto (once; about a minute) …\n');
    try {
      await runTool('python-venv', command, ['-m', 'venv', folder]);
      const pip = ['-m', 'pip', 'install', '--quiet', '--requirement', requirements];
      await runTool('pip', join(folder, 'bin/python'), pip);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(
        `npm run test:aws cannot install test/aws-e2e/emulators/requirements.txt with ${command}: ${why}`,
      );
    }
  });
  return join(folder, 'bin/python');
}

async function findPython(): Promise<{ readonly command: string; readonly version: number[] }> {
  for (const command of ['python3', 'python']) {
    const version = await versionOf(command, '--version');
    const [major = 0, minor = 0] = version ?? [];
    const isNewEnough = major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
    if (version !== undefined && isNewEnough) return { command, version };
  }
  throw new Error(
    `npm run test:aws needs Python ${oldestMajor}.${oldestMinor} or newer (python3 in PATH), to install MiniStack and moto`,
  );
}
