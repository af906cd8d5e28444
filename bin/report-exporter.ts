#!/usr/bin/env node
/** The command line as a process: its words, its streams, and signals as an interruption. */

import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// A command comes up in two thirds of the time where its modules need not be compiled anew. Beside the code, as it is code;
// where nothing may be written there, Node does without. So what comes next is imported behind it.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/report-exporter', import.meta.url)));
const { exitStatuses } = await import('../lib/operator/context.ts');
const { runProgram } = await import('./program.ts');

const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    // The second time, whoever asks does not want to wait: a run survives being cut off anywhere.
    if (interruption.signal.aborted) process.exit(exitStatuses.interrupted);
    interruption.abort();
  });
}
for (const stream of [process.stdout, process.stderr]) {
  // A reader that leaves, as `head` does, is no reason to stop exporting.
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.stderr.write(`What is to be said cannot be written: ${error.message}\n`);
    process.exit(exitStatuses.failed);
  });
}
const { env, stdin, stdout, stderr } = process;

process.exitCode = await runProgram(process.argv.slice(2), { env, stdin, stdout, stderr, signal: interruption.signal });
// What was left in the middle, such as a file that is being read, would keep the process waiting for its end.
if (interruption.signal.aborted) process.exit();
