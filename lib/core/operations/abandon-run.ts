/**
 * Gives up an unfinished run because a person says so. Its pages stay where they are and are never published; the next
 * start begins a new run at the watermark, which asks for the same reports again.
 */

import { ExportError } from '../errors.ts';
import type { ExportState, Run, RunId } from '../model.ts';
import type { Executions, PageLog, StoreReader } from '../ports.ts';
import { updateState } from '../steps/export-state.ts';
import { manifestKey } from '../storage/keys.ts';

interface AbandonDependencies {
  readonly log: PageLog;
  readonly store: StoreReader;
  readonly executions: Executions;
}

/**
 * An execution that is at work on the run ends quietly at its next step.
 * @throws ConfigurationError where `run` is not, or no longer, the unfinished one, or is published already
 */
export async function abandonRun(
  deps: AbandonDependencies,
  { export: exportName, run }: { readonly export: string; readonly run: RunId },
): Promise<Run> {
  return await updateState(deps.log, exportName, async (head) => {
    const abandoned = await requireAbandonableRun(deps, head, exportName);
    if (abandoned.run !== run) {
      throw new ExportError(
        'ConfigurationError',
        `Run ${run} of export ${exportName} is over by now, and run ${abandoned.run} has taken its place; nothing was changed`,
      );
    }
    const { active: _, ...idle } = head;
    return { change: idle, result: abandoned };
  });
}

/** The run that can be given up. @throws ConfigurationError where there is none, or it is, or is being, published */
export async function requireAbandonableRun(
  { store, executions }: Omit<AbandonDependencies, 'log'>,
  head: ExportState | undefined,
  exportName: string,
): Promise<Run> {
  const active = head?.active;
  if (active === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `Export ${exportName} has no unfinished run; there is nothing to give up`,
    );
  }
  // Its manifest may be written the next moment, whatever the head says by then.
  if (active.completedAt !== undefined && (await executions.isRunning(active.execution))) {
    throw new ExportError(
      'ConfigurationError',
      `Run ${active.run} of export ${exportName} has all its pages and is being published; it can no longer be given up`,
    );
  }
  // Its readers may have it by now. What is left to do is the watermark, and any start does that.
  const manifest = await store.read(manifestKey(active));
  if (manifest === undefined) return active;
  for await (const _ of manifest) break;
  throw new ExportError(
    'ConfigurationError',
    `Run ${active.run} of export ${exportName} is published already, at ${store.locate(manifestKey(active))}. ` +
      'Start the export, and it is completed',
  );
}
