/**
 * Publishes a run whose pages are all logged, and moves the watermark.
 *
 * Readers rely on the order of writes:
 * 1. the completion in the state, which fixes the bytes of what follows
 * 2. the list of missing parents, which the manifest names
 * 3. the manifest, which publishes the run, once the store holds every page as it was logged
 * 4. `run.json`, which lists the run in tables, and `latest.json`, which points to the manifest
 * 5. the state, which moves the watermark and ends the run
 *
 * A crash between any two leaves the run active. Finishing it again writes the same bytes and continues
 * (docs/architecture.md, "How a run is published").
 */

import { haveOneRoot, withRootOf } from '../document-root.ts';
import { ExportError, isExportError } from '../errors.ts';
import { hasTooFewReports, msWithoutReports, tooFewReportsError } from '../expected-reports.ts';
import { selectionOf } from '../filter.ts';
import {
  type DocumentRoot,
  type ExportState,
  type LogEntry,
  periodOf,
  refOf,
  type Run,
  type RunId,
  type RunResult,
} from '../model.ts';
import type { ChainRef, PageLog, StepDependencies } from '../ports.ts';
import { chainNoun, hasParents, numberOf, sliceCountOf, sliceOf } from '../slices.ts';
import { latestKey, manifestKey, summaryKey } from '../storage/keys.ts';
import { type CompletedRun, manifestChunks, missingParents, summaryChunks } from '../storage/manifest.ts';
import { foldContent, type RunContent } from '../storage/run-content.ts';
import { epochMsOf, instantOf } from '../timestamps.ts';
import { updateOwnedRun } from './export-state.ts';
import { tooManyGoneError } from '../parents/gone-parents.ts';
import { storedEntries } from './inventory.ts';
import { RepeatedCursor, withDistinctCursors } from './repeated-cursors.ts';
import { endsChain, generationOf, newestEntries } from '../run-progress.ts';
import { storeCoverage } from '../parents/coverage.ts';
import { completedUpTo, watermarkAfter } from '../start/watermark.ts';

export type FinishRunDependencies = Pick<StepDependencies, 'definition' | 'store' | 'log' | 'runtime' | 'emit'>;

interface FinishRunCommand {
  readonly run: RunId;
  readonly execution: string;
}

/**
 * Completes `run`, which `execution` must own. Repeated, it returns the same result.
 * @throws ConfigurationError if the run has fewer reports than `expect.minReports`, or too many parents are gone
 * @throws PageConflictError if the log is not an unbroken chain, or the store does not hold the pages it names
 * @throws ContractError if completed runs have another document root; ConfigurationError if the settings name another
 *   one
 * @throws CursorRejectedError if a slice was started over meanwhile
 * @throws RepeatedCursorError if two pages were requested with the same cursor
 * @throws RunSupersededError if the execution does not own the run
 */
export async function finishRun(deps: FinishRunDependencies, command: FinishRunCommand): Promise<RunResult> {
  const completed = (await findCompleted(deps, command)) ?? (await complete(deps, command));
  const { result, completedAt } = completed;
  const expectsReports = deps.definition.expect?.reportsEveryMs !== undefined;
  const ms = expectsReports ? msWithoutReports(completed, epochMsOf(completedAt)) : undefined;
  // Emitted again on a retry: the invocation that completed the run may have ended before its event was recorded.
  deps.emit({ event: 'run-completed', ...result, secondsWithoutReports: ms === undefined ? undefined : ms / 1_000 });
  return result;
}

type Completed = NonNullable<ExportState['lastCompleted']>;

/** The completed run as the state has it, if this execution has completed it and no other run has completed since. */
async function findCompleted(
  { definition, log }: FinishRunDependencies,
  { run, execution }: FinishRunCommand,
): Promise<Completed | undefined> {
  const completed = (await log.exportState(definition.stateName))?.lastCompleted;
  return completed?.execution === execution && completed.result.run === run ? completed : undefined;
}

/** Publishes the run, unless a concurrent invocation of the same execution completes it first. */
async function complete(deps: FinishRunDependencies, command: FinishRunCommand): Promise<Completed> {
  try {
    return await publish(deps, command);
  } catch (error) {
    const completed = isExportError(error, 'RunSupersededError') ? await findCompleted(deps, command) : undefined;
    if (completed === undefined) throw error;
    return completed;
  }
}

async function publish(deps: FinishRunDependencies, command: FinishRunCommand): Promise<Completed> {
  const { store, log } = deps;
  const { run, content } = await setCompletion(deps, command).catch(async (error: unknown) => {
    // The record of the run's progress may have named slices as complete that are not.
    if (error instanceof IncompleteSlices) await discardProgress(deps, command);
    throw error;
  });
  const { completion } = run;
  const manifest = manifestKey(run);
  const chunks = manifestChunks(run, content, withDistinctCursors(storedEntries(deps, run, content.ignoredPages), log));
  try {
    if (completion.isPublished) {
      const missing = missingParents(run, content);
      if (missing !== undefined) await store.putDocument(missing.key, asChunks(missing.text));
      await store.putDocument(manifest, chunks);
    } else {
      // A run that is not published moves the watermark, too. So its pages are checked: reading the chunks does that.
      for await (const _ of chunks);
    }
  } catch (error) {
    if (error instanceof RepeatedCursor) await discardSlice(deps, command, error.chain);
    throw error;
  }
  if (completion.isPublished) {
    await store.putDocument(summaryKey(run), summaryChunks(run, content, manifest));
    // A reader of the newest run does not look for a bounded one, which may be years ago.
    if (!run.bounded) await putLatest(deps, run, manifest);
  }
  const result: RunResult = {
    ...refOf(run),
    ...periodOf(run),
    watermark: completion.watermark ?? null,
    ...content.totals,
    manifest: completion.isPublished ? manifest : null,
  };
  return await endRun(deps, command, run, result);
}

async function* asChunks(text: string): AsyncGenerator<string> {
  yield text;
}

/** Decides how the run completes, unless an earlier attempt has decided: settings may have changed since. */
function setCompletion(
  deps: FinishRunDependencies,
  command: FinishRunCommand,
): Promise<{ readonly run: CompletedRun; readonly content: RunContent }> {
  const { definition, log, store, runtime } = deps;
  return updateOwnedRun(deps, command, async (run, state) => {
    const { content, root } = await readContent(log, run);
    if (run.completion !== undefined) return { result: { content, run: { ...run, completion: run.completion } } };
    const { totals, firstPage } = content;
    if (hasTooFewReports(definition, run, { isComplete: true, totals }))
      throw tooFewReportsError(definition, run, totals);
    const tooManyGone = hasParents(run) ? tooManyGoneError(definition, run, content) : undefined;
    if (tooManyGone !== undefined) throw tooManyGone;
    const reached = completedUpTo(run, [firstPage]);
    const unwalked = new Set(content.missing.map(({ slice }) => slice));
    const coverage = run.bounded ? undefined : await storeCoverage(store, run, state, { reached, unwalked });
    const documentRoot = haveOneRoot(run) ? root : null;
    const withRoot = withRootOf({ run: run.run, documentRoot }, state, definition);
    const completed = {
      ...run,
      completion: {
        at: instantOf(runtime.now()),
        watermark: run.bounded ? undefined : watermarkAfter(state, definition, run, [firstPage]),
        coverage,
        isPublished: definition.publishEmptyRuns || totals.reports !== 0,
      },
    };
    return { change: { ...withRoot, active: completed }, result: { content, run: completed } };
  });
}

interface ReadContent {
  readonly content: RunContent;
  /** The root of a page. That all pages have it is checked later, with their chains. */
  readonly root: DocumentRoot | null;
}

/**
 * Reads what the manifest says of the run as a whole: of a run with one slice from its first and its newest entry, of
 * others from all entries. Whether the only slice of a run is complete is checked later, with its chain, unless it has
 * started over.
 * @throws CursorRejectedError if a slice was started over meanwhile; PageConflictError if a slice has no last page for
 *   another reason
 */
async function readContent(log: PageLog, run: Run): Promise<ReadContent> {
  const folded = foldContent(run);
  let root: DocumentRoot | null = null;
  const isCheckedLater = run.slices === undefined && run.attempts === undefined;
  const chains = run.slices === undefined ? onlyChain(log, run) : chainsIn(newestEntries(log, run));
  for await (const { first, last } of chains) {
    root ??= last.documentRoot;
    if (isCheckedLater || endsChain(last)) folded.add(first, last);
  }
  const content = folded.content();
  if (content.complete === sliceCountOf(run)) return { content, root };
  throw await incompleteError(log, run, content);
}

/** Why slices have no last page. */
async function incompleteError(log: PageLog, run: Run, { complete }: RunContent): Promise<ExportError> {
  const logName = `The page log of run ${run.run} of export ${run.export}`;
  for (const slice of Object.keys(run.attempts ?? {})) {
    if (endsChain(await log.last(sliceOf(run, Number(slice))))) continue;
    const chain = run.slices === undefined ? '' : `${chainNoun(run)} ${slice} of `;
    return new IncompleteSlices(
      'CursorRejectedError',
      `Another invocation has started ${chain}run ${run.run} of export ${run.export} over, because the service rejected its cursor. ` +
        'The next start exports the rest of it',
    );
  }
  if (run.slices === undefined)
    return new ExportError('PageConflictError', `${logName} is empty. The run is not published`);
  return new IncompleteSlices(
    'PageConflictError',
    `${logName} has the last pages of ${complete} of ${run.slices.count} ${chainNoun(run)}s. The run is not published. ` +
      'The next start looks for the others',
  );
}

/** The log of at least one slice has no last page. */
class IncompleteSlices extends ExportError {}

interface ReadChain {
  readonly first: LogEntry;
  readonly last: LogEntry;
}

/**
 * The chain of a run with one slice, if its first entry is a page, or the end of a job without reports. The entries
 * between the first and the last are not read.
 */
async function* onlyChain(log: PageLog, run: Run): AsyncGenerator<ReadChain> {
  const chain = sliceOf(run, 1);
  const last = await log.last(chain);
  if (last === undefined) return;
  for await (const first of log.entries(chain)) {
    if (first.kind === 'page' || first.reason === 'empty') yield { first, last };
    return;
  }
}

async function* chainsIn(entries: AsyncIterable<LogEntry>): AsyncGenerator<ReadChain> {
  let chain: ReadChain | undefined;
  for await (const entry of entries) {
    if (chain === undefined || chain.last.slice !== entry.slice) {
      if (chain !== undefined) yield chain;
      chain = { first: entry, last: entry };
    } else chain = { first: chain.first, last: entry };
  }
  if (chain !== undefined) yield chain;
}

/**
 * Gives the slice its next attempt, which the next start exports. How the run completes is decided again
 * afterwards.
 */
function discardSlice(deps: FinishRunDependencies, command: FinishRunCommand, chain: ChainRef): Promise<void> {
  const { attempt = 1 } = chain;
  const slice = numberOf(chain);
  return updateOwnedRun<void>(deps, command, (run, state) => {
    // The state of a run with many slices does not have the attempt of a complete one.
    const { attempt: known = 1 } = sliceOf(run, slice);
    const generation = generationOf(run) + 1;
    const attempts = { ...run.attempts, [slice]: Math.max(known, attempt) + 1 };
    return { change: { ...state, active: { ...run, generation, attempts, completion: undefined } }, result: undefined };
  });
}

/** Makes the next start read from the page log which slices are complete. */
function discardProgress(deps: FinishRunDependencies, command: FinishRunCommand): Promise<void> {
  return updateOwnedRun<void>(deps, command, (run, state) => {
    return { change: { ...state, active: { ...run, generation: generationOf(run) + 1 } }, result: undefined };
  });
}

async function putLatest({ store, log }: FinishRunDependencies, run: CompletedRun, manifest: string): Promise<void> {
  const latest = { ...refOf(run), sequence: run.sequence, completedAt: run.completion.at, manifest };
  // A pointer with a sequence that no run has reached yet was not written by this export, and is replaced.
  const hasBegun = async (sequence: number) => sequence <= ((await log.exportState(run.export))?.sequence ?? 0);
  await store.putLatest(latestKey(run.export), latest, hasBegun);
}

/** Moves the watermark and ends the run, if the execution still owns it. */
function endRun(
  deps: FinishRunDependencies,
  command: FinishRunCommand,
  { request, startedAt, completion }: CompletedRun,
  result: RunResult,
): Promise<Completed> {
  return updateOwnedRun(deps, command, (_run, state) => {
    const { active: _, firstStart, ...idle } = state;
    const { watermark: instant, at: completedAt, coverage } = completion;
    const selection = selectionOf(request);
    const watermark = instant && { instant, ...selection, coverage };
    const lastCompleted: Completed = {
      execution: command.execution,
      completedAt,
      result,
      selection,
      lastReportsAt: result.reports === 0 ? (state.lastCompleted?.lastReportsAt ?? startedAt) : completedAt,
      scheduledTime: state.lastScheduledTime,
    };
    const change = { ...idle, watermark, firstStart: watermark ? undefined : firstStart, lastCompleted };
    return { change, result: lastCompleted };
  });
}
