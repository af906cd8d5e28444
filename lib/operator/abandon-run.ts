/**
 * Abandons an unfinished run at an operator's request. Its pages stay in the store and are never published. The next
 * start begins a new run at the watermark, which exports the same reports again.
 */

import { ExportError } from '../core/errors.ts';
import type { ExportState, Run, RunId } from '../core/model.ts';
import type { Executions, PageLog, StoreReader } from '../core/ports.ts';
import { updateState } from '../core/steps/export-state.ts';
import { manifestKey } from '../core/storage/keys.ts';

interface AbandonDependencies {
  readonly log: PageLog;
  readonly store: StoreReader;
  readonly executions: Executions;
}

/**
 * Abandons `run` and returns it. An execution that is working on it ends at its next step, without reporting a failure.
 * @throws ConfigurationError if `run` is not the unfinished run, or no longer, or if it is published already
 */
export async function abandonRun(
  deps: AbandonDependencies,
  { export: exportName, run }: { readonly export: string; readonly run: RunId },
): Promise<Run> {
  return await updateState(deps.log, exportName, async (state) => {
    const abandoned = await requireAbandonableRun(deps, state, exportName);
    if (abandoned.run !== run) {
      throw new ExportError(
        'ConfigurationError',
        `Run ${run} of export ${exportName} has ended in the meantime, and run ${abandoned.run} has begun. Nothing was changed`,
      );
    }
    const { active: _, ...idle } = state;
    return { change: idle, result: abandoned };
  });
}

/** The run that can be abandoned. @throws ConfigurationError if there is none, or it is published or being published */
export async function requireAbandonableRun(
  { store, executions }: Omit<AbandonDependencies, 'log'>,
  state: ExportState | undefined,
  exportName: string,
): Promise<Run> {
  const active = state?.active;
  if (active === undefined) {
    throw new ExportError('ConfigurationError', `Export ${exportName} has no unfinished run to abandon`);
  }
  // The manifest may be written at any moment, whether or not the state changes in between.
  if (active.completion?.isPublished === true && (await executions.isRunning(active.execution))) {
    throw new ExportError(
      'ConfigurationError',
      `Run ${active.run} of export ${exportName} has all its pages and is being published; it can no longer be abandoned`,
    );
  }
  // Consumers may have read the manifest. Only the watermark is left to move, and any start does that.
  const manifest = await store.read(manifestKey(active));
  if (manifest === undefined) return active;
  for await (const _ of manifest) break;
  throw new ExportError(
    'ConfigurationError',
    `Run ${active.run} of export ${exportName} is published already, at ${store.locate(manifestKey(active))}. ` +
      'Start the export to complete the run',
  );
}
