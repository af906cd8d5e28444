/** What is told of executions, and what must hold of each: few events, little data, and an end that says why. */

import { errorNames } from '../../../lib/core/errors.ts';
import type { ExecutionFact } from '../step-functions/step-functions.ts';
import { mostHistoryEvents } from '../step-functions/step-functions.ts';
import type { World } from '../world/world.ts';

/** The machine's own bound on what travels from state to state, but for an error and its cause. */
const mostPayloadBytes = 1_024;

/** `iterationsPerExecution` bounds the pages an execution makes before it hands over. */
export function watchExecutions(world: World, iterationsPerExecution: number): (fact: ExecutionFact) => void {
  const pages = new Map<string, number>();
  return (fact) => {
    const { execution } = fact;
    const { name } = execution;
    switch (fact.what) {
      case 'started':
        world.tell(name, () => 'begins');
        return;
      case 'entered': {
        world.tell(name, () => `enters ${fact.state}`);
        if (fact.state === 'NextAction' && (fact.data as { next?: unknown }).next === 'page') {
          pages.set(name, (pages.get(name) ?? 0) + 1);
          // A walk that starts afresh, three times at most, goes on for a page.
          if ((pages.get(name) ?? 0) > iterationsPerExecution + 3)
            world.violate('an execution hands over in time', name);
        }
        const isTurn = fact.state === 'ExportPage' || fact.state === 'FinishRun' || fact.state === 'NextAction';
        if (isTurn && Buffer.byteLength(JSON.stringify(fact.data)) > mostPayloadBytes) {
          world.violate('little travels from state to state', `${name}, ${fact.state}: ${JSON.stringify(fact.data)}`);
        }
        return;
      }
      case 'exited':
        return;
      case 'failed':
        world.tell(name, () => {
          const again =
            fact.againInMs === undefined ? 'it is not tried again' : `again in ${Math.round(fact.againInMs)} ms`;
          return `${fact.state} fails with ${fact.error}, ${again}`;
        });
        if (fact.error === 'PageConflictError') {
          world.violate('nobody but us writes, so nothing conflicts', `${name}: ${fact.cause}`);
        }
        return;
      case 'stopped':
        world.tell('operator', () => `stops ${name} in ${execution.state}`);
        return;
      case 'ended':
        world.tell(name, () => `ends: ${execution.status} in ${execution.state} ${execution.error ?? ''}`);
        if (execution.events > mostHistoryEvents || execution.error === 'States.Runtime') {
          world.violate('a history never overflows', `${name}: ${execution.events} events, ${execution.cause}`);
        }
        if (execution.status === 'FAILED' && !isNamed(execution.error)) {
          world.violate('every error has a name', `${name} ended with ${execution.error}: ${execution.cause}`);
        }
    }
  };
}

/** Ours, the platform's, or the SDK's: anything that says more than that something went wrong. */
function isNamed(error = ''): boolean {
  const ours: readonly string[] = errorNames;
  return (
    ours.includes(error) ||
    /^(Lambda|Sandbox|Runtime|States|EventBridge|StepFunctions)\.[A-Za-z.]+$/.test(error) ||
    /^(TimeoutError|SlowDown|InternalError|ThrottlingException|ProvisionedThroughputExceededException|ConditionalRequestConflict)$/.test(
      error,
    )
  );
}
