/** A TypeScript file of the tests, run as a process of its own: to be killed, or to come between. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface ChildScript extends AsyncDisposable {
  /** What it has said so far, line by line; whole lines only. */
  readonly lines: readonly string[];
  /** Resolves once it has said such a line. @throws if it ends without */
  readonly said: (wanted: RegExp) => Promise<void>;
  /** Ends it as a power cut would: it gets no chance to tidy up. Resolves once it is gone. */
  readonly kill: () => Promise<void>;
  /** Resolves once it is gone and all it said has been read: its exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

/** Starts `script` with this Node. What it writes to stderr comes through; a test that is done disposes of it. */
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
  const said = async (wanted: RegExp) => {
    const heard = new Promise<void>((resolve) => {
      reader.on('line', (line) => wanted.test(line) && resolve());
    });
    if (!lines.some((line) => wanted.test(line))) await Promise.race([heard, ended]);
    if (!lines.some((line) => wanted.test(line))) {
      throw new Error(`The script ended without saying ${wanted}; it said: ${lines.join(' | ')}`);
    }
  };
  return { lines, said, kill, ended, [Symbol.asyncDispose]: kill };
}
