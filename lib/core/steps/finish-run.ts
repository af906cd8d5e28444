/**
 * Publishes a run whose pages are all logged, and moves the watermark.
 *
 * The order of writes is what readers rely on: the completion (so that the bytes of what follows are fixed), the manifest
 * (publishes the run, once the store holds every page as it was logged), `run.json` (lists the run in tables), `latest.json`
 * (points to the manifest), the export state (moves the watermark and ends the run). A crash between any two leaves the run active; finishing it again writes
 * the same bytes and continues (docs/architecture.md, "How a run is published").
 */

import { withRootOf } from '../document-root.ts';
import { ExportError, isExportError } from '../errors.ts';
import { hasTooFewReports, msWithoutReports, tooFewReportsError } from '../expected-reports.ts';
import { type ExportState, type Instant, type Run, type RunId, type RunResult, totalsOf } from '../model.ts';
import type { PageLog, StepDependencies } from '../ports.ts';
import { latestKey, manifestKey, runSummaryKey, windowSummaryKey } from '../storage/keys.ts';
import {
  type CompletedRun,
  manifestChunks,
  type RunEnds,
  runSummaryChunks,
  windowSummaryChunks,
} from '../storage/manifest.ts';
import { epochMsOf, instantOf } from '../timestamps.ts';
import { ownedRun, updateState } from './export-state.ts';
import { storedEntries } from './inventory.ts';
import { withDistinctCursors } from './repeated-cursors.ts';
import { watermarkAfter } from './watermark.ts';

export type FinishRunDependencies = Pick<StepDependencies, 'definition' | 'store' | 'log' | 'runtime' | 'emit'>;

interface FinishRunCommand {
  readonly run: RunId;
  readonly execution: string;
}

/**
 * Completes `run`, which `execution` must own. Repeated, it returns the same result.
 * @throws ConfigurationError if the run has fewer reports than `expect.minReports`
 * @throws PageConflictError if the log is not an unbroken chain, or the store does not hold the pages it names
 * @throws ContractError if completed runs have another document root; ConfigurationError if the settings name another one
 * @throws RepeatedCursorError if two pages were requested with the same cursor
 * @throws RunSupersededError if the execution does not own the run
 */
export async function finishRun(deps: FinishRunDependencies, command: FinishRunCommand): Promise<RunResult> {
  const completed = (await findCompleted(deps, command)) ?? (await publishOnce(deps, command));
  const { result, completedAt } = completed;
  const isExpecting = deps.definition.expect?.reportsEveryMs !== undefined;
  const ms = isExpecting ? msWithoutReports(completed, epochMsOf(completedAt)) : undefined;
  // Emitted again on a retry: the invocation that completed the run may have ended before its event was recorded.
  deps.emit({
    event: 'run-completed',
    ...result,
    ...(ms === undefined ? {} : { secondsWithoutReports: ms / 1_000 }),
  });
  return result;
}

type Completed = NonNullable<ExportState['lastCompleted']>;

/** The run as the state records it, if this execution has completed it and no later run has completed since. */
async function findCompleted(
  { definition, log }: FinishRunDependencies,
  { run, execution }: FinishRunCommand,
): Promise<Completed | undefined> {
  const completed = (await log.exportState(definition.stateName))?.lastCompleted;
  return completed?.execution === execution && completed.result.run === run ? completed : undefined;
}

async function publishOnce(deps: FinishRunDependencies, command: FinishRunCommand): Promise<Completed> {
  try {
    return await publish(deps, command);
  } catch (error) {
    // A concurrent invocation of the same execution may have completed the run first.
    const completed = isExportError(error, 'RunSupersededError') ? await findCompleted(deps, command) : undefined;
    if (completed === undefined) throw error;
    return completed;
  }
}

async function publish(deps: FinishRunDependencies, command: FinishRunCommand): Promise<Completed> {
  const { definition, store, log } = deps;
  const { run, first, last } = await setCompletion(deps, command);
  const { completion } = run;
  const manifest = manifestKey(run);
  const result: RunResult = {
    export: run.export,
    run: run.run,
    since: run.since,
    ...(run.until === undefined ? {} : { until: run.until }),
    watermark: completion.watermark ?? null,
    ...totalsOf(last),
    manifest: completion.isPublished ? manifest : null,
  };
  const chunks = manifestChunks(run, { first, last }, withDistinctCursors(storedEntries(deps, run), log, run));
  if (completion.isPublished) {
    await store.putDocument(manifest, chunks);
    if (hasUntil(run)) {
      // `latest.json` stays: a reader of the newest run does not look for one with an upper bound, which may be years ago.
      await store.putDocument(windowSummaryKey(run), windowSummaryChunks(run, { first, last }, manifest));
    } else {
      await store.putDocument(runSummaryKey(run), runSummaryChunks(run, { first, last }, manifest));
      await updateLatestPointer(deps, run, manifest);
    }
  } else {
    // What must hold of a published run must hold of any that moves the watermark.
    for await (const _ of chunks);
  }

  return updateState(log, definition.stateName, (state) => {
    // An earlier invocation that is still running may have started another run for the same execution.
    ownedRun(state, command.execution, definition.name, run.run);
    const { active: _, ...idle } = state;
    const { request } = run;
    const { watermark: instant } = completion;
    const { source, filter, api } = request;
    const watermark = instant && { instant, source, filter, requestSha256: api.requestSha256 };
    const lastCompleted = {
      execution: command.execution,
      completedAt: completion.at,
      result,
      lastReportsAt: lastReportsAt(state, run, result),
    };
    return { change: { ...idle, watermark, lastCompleted }, result: lastCompleted };
  });
}

/** Such a run is published as a window, and changes nothing that runs without an upper bound rely on. */
const hasUntil = <AnyRun extends Run>(run: AnyRun): run is AnyRun & { readonly until: Instant } =>
  run.until !== undefined;

const lastReportsAt = ({ lastCompleted }: ExportState, run: CompletedRun, { reports }: RunResult): Instant =>
  reports === 0 ? (lastCompleted?.lastReportsAt ?? run.startedAt) : run.completion.at;

function updateLatestPointer(
  { store, log }: FinishRunDependencies,
  { export: name, run, sequence, completion }: CompletedRun,
  manifest: string,
): Promise<void> {
  const latest = { export: name, run, sequence, completedAt: completion.at, manifest };
  // A pointer with a sequence that no run has reached yet is not ours, and is replaced.
  const hasBegun = async (other: number) => other <= ((await log.exportState(name))?.sequence ?? 0);
  return store.putLatest(latestKey(name), latest, hasBegun);
}

interface LoggedRun extends RunEnds {
  readonly run: CompletedRun;
}

/** Decides once how the run completes. The export's settings may change before a later attempt. */
function setCompletion(
  { definition, log, runtime }: FinishRunDependencies,
  { run: id, execution }: FinishRunCommand,
): Promise<LoggedRun> {
  return updateState(log, definition.stateName, async (state) => {
    const run = ownedRun(state, execution, definition.name, id);
    const ends = await firstAndLastEntry(log, run);
    const { first, last } = ends;
    if (run.completion !== undefined) return { result: { ...ends, run: { ...run, completion: run.completion } } };
    if (hasTooFewReports(definition, run, last)) throw tooFewReportsError(definition, last);
    const recorded = withRootOf(last, state, definition);
    const completed = {
      ...run,
      completion: {
        at: instantOf(runtime.now()),
        watermark: hasUntil(run) ? undefined : watermarkAfter(state, definition, run, first),
        isPublished: definition.publishEmptyRuns || last.totals.reports !== 0,
      },
    };
    return { change: { ...recorded, active: completed }, result: { ...ends, run: completed } };
  });
}

async function firstAndLastEntry(log: PageLog, run: Run): Promise<RunEnds> {
  const last = await log.last(run);
  for await (const first of log.entries(run)) if (last !== undefined) return { first, last };
  throw new ExportError(
    'PageConflictError',
    `The page log of run ${run.run} of export ${run.export} is empty. The run is not published`,
  );
}
