/**
 * Publishes a finished walk and moves the watermark.
 *
 * The order of writes is the promise to readers: seal (so that the manifest's bytes are settled), manifest (publishes),
 * latest (points at it), head (watermark, and the export is free again). A crash between any two leaves a run that is
 * still active; finishing it again writes the same bytes and goes on.
 */

import { ExportError } from './errors.ts';
import { changeHead, ownedRun } from './head.ts';
import { instantOf } from './instants.ts';
import { latestKey, manifestKey } from './layout.ts';
import { manifestChunks, type SealedRun } from './manifest.ts';
import type { PageEntry, Run, RunResult } from './model.ts';
import type { PageLog, StepNeeds } from './ports.ts';
import { watermarkAfter } from './watermark.ts';

export type FinishRunNeeds = Pick<StepNeeds, 'definition' | 'store' | 'log' | 'surroundings' | 'emit'>;

/**
 * Completes the run that `execution` owns; repeated in the same execution, it answers the same.
 * @throws PageConflictError where the log is no unbroken chain, RunSupersededError where the execution owns no run.
 */
export async function finishRun(needs: FinishRunNeeds, command: { readonly execution: string }): Promise<RunResult> {
  const { definition, store, log, emit } = needs;
  const { execution } = command;
  const completed = (await log.head(definition.name))?.lastCompleted;
  if (completed?.execution === execution) {
    // Told again: whoever completed it may have been cut off before it was heard.
    emit({ event: 'run-completed', ...completed.result });
    return completed.result;
  }

  const run = await seal(needs, execution);
  const { first, last } = await endsOf(log, run);
  const manifest = manifestKey(run);
  await store.putManifest(manifest, manifestChunks(run, { first, last }, log.entries(run)));
  const { export: name, sequence, completedAt } = run;
  await store.putLatest(latestKey(name), { export: name, run: run.run, sequence, completedAt, manifest });

  const result = await changeHead(log, name, (head) => {
    ownedRun(head, execution, name);
    const watermark = watermarkAfter(head, definition, run, first);
    const { active: _, ...idle } = head;
    const done: RunResult = {
      export: name,
      run: run.run,
      since: run.since,
      watermark: watermark?.instant ?? null,
      pages: last.page,
      reports: last.totals.reports,
      bytes: last.totals.bytes,
      manifest,
    };
    return { change: { ...idle, watermark, lastCompleted: { execution, result: done } }, result: done };
  });
  emit({ event: 'run-completed', ...result });
  return result;
}

function seal({ definition, log, surroundings }: FinishRunNeeds, execution: string): Promise<SealedRun> {
  return changeHead(log, definition.name, (head) => {
    const run = ownedRun(head, execution, definition.name);
    if (run.completedAt !== undefined) return { result: { ...run, completedAt: run.completedAt } };
    const sealed = { ...run, completedAt: instantOf(surroundings.now()) };
    return { change: { ...head, active: sealed }, result: sealed };
  });
}

async function endsOf(log: PageLog, run: Run): Promise<{ first: PageEntry; last: PageEntry }> {
  const last = await log.last(run);
  for await (const first of log.entries(run)) if (last !== undefined) return { first, last };
  throw new ExportError(
    'PageConflictError',
    `Run ${run.run} of export ${run.export} has no page in its log; it is not published`,
  );
}
