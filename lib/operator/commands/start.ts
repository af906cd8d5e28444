/** `report-exporter start`: starts runs of deployed or local exports, or resumes their unfinished runs. */

import * as z from 'zod/mini';
import { ExportError } from '../../core/errors.ts';
import type { Deployment, StartRequest } from '../../target/target.ts';
import { listNames } from '../../core/sanitize.ts';
import { describeProblems } from '../../core/validation-errors.ts';
import { type CommandContext, runOnDeployment, type TargetOptions } from '../context.ts';
import { followRun } from '../follow-run.ts';
import { readMaxAttempts, sinceSchema } from '../run-options.ts';
import { assertExportNames, runOneByOne, type StartManyOptions, startConcurrently } from '../start-many.ts';

export interface StartCommandOptions extends TargetOptions {
  readonly since?: string;
  readonly restart?: boolean;
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
  const problems = [...usageErrors];
  const request = readStartRequest(options, problems);
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  if (options.maxAttempts !== undefined && options.stack !== undefined) {
    problems.push('--max-attempts: applies to local runs only; the state machine of a stack has its own retries');
  }
  if (options.all === true && exportNames.length > 0) {
    problems.push('--all: starts every export; leave out the names of exports');
  }
  return await runOnDeployment(
    options,
    problems,
    context,
    async (deployment) => {
      const names = options.all === true ? await allExports(deployment) : await namedExports(deployment, exportNames);
      const follow = options.follow === true || options.stack === undefined;
      const json = options.json === true;
      const [name] = names;
      if (options.all !== true && name !== undefined && names.length === 1) {
        return await startOne(deployment, name, { request, follow, json, maxAttempts }, context);
      }
      const startMany = options.stack === undefined ? runOneByOne : startConcurrently;
      return await startMany(deployment, names, { request, follow, json, maxAttempts }, context);
    },
    { handlesInterruption: true },
  );
}

/** Adds what is wrong to `problems`. Absent fields must be missing from the start input, not undefined. */
export function readStartRequest(
  options: Pick<StartCommandOptions, 'since' | 'restart'>,
  problems: string[],
): StartRequest {
  const since = z.optional(sinceSchema).safeParse(options.since);
  if (!since.success) problems.push(describeProblems('--since', since.error));
  return {
    ...(since.data === undefined ? {} : { since: since.data }),
    ...(options.restart === undefined ? {} : { restart: options.restart }),
  };
}

/** @throws ConfigurationError if there is no export */
export async function allExports(deployment: Deployment): Promise<readonly string[]> {
  const names = await deployment.exportNames();
  if (names.length > 0) return names;
  throw new ExportError('ConfigurationError', `No exports in ${deployment.name}`);
}

async function namedExports(deployment: Deployment, names: readonly string[]): Promise<readonly string[]> {
  // Opening a single one reports that it does not exist.
  if (names.length === 1) return names;
  if (names.length > 1) {
    await assertExportNames(deployment, names);
    return names;
  }
  const all = await allExports(deployment);
  if (all.length === 1) return all;
  throw new ExportError(
    'ConfigurationError',
    `Specify exports of ${deployment.name}, or start all of them with --all: ${listNames(all)}`,
  );
}

async function startOne(
  deployment: Deployment,
  exportName: string,
  { request, ...follow }: StartManyOptions,
  context: CommandContext,
): Promise<number> {
  const deployed = await deployment.open(exportName);
  const next = {
    help: `${context.program} start --help`,
    watch: `${context.program} status ${exportName} ${deployment.option} --watch`,
  };
  return await followRun({ exportName, ...follow, next }, context, (startOptions) =>
    deployed.start(request, startOptions),
  );
}
