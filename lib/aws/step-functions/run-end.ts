/** Determines how an execution of the state machine ended, and what that means for its run. */

import type { DescribeExecutionCommandOutput } from '@aws-sdk/client-sfn';
import * as z from 'zod/mini';
import { type ExportState, type FailedRun, resultSchema, type RunResult, zeroTotals } from '../../core/model.ts';
import type { PageLog, StoreReader } from '../../core/ports.ts';
import { readProgress } from '../../core/run-progress.ts';
import { continuationName } from '../../core/state-machine/definition.ts';
import { manifestAddress } from '../../core/storage/keys.ts';
import type { RunEnd } from '../../target/target.ts';
import { parseJson, toFailure } from './failure.ts';

interface RunEndDependencies {
  readonly exportName: string;
  /** The state of the export, or of the bounded run that is started. */
  readonly stateName: string;
  readonly log: Pick<PageLog, 'exportState' | 'last' | 'lastSlice'>;
  readonly store: Pick<StoreReader, 'locate'>;
  readonly notify: (text: string) => void;
}

const continuedSchema = z.object({ next: z.literal('continue'), run: z.string(), executionNumber: z.int() });
const skippedSchema = z.object({ next: z.literal('skip'), reason: z.string(), done: z.optional(z.literal(true)) });
const caughtErrorSchema = z.object({ Error: z.optional(z.string()), Cause: z.optional(z.string()) });

/** The result of an execution that has ended. `continued`: another one has the run. */
export async function readRunEnd(
  deps: RunEndDependencies,
  ended: DescribeExecutionCommandOutput,
): Promise<RunEnd | { readonly status: 'continued'; readonly execution: string }> {
  const { executionArn = '', status } = ended;
  if (status !== 'SUCCEEDED') return await readFailure(deps, ended);
  const output = parseJson(ended.output);
  const completed = resultSchema.safeParse(output);
  if (completed.success) return completedRun(deps, completed.data);
  const continued = continuedSchema.safeParse(output).data;
  if (continued !== undefined) {
    // The name under which the state ContinueInNewExecution starts it.
    const name = continuationName({ export: deps.exportName, ...continued });
    return { status: 'continued', execution: siblingExecution(executionArn, name) };
  }
  const skipped = skippedSchema.safeParse(output).data;
  if (skipped !== undefined) return { status: 'skipped', reason: skipped.reason, done: skipped.done };
  const { Error: error, Cause: cause } = caughtErrorSchema.safeParse(output).data ?? {};
  // An earlier attempt had started the next execution, but its response was lost.
  const [named] = /arn:[^\s']+/.exec(cause ?? '') ?? [];
  const isStarted = error === 'StepFunctions.ExecutionAlreadyExistsException' && named !== executionArn;
  if (isStarted && named !== undefined) return { status: 'continued', execution: named };
  return { status: 'skipped', reason: toFailure({ error, cause }).message };
}

const completedRun = ({ store }: RunEndDependencies, result: RunResult): RunEnd => ({
  status: 'completed',
  result,
  manifest: manifestAddress(result, store),
});

/** The ARN of the execution `name` of the same state machine. */
export const siblingExecution = (executionArn: string, name: string): string =>
  `${executionArn.slice(0, executionArn.lastIndexOf(':'))}:${name}`;

/**
 * What FailRun has recorded: with the active run, or with the last one if that can never complete. If FailRun did not run or failed, what
 * the export state and the page log show.
 */
async function readFailure(deps: RunEndDependencies, ended: DescribeExecutionCommandOutput): Promise<RunEnd> {
  const { executionArn = '', status } = ended;
  const failure = toFailure(ended, status === 'ABORTED');
  const { active, lastCompleted, lastAbandoned, recentExecutions }: Partial<ExportState> =
    (await deps.log.exportState(deps.stateName)) ?? {};
  if (lastCompleted?.execution === executionArn) {
    // Only the event can have failed after it.
    deps.notify(
      `The run is published, but its execution failed afterwards (${failure.error}: ${failure.message}). ` +
        'The event about its completion may be missing',
    );
    return completedRun(deps, lastCompleted.result);
  }
  const failed = (known: Omit<FailedRun, 'export' | 'error' | 'message' | 'resumable'>, resumable: boolean) =>
    ({ status: 'failed', failed: { export: deps.exportName, ...known, ...failure, resumable } }) as const;
  if (active?.execution === executionArn) {
    const { totals, slices } = await readProgress(deps.log, active);
    const { run, since, until, bounded } = active;
    return failed(
      { run, since, until, bounded, ...totals },
      active.slices !== undefined || slices[0]?.last?.repeats !== true,
    );
  }
  if (active === undefined && lastAbandoned !== undefined && recentExecutions?.[0] === executionArn) {
    const { failure: _, ...known } = lastAbandoned;
    return failed(known, false);
  }
  return failed({ run: null, since: null, ...zeroTotals }, active !== undefined);
}
