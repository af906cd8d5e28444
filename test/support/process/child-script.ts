/** Runs a TypeScript file of the tests in a separate process, so that a test can kill it. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface ChildScript extends AsyncDisposable {
  /** The complete lines of its stdout so far. */
  readonly lines: readonly string[];
  /** Resolves once stdout has a line that matches. @throws if the process ends without one */
  readonly waitForLine: (pattern: RegExp) => Promise<void>;
  /** Kills the process with SIGKILL, so that it cannot clean up, and resolves once it has ended. */
  readonly kill: () => Promise<void>;
  /** Resolves once the process has ended and its output was read: to its exit code or signal. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

/** Starts `script` with this Node.js. Its stderr is passed through. Dispose of it at the end of the test. */
export function startScript(script: URL, ...parameters: readonly string[]): ChildScript {
  const child = spawn(process.execPath, [fileURLToPath(script), ...parameters], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout });
  reader.on('line', (line) => lines.push(line));
  const read = once(reader, 'close');
  const ended = once(child, 'close').then(async ([code, signal]: unknown[]) => {
    await read;
    return (code ?? signal) as number | NodeJS.Signals;
  });
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  const waitForLine = async (pattern: RegExp) => {
    const matched = new Promise<void>((resolve) => {
      reader.on('line', (line) => pattern.test(line) && resolve());
    });
    if (!lines.some((line) => pattern.test(line))) await Promise.race([matched, ended]);
    if (!lines.some((line) => pattern.test(line))) {
      throw new Error(`The script ended without a line that matches ${pattern}. Its output: ${lines.join(' | ')}`);
    }
  };
  return { lines, waitForLine, kill, ended, [Symbol.asyncDispose]: kill };
}
