/** `report-exporter start`: starts runs of deployed or local exports, or resumes their unfinished runs. */

import { ExportError } from '../../core/errors.ts';
import { listNames } from '../../core/sanitize.ts';
import type { Target } from '../../target/target.ts';
import { allExports, type CommandContext, runOnDeployment, type TargetOptions } from '../context.ts';
import { readMaxAttempts, readStartRequest, type RunOptions } from '../run-options.ts';
import { startExports } from '../start-exports.ts';

export interface StartCommandOptions extends TargetOptions, RunOptions {
  readonly follow?: boolean;
  /** How often a step of a local run is tried at most. */
  readonly maxAttempts?: string;
  /** Every export of the deployment. */
  readonly all?: boolean;
}

/** Resolves to the exit status of the runs if they are followed. Local runs always are. */
export async function startCommand(
  exportNames: readonly string[],
  options: StartCommandOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stack, all = false, follow = false, json = false } = options;
  const problems = [...usageErrors];
  const request = readStartRequest(options, problems);
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  if (options.maxAttempts !== undefined && stack !== undefined) {
    problems.push('--max-attempts: applies to local runs only; the state machine of a stack has its own retries');
  }
  if (all && exportNames.length > 0) problems.push('--all: starts every export; leave out the names of exports');
  return await runOnDeployment(
    options,
    problems,
    context,
    async (deployment) => {
      const names = all ? await allExports(deployment) : await namedExports(deployment, exportNames);
      const isStack = stack !== undefined;
      const start = { request, follow: follow || !isStack, json, maxAttempts, concurrent: isStack };
      return await startExports(deployment, names, { ...start, command: 'start' }, context);
    },
    { handlesInterruption: true },
  );
}

async function namedExports(deployment: Target, names: readonly string[]): Promise<readonly string[]> {
  // Opening a single one reports that it does not exist.
  if (names.length === 1) return names;
  const existing = await allExports(deployment);
  if (names.length === 0) {
    if (existing.length === 1) return existing;
    throw new ExportError(
      'ConfigurationError',
      `Specify exports of ${deployment.name}, or start all of them with --all: ${listNames(existing)}`,
    );
  }
  const twice = new Set(names.filter((name, index) => names.indexOf(name) !== index));
  const unknown = new Set(names.filter((name) => !existing.includes(name)));
  if (twice.size === 0 && unknown.size === 0) return names;
  const problems = [
    ...[...twice].map((name) => `${name}: given twice`),
    ...[...unknown].map((name) => `${name}: no such export in ${deployment.name}`),
    ...(unknown.size === 0 ? [] : [`  Its exports: ${listNames(existing)}`]),
  ];
  throw new ExportError('ConfigurationError', problems.join('\n'));
}
