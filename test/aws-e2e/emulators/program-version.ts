import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** The numbers of the first version that a program prints; undefined if the program cannot be run. */
export async function programVersion(command: string, ...parameters: readonly string[]): Promise<number[] | undefined> {
  try {
    const { stdout, stderr } = await promisify(execFile)(command, parameters, { timeout: 60_000 });
    return /\d+(\.\d+)+/
      .exec(stdout + stderr)?.[0]
      .split('.')
      .map(Number);
  } catch {
    return undefined;
  }
}
