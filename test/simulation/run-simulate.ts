/** Runs `npm run simulate` in a child process, as a test sees it. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface SimulateResult {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `mutant`: the name of the mutant to apply to the protocol. */
export function runSimulate(args: readonly string[], mutant?: string): Promise<SimulateResult> {
  const patch = mutant === undefined ? [] : ['--import', pathOf('./mutants/patch-on-load.ts')];
  const env = { ...process.env, ...(mutant === undefined ? {} : { MUTANT: mutant }) };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...patch, pathOf('./simulate.ts'), ...args],
      { env, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => resolve({ status: Number(error?.code ?? 0), stdout, stderr }),
    );
  });
}

const pathOf = (file: string) => fileURLToPath(new URL(file, import.meta.url));
