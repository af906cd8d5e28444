/** `npm run simulate`, as a person starts it; with `mutant`, over a protocol broken that way. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

export interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

export function run(args: readonly string[], mutant?: string): Promise<Ended> {
  const broken = mutant === undefined ? [] : ['--import', here('./mutants/patch-on-load.ts')];
  const env = { ...process.env, ...(mutant === undefined ? {} : { MUTANT: mutant }) };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...broken, here('./simulate.ts'), ...args],
      { env, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => resolve({ status: Number(error?.code ?? 0), stdout, stderr }),
    );
  });
}
