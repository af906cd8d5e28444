/**
 * Runs between the tests and a program that they start, so that the program never outlives them: however the tests end,
 * even by SIGKILL, the stdin of this process ends, and it stops everything that the program has started.
 *
 * @example node process-guard.ts <log file> <directory to remove at the end, or ''> <command> [parameter …]
 */

import { spawn } from 'node:child_process';
import { openSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const [log = '', directory = '', command = '', ...parameters] = process.argv.slice(2);
const output = openSync(log, 'w');

// In a new process group, because an emulator of Lambda starts processes that must end with it.
const child = spawn(command, parameters, { stdio: ['ignore', output, output], detached: true });

let status = 1;
let isEnding = false;
const end = () => {
  if (!isEnding) void cleanUp();
  isEnding = true;
};
process.stdin.on('end', end).on('error', end).resume();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end);
child.on('error', end);
child.on('exit', (code) => {
  status = code ?? 1;
  end();
});

const gracePeriodMs = 3_000;

async function cleanUp(): Promise<never> {
  signalGroup('SIGTERM');
  for (const deadline = Date.now() + gracePeriodMs; signalGroup(0) && Date.now() < deadline;) await sleep(20);
  signalGroup('SIGKILL');
  if (directory !== '') rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  process.exit(status);
}

/** Returns whether any process of the group is left. */
function signalGroup(signal: NodeJS.Signals | 0): boolean {
  try {
    return child.pid !== undefined && process.kill(-child.pid, signal);
  } catch {
    return false;
  }
}
