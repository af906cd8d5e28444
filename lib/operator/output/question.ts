/** Asks a question at the terminal. */

import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { Terminal } from './terminal.ts';

export type TerminalInput = NodeJS.ReadableStream & { readonly isTTY?: boolean };

interface Place {
  readonly stdin: TerminalInput;
  readonly stderr: Terminal;
  readonly signal: AbortSignal;
}

/**
 * The reply; undefined if there is none, because of an interruption or the end of the input. The terminal does not show
 * what is typed if `isSecret`.
 */
export async function ask(
  question: string,
  { stdin, stderr, signal }: Place,
  { isSecret = false }: { readonly isSecret?: boolean } = {},
): Promise<string | undefined> {
  const output = isSecret
    ? new Writable({ write: (_chunk, _encoding, done) => done() })
    : (stderr as unknown as NodeJS.WritableStream);
  // As a terminal, readline shows what is typed itself, so that a secret goes to the output that discards it.
  const terminal = createInterface({ input: stdin, output, ...(isSecret && { terminal: true }) });
  // A question whose input ends would never be answered.
  const inputEnded = new AbortController();
  terminal.once('close', () => inputEnded.abort());
  if (isSecret) stderr.write(question);
  try {
    return await terminal.question(isSecret ? '' : question, { signal: AbortSignal.any([signal, inputEnded.signal]) });
  } catch {
    return undefined;
  } finally {
    terminal.close();
    if (isSecret) stderr.write('\n');
  }
}
