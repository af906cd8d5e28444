/** Tells a watcher what keeps a run from getting on: the history shows it, and it is read only where nothing else is new. */

import { asRunId } from '../../core/model.ts';
import type { Watching } from '../../core/operations/deployment.ts';
import { stepNames } from '../../core/state-machine/definition.ts';
import { stepRetries } from '../../core/state-machine/retry-policy.ts';
import type { EndNeeds } from './execution-result.ts';
import type { Happening } from './history.ts';
import { recentHappenings } from './incidents.ts';

export interface TroubleTeller {
  /** Tells of the waits and failed attempts that have not been told yet. */
  tell(execution: string, run: string | undefined): Promise<void>;
}

export function createTroubleTeller(
  { client, exportName }: Pick<EndNeeds, 'client' | 'exportName'>,
  { emit, onRetry }: Watching,
): TroubleTeller {
  let told = { execution: '', event: 0 };
  return {
    async tell(execution, run) {
      if (told.execution !== execution) told = { execution, event: 0 };
      const { happenings } = await recentHappenings(client, execution, run);
      for (const { event, run: id, state, attempt, setback } of happenings.filter((each) => each.event > told.event)) {
        told = { execution, event };
        if (setback.kind === 'wait') {
          const { page, seconds } = setback;
          const about = { export: exportName, run: asRunId(id), page: page ?? 0 };
          emit({ event: 'service-asked-to-wait', ...about, seconds, inside: false });
        }
        if (setback.kind !== 'failed-attempt') continue;
        const { error, message } = setback;
        const attempts = attemptsAfter(state, error);
        if (attempt <= attempts) onRetry({ state, error, message, attempt, attempts });
      }
    },
  };
}

/** How often the state is repeated after such an error. */
function attemptsAfter(state: Happening['state'], error: string): number {
  if (!stepNames.some((step) => step === state)) return 0;
  const retrier = stepRetries.find(
    ({ ErrorEquals }) => ErrorEquals.includes(error) || ErrorEquals.includes('States.ALL'),
  );
  return retrier?.MaxAttempts ?? 0;
}
