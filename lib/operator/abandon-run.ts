/**
 * Abandons an unfinished run at an operator's request. Its pages stay in the store and are never published. The next
 * start begins a new run at the watermark, which exports the same reports again.
 */

import { parseStateName, stateNameOfRun } from '../core/bounded-runs.ts';
import { ExportError } from '../core/errors.ts';
import type { ExportState, Run } from '../core/model.ts';
import type { PageLog, StoreReader } from '../core/ports.ts';
import { assertMayBeAbandoned } from '../core/start/decide.ts';
import { updateState, withoutRun } from '../core/steps/export-state.ts';
import { manifestKey } from '../core/storage/keys.ts';

interface AbandonDependencies {
  readonly log: PageLog;
  readonly store: Pick<StoreReader, 'read' | 'locate'>;
}

/**
 * Abandons `run` and returns it. An execution that is working on it ends at its next step, without reporting a failure.
 * @throws ConfigurationError if `run` is not the unfinished run, or no longer, or if it is published already
 */
export async function abandonRun(
  deps: AbandonDependencies,
  run: Pick<Run, 'export' | 'run' | 'since' | 'until' | 'bounded' | 'parents'>,
): Promise<Run> {
  const stateName = stateNameOfRun(run);
  return await updateState(deps.log, stateName, async (state) => {
    const abandoned = await requireAbandonableRun(deps, state, stateName);
    if (abandoned.run !== run.run) {
      throw new ExportError(
        'ConfigurationError',
        `Run ${run.run} of export ${run.export} has ended in the meantime, and run ${abandoned.run} has begun. Nothing was changed`,
      );
    }
    return { change: withoutRun(state), result: abandoned };
  });
}

/** The run of this state. @throws ConfigurationError if there is none, or it is published or being published */
export async function requireAbandonableRun(
  { store }: Pick<AbandonDependencies, 'store'>,
  state: ExportState | undefined,
  stateName: string,
): Promise<Run> {
  if (state?.active === undefined) {
    const { export: name, bounds, parentRun } = parseStateName(stateName);
    const ofBounds = bounds === undefined ? '' : ` from ${bounds.since} to ${bounds.until}`;
    const ofChildren = parentRun === undefined ? '' : ` with the children of run ${parentRun}`;
    throw new ExportError(
      'ConfigurationError',
      `Export ${name} has no unfinished run${ofBounds}${ofChildren} to abandon`,
    );
  }
  const { active } = state;
  assertMayBeAbandoned(active, state);
  // Consumers may have read the manifest. Only the watermark is left to move, and any start does that.
  const manifest = await store.read(manifestKey(active));
  if (manifest === undefined) return active;
  for await (const _ of manifest) break;
  throw new ExportError(
    'ConfigurationError',
    `Run ${active.run} of export ${active.export} is published already, at ${store.locate(manifestKey(active))}. ` +
      'Start the export to complete the run',
  );
}
