import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** The numbers of the first version in what a program of this machine says of itself; undefined where it is not there. */
export async function versionOf(command: string, ...parameters: readonly string[]): Promise<number[] | undefined> {
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
