#!/usr/bin/env node
/** The command line as a process: its arguments, streams and signals. */

import './compile-cache.ts';
import { dirname } from 'node:path';

ignoreSqliteWarning();
const { exitStatuses, finishExchange, processRuntime } = await import('../lib/operator/context.ts');
const { runProgram } = await import('./program.ts');
const { programName } = await import('../lib/operator/program-name.ts');
const { packageFile } = await import('./package-file.ts');

const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    const isFirst = !interruption.signal.aborted;
    interruption.abort();
    void finishExchange(process.stderr, isFirst).then(() => {
      // The first one ends the program cleanly. A run survives being killed at any point.
      if (!isFirst) process.exit(exitStatuses.interrupted);
    });
  });
}
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // The reader of a pipe has closed it, as `head` does. The export continues.
    if (error.code === 'EPIPE') return;
    process.stderr.write(`Error: cannot write output: ${error.message}\n`);
    process.exit(exitStatuses.failed);
  });
}
const { env, stdout, stderr } = process;

const program = programName(dirname(packageFile), process.cwd());
process.exitCode = await runProgram(process.argv.slice(2), {
  env,
  stdout,
  stderr,
  signal: interruption.signal,
  runtime: processRuntime,
  program,
});
// Operations in progress, such as reading a file, would keep an interrupted process alive.
if (interruption.signal.aborted) process.exit();

/** Node.js 22 warns that its SQLite is experimental. What is used of it works there, and users can do nothing. */
function ignoreSqliteWarning(): void {
  const emitWarning = process.emitWarning.bind(process);
  const isSqliteWarning = (warning: unknown) => String(warning).startsWith('SQLite is an experimental feature');
  process.emitWarning = ((warning: string, ...rest: []) => {
    if (!isSqliteWarning(warning)) emitWarning(warning, ...rest);
  }) as typeof process.emitWarning;
}
