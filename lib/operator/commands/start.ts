/** `report-exporter start`: starts a run of a deployed or local export, or resumes its unfinished run. */

import * as z from 'zod/mini';
import type { StartRequest } from '../../core/operations/deployment.ts';
import { describeProblems } from '../../core/settings/validation-errors.ts';
import { instantSchema } from '../../core/timestamps.ts';
import { type CommandContext, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { followRun } from '../follow-run.ts';

export interface StartCommandOptions extends TargetOptions {
  readonly since?: string;
  readonly restart?: boolean;
  readonly follow?: boolean;
}

/** Resolves to the exit status of the run if it is followed. A local run always is. */
export async function startCommand(
  exportName: string | undefined,
  options: StartCommandOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const since = z.optional(instantSchema).safeParse(options.since);
  const problems = since.success ? usageErrors : [...usageErrors, describeProblems('--since', since.error)];
  return await runOnDeployment(
    options,
    problems,
    context,
    async (deployment) => {
      const deployed = await openExport(deployment, exportName);
      const followOptions = {
        exportName: deployed.name,
        follow: options.follow === true || options.stack === undefined,
        json: options.json === true,
        next: {
          help: 'npx report-exporter start --help',
          watch: `npx report-exporter status ${deployed.name} ${deployment.option} --watch`,
        },
      };
      // Absent fields must be missing from the start input, not undefined.
      const request: StartRequest = {
        ...(since.data === undefined ? {} : { since: since.data }),
        ...(options.restart === undefined ? {} : { restart: options.restart }),
      };
      return await followRun(followOptions, context, (startOptions) => deployed.start(request, startOptions));
    },
    { handlesInterruption: true },
  );
}
