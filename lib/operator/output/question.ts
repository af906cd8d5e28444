/** Asks for a secret at the terminal. */

import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { Terminal } from './terminal.ts';

export type TerminalInput = NodeJS.ReadableStream & { readonly isTTY?: boolean };

interface Place {
  readonly stdin: TerminalInput;
  readonly stderr: Terminal;
  readonly signal: AbortSignal;
}

/** The reply, which the terminal does not show; undefined after an interruption or at the end of the input. */
export async function askSecret(question: string, { stdin, stderr, signal }: Place): Promise<string | undefined> {
  // As a terminal, readline shows what is typed itself. This output discards it.
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: stdin, output, terminal: true });
  // A question whose input ends would never be answered.
  const inputEnded = new AbortController();
  terminal.once('close', () => inputEnded.abort());
  stderr.write(question);
  try {
    return await terminal.question('', { signal: AbortSignal.any([signal, inputEnded.signal]) });
  } catch {
    return undefined;
  } finally {
    terminal.close();
    stderr.write('\n');
  }
}
