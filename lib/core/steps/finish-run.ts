/**
 * Publishes a finished walk and moves the watermark.
 *
 * The order of writes is the promise to readers: settle (so that the manifest's bytes are), manifest (publishes, once
 * every page was found in the store as it was logged), latest (points at it), head (watermark, and the export is free
 * again). A crash between any two leaves a run that is still active; finishing it again writes the same bytes and goes on.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { PageEntry, Run, RunId, RunResult } from '../model.ts';
import type { PageLog, StepDependencies } from '../ports.ts';
import { latestKey, manifestKey } from '../storage/keys.ts';
import { manifestChunks, type CompletedRun } from '../storage/manifest.ts';
import { instantOf } from '../timestamps.ts';
import { ownedRun, updateState } from './export-state.ts';
import { storedEntries } from './inventory.ts';
import { watermarkAfter } from './watermark.ts';

export type FinishRunDependencies = Pick<StepDependencies, 'definition' | 'store' | 'log' | 'runtime' | 'emit'>;

/**
 * Completes `run`, which `execution` must own; repeated, it answers the same.
 * @throws PageConflictError where the log is no unbroken chain, or the store does not hold what it names;
 *   RunSupersededError where the execution does not own the run.
 */
export async function finishRun(deps: FinishRunDependencies, command: FinishRunCommand): Promise<RunResult> {
  const result = (await completedResult(deps, command)) ?? (await complete(deps, command));
  // Told again where it is repeated: whoever completed it may have been cut off before it was heard.
  deps.emit({ event: 'run-completed', ...result });
  return result;
}

interface FinishRunCommand {
  readonly run: RunId;
  readonly execution: string;
}

/** What the run came to, if it is the newest that was completed, and for this execution. */
async function completedResult(
  { definition, log }: FinishRunDependencies,
  { run, execution }: FinishRunCommand,
): Promise<RunResult | undefined> {
  const completed = (await log.exportState(definition.name))?.lastCompleted;
  return completed?.execution === execution && completed.result.run === run ? completed.result : undefined;
}

async function complete(deps: FinishRunDependencies, command: FinishRunCommand): Promise<RunResult> {
  try {
    return await publish(deps, command);
  } catch (error) {
    // Another invocation for the same execution may have been quicker: then there is a result to tell.
    const told = isExportError(error, 'RunSupersededError') ? await completedResult(deps, command) : undefined;
    if (told === undefined) throw error;
    return told;
  }
}

async function publish(deps: FinishRunDependencies, command: FinishRunCommand): Promise<RunResult> {
  const { definition, store, log } = deps;
  const { execution } = command;
  const run = await settle(deps, command);
  const { first, last } = await endsOf(log, run);
  const manifest = manifestKey(run);
  await store.putManifest(manifest, manifestChunks(run, { first, last }, storedEntries(deps, run)));
  const { export: name, sequence, completedAt } = run;
  const latest = { export: name, run: run.run, sequence, completedAt, manifest };
  // Only a run that has begun can have published anything, and the head knows the newest that has.
  await store.putLatest(
    latestKey(name),
    latest,
    async (other) => other <= ((await log.exportState(name))?.sequence ?? 0),
  );

  return updateState(log, name, (head) => {
    // An invocation that lived on unheard may have begun another run for this very execution.
    ownedRun(head, execution, name, run.run);
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
}

function settle(
  { definition, log, runtime }: FinishRunDependencies,
  { run: id, execution }: FinishRunCommand,
): Promise<CompletedRun> {
  return updateState(log, definition.name, (head) => {
    const run = ownedRun(head, execution, definition.name, id);
    if (run.completedAt !== undefined) return { result: { ...run, completedAt: run.completedAt } };
    const settled = { ...run, completedAt: instantOf(runtime.now()) };
    return { change: { ...head, active: settled }, result: settled };
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
