/** Runs `npm run simulate` in a child process, as a test sees it. */

import { type ChildProcess, execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface SimulateResult {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `mutant`: the name of the mutant to apply to the protocol. `onStart` is called with the process. */
export function runSimulate(
  args: readonly string[],
  mutant?: string,
  onStart: (child: ChildProcess) => void = () => {},
): Promise<SimulateResult> {
  const patch = mutant === undefined ? [] : ['--import', pathOf('./mutants/patch-on-load.ts')];
  const env = { ...process.env, ...(mutant === undefined ? {} : { MUTANT: mutant }) };
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [...patch, pathOf('./simulate.ts'), ...args],
      { env, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => resolve({ status: Number(error?.code ?? 0), stdout, stderr }),
    );
    onStart(child);
  });
}

const pathOf = (file: string) => fileURLToPath(new URL(file, import.meta.url));
