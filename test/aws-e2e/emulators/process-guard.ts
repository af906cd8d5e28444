/**
 * Stands between the tests and a program they start, so that it outlives them in no case: when the tests end, whether in
 * good order, by Ctrl-C or by SIGKILL, this process's stdin ends, and with it everything the program has started.
 *
 * @example node warden.ts <log file> <directory to remove at the end, or ''> <command> [parameter …]
 */

import { spawn } from 'node:child_process';
import { openSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const [log = '', directory = '', command = '', ...parameters] = process.argv.slice(2);
const output = openSync(log, 'w');

// A process group of its own: an emulator of Lambda starts processes too, and they must go with it.
const ward = spawn(command, parameters, { stdio: ['ignore', output, output], detached: true });

let status = 1;
let isEnding = false;
const end = () => {
  if (!isEnding) void tidyUp();
  isEnding = true;
};
process.stdin.on('end', end).on('error', end).resume();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end);
ward.on('error', end);
ward.on('exit', (code) => {
  status = code ?? 1;
  end();
});

const patienceMs = 3_000;

async function tidyUp(): Promise<never> {
  signalGroup('SIGTERM');
  for (const until = Date.now() + patienceMs; signalGroup(0) && Date.now() < until; ) await sleep(20);
  signalGroup('SIGKILL');
  if (directory !== '') rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  process.exit(status);
}

/** Whether there is still anybody to be signalled. */
function signalGroup(signal: NodeJS.Signals | 0): boolean {
  try {
    return ward.pid !== undefined && process.kill(-ward.pid, signal);
  } catch {
    return false;
  }
}
