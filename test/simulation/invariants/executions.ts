/** Logs the events of executions, and checks them: payloads, histories and errors. */

import { errorNames } from '../../../lib/core/errors.ts';
import type { GivenExport } from '../../../lib/settings/settings.ts';
import { type ExecutionEvent, maxHistoryEvents, type SimulatedExecution } from '../step-functions/step-functions.ts';
import type { World } from '../world/world.ts';
import { checkNoUrl } from './report-jobs.ts';

/** The limit that the state machine itself has for everything but an error and its cause. */
const maxPayloadBytes = 1_024;

/** Lambda's own limit. */
const maxInvocationMs = 900_000;

/**
 * `settingsOf`: the settings of the export with this start input, of each version that is deployed: an execution may
 * invoke the functions of several. `damagedRuns`: the runs that have a page which someone has changed. `firstPageAt`:
 * when the run has logged its first page. `waitRequests`: how often the service has asked for a wait.
 */
export function createExecutionChecks(
  world: World,
  settingsOf: (startInput: unknown) => readonly GivenExport[],
  damagedRuns: () => readonly string[],
  firstPageAt: (run: string) => number | undefined,
  waitRequests: () => number,
): (event: ExecutionEvent) => void {
  const iterations = new Map<string, number>();

  function checkPayload({ name, input, redriveCount }: SimulatedExecution, state: string, data: unknown): void {
    if (state === 'NextAction' && (data as { next?: unknown }).next === 'page') {
      const count = (iterations.get(name) ?? 0) + 1;
      iterations.set(name, count);
      const iterationsPerExecution = Math.max(...settingsOf(input).map((each) => each.iterationsPerExecution));
      if (count > iterationsPerExecution + redriveCount) {
        world.violate('an execution continues in a new one after iterationsPerExecution', name);
      }
    }
    const { waitSeconds = 0, waits = 0 } = data as { waitSeconds?: number; waits?: number };
    if (waits > waitRequests()) {
      world.violate('waits for report jobs are no consecutive waits', `${name}: ${waits}`);
    }
    const maxRetryAfterMs = Math.max(...settingsOf(input).map(({ maxRetryAfter }) => maxRetryAfter));
    if (state === 'WaitForService' && waitSeconds * 1_000 > maxRetryAfterMs) {
      world.violate('no wait for the service is longer than maxRetryAfter', `${name}: ${waitSeconds} s`);
    }
    const isLoopState = state === 'ExportPage' || state === 'FinishRun' || state === 'NextAction';
    if (isLoopState && Buffer.byteLength(JSON.stringify(data)) > maxPayloadBytes) {
      world.violate('state payloads stay small', `${name}, ${state}: ${JSON.stringify(data)}`);
    }
  }

  /** Whether the attempt must have known of a page. Another invocation may have logged the first one meanwhile. */
  const hadPage = (cause: string) => {
    const [, page = '1', run = ''] =
      /(?:page (\d+) )?(?:of slice \d+ )?of run (\d{8}T\d{6}Z-[0-9a-f]{12})/.exec(cause) ?? [];
    return page !== '1' || world.time.now() - (firstPageAt(run) ?? world.time.now()) > maxInvocationMs;
  };

  return (event) => {
    const { execution } = event;
    const { name } = execution;
    switch (event.type) {
      case 'started':
        world.log(name, () => 'starts');
        return;
      case 'entered':
        world.log(name, () => `enters ${event.state}`);
        checkNoUrl(world, `${name} in ${event.state}`, JSON.stringify(event.data ?? null));
        checkPayload(execution, event.state, event.data);
        return;
      case 'redriven':
        world.log('operator', () => `redrives ${name} in ${execution.state}`);
        return;
      case 'exited':
        return;
      case 'task-failed':
        world.log(name, () => {
          const { retryInMs } = event;
          const retry = retryInMs === undefined ? 'no further attempt' : `retry in ${Math.round(retryInMs)} ms`;
          return `${event.state} fails: ${event.error}; ${retry}`;
        });
        checkNoUrl(world, `${name} in ${event.state}`, event.cause);
        if (event.error === 'ServiceUnreachableError' && hadPage(event.cause)) {
          world.violate('an unreachable service fails no run that has a page', `${name}: ${event.cause}`);
        }
        if (event.error === 'PageConflictError' && !damagedRuns().some((run) => event.cause.includes(run))) {
          world.violate('no PageConflictError occurs', `${name}: ${event.cause}`);
        }
        return;
      case 'stopped':
        world.log('operator', () => `stops ${name} in ${execution.state}`);
        return;
      case 'ended':
        world.log(name, () => `ends in ${execution.state}: ${[execution.status, execution.error].join(' ').trimEnd()}`);
        if (execution.eventCount > maxHistoryEvents || execution.error === 'States.Runtime') {
          world.violate(
            'an execution history stays within its limit',
            `${name}: ${execution.eventCount} events, ${execution.cause}`,
          );
        }
        if (execution.status === 'FAILED' && !isSpecific(execution.error)) {
          world.violate('every error has a specific name', `${name}: ${execution.error}: ${execution.cause}`);
        }
    }
  };
}

/** An error of this project, the platform or the SDK that says more than that something failed. */
function isSpecific(error = ''): boolean {
  const ownErrors: readonly string[] = errorNames;
  return (
    ownErrors.includes(error) ||
    /^(Lambda|Sandbox|Runtime|States|EventBridge|StepFunctions)\.[A-Za-z.]+$/.test(error) ||
    /^(UnknownActionError|TimeoutError|SlowDown|InternalError|ThrottlingException|ProvisionedThroughputExceededException|ConditionalRequestConflict)$/.test(
      error,
    )
  );
}
