/** `report-exporter start`: starts runs of deployed or local exports, or resumes their unfinished runs. */

import type { Target } from '../target.ts';
import { type Call, runOnTarget, selectExports } from '../context.ts';
import { readMaxAttempts, readStartRequest } from '../run-options.ts';
import { startExports } from '../start-exports.ts';

/** Resolves to the exit status of the runs if they are followed. Local runs always are. */
export async function startCommand(call: Call): Promise<number> {
  const { names, options, problems, runtime } = call;
  const { stack, all = false, each, follow = false } = options;
  const request = readStartRequest(options, runtime.now(), problems);
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  if (options.maxAttempts !== undefined && stack !== undefined) {
    problems.push('--max-attempts: applies to local runs only; the state machine of a stack has its own retries');
  }
  if (all && names.length > 0) problems.push('--all: starts every export; leave out the names of exports');
  const isStack = stack !== undefined;
  // The command begins the next bounded run once the last one has completed.
  const isFollowed = follow || !isStack || each !== undefined;
  const start = { request, follow: isFollowed, maxAttempts, concurrent: isStack, command: 'start' };
  const action = async (target: Target) =>
    await startExports(target, await selectExports(target, names, all), start, call);
  return await runOnTarget(call, action, { handlesInterruption: true });
}
