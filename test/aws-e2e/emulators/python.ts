/** The Python environment of the tests, with MiniStack and moto. It is created once per version of requirements.txt. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { runTool } from './processes.ts';
import { programVersion } from './program-version.ts';

const requirements = join(import.meta.dirname, 'requirements.txt');
const [minMajor, minMinor] = [3, 10];

/** The path of the environment's `python`. @throws Error with a one-line message if there is no Python, or pip fails */
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
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(
        `npm run test:aws cannot install test/aws-e2e/emulators/requirements.txt with ${command}: ${reason}`,
      );
    }
  });
  return join(folder, 'bin/python');
}

async function findPython(): Promise<{ readonly command: string; readonly version: number[] }> {
  for (const command of ['python3', 'python']) {
    const version = await programVersion(command, '--version');
    const [major = 0, minor = 0] = version ?? [];
    const isNewEnough = major > minMajor || (major === minMajor && minor >= minMinor);
    if (version !== undefined && isNewEnough) return { command, version };
  }
  throw new Error(
    `npm run test:aws needs Python ${minMajor}.${minMinor} or newer (python3 in PATH) to install MiniStack and moto`,
  );
}
