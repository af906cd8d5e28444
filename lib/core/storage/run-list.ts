/**
 * Lists the published runs of an export in order, from their `run.json` objects. Lists folders and never pages, so its cost
 * depends on the number of runs alone.
 */

import { mapConcurrently } from '../concurrency.ts';
import { ExportError, isExportError } from '../errors.ts';
import { asRunId, type RunId } from '../model.ts';
import { manifestKey, runFolder, runsPrefix } from './keys.ts';
import { epochMsOf } from '../timestamps.ts';
import {
  type DocumentReader,
  exists,
  findManifest,
  missingManifest,
  type Pointer,
  readLatestPointer,
  readSummary,
} from './published-runs.ts';
import type { RunSummary } from './published-schemas.ts';

const concurrency = 16;

/**
 * The published runs with a sequence above `after`, lowest first. A run is published here once it has a `run.json`.
 *
 * A consumer must not skip a run, so a `run.json` that was changed, or has no manifest, is an error, thrown after the runs
 * before it: each of both objects has the sequence. A `run.json` that was deleted is not noticed here; verify reports it.
 * @throws PageConflictError if a `run.json`, and maybe the manifest beside it, was changed, or if a manifest is missing
 */
export async function* listPublishedRuns(
  store: DocumentReader,
  exportName: string,
  after: number,
): AsyncGenerator<RunSummary> {
  const runs = await findRuns(store, exportName, after);
  const found = await mapConcurrently(runs, concurrency, (run) => withManifest(store, run));
  for (const run of found.sort((one, other) => one.sequence - other.sequence)) {
    if ('error' in run) throw run.error;
    yield run.summary;
  }
}

async function withManifest(store: DocumentReader, run: FoundRun): Promise<FoundRun> {
  if ('error' in run || (await exists(store, run.summary.manifest))) return run;
  return { sequence: run.sequence, error: missingManifest(store.locate(run.summary.manifest)) };
}

/**
 * The published bounded runs of the export, by `since`. They are published in any order. Only those for which
 * `isWanted` returns true are read.
 * @throws PageConflictError, after the others, if a `bounded.json` was changed, or its manifest is missing
 */
export async function* listBoundedRuns(
  store: DocumentReader,
  exportName: string,
  isWanted: (run: RunId) => boolean = () => true,
): AsyncGenerator<RunSummary> {
  const found: RunSummary[] = [];
  let failure: unknown;
  for await (const day of store.listFolders(exportName)) {
    if (!day.startsWith(runsPrefix(exportName))) continue;
    const folders = await runFoldersIn(store, day, isWanted);
    const summaries = await mapConcurrently(folders, concurrency, async (folder) => {
      try {
        const summary = await readSummary(store, `${folder}/bounded.json`);
        if (summary === undefined || (await exists(store, summary.manifest))) return summary;
        throw missingManifest(store.locate(summary.manifest));
      } catch (error) {
        failure ??= error;
        return undefined;
      }
    });
    found.push(...summaries.filter((summary) => summary !== undefined));
  }
  yield* found.sort((one, other) => epochMsOf(one.since) - epochMsOf(other.since) || one.sequence - other.sequence);
  if (failure !== undefined) throw failure;
}

type FoundRun =
  | { readonly sequence: number; readonly summary: RunSummary }
  | { readonly sequence: number; readonly error: ExportError };

/**
 * Reads the days from the newest backwards, until two in a row have published runs at or below `after` only. The folder of
 * a run has the day on which it began, by the clock of the function that began it. Clocks differ: around midnight, a run may
 * have an earlier day than the run before it. Hence two days. And if a clock was wrong by days, the run that `latest.json`
 * names is still missing, and the walk continues.
 */
async function findRuns(store: DocumentReader, exportName: string, after: number): Promise<FoundRun[]> {
  const days: string[] = [];
  for await (const folder of store.listFolders(exportName)) {
    if (folder.startsWith(runsPrefix(exportName))) days.push(folder);
  }
  const latest = after > 0 ? await findLatest(store, exportName) : undefined;
  const found: FoundRun[] = [];
  let daysBelow = 0;
  for (const day of days.sort().reverse()) {
    const runs = await readDay(store, day);
    const above = runs.filter(({ sequence }) => sequence > after);
    found.push(...above);
    // A day on which every run was abandoned says nothing.
    if (runs.length > 0) daysBelow = above.length > 0 ? 0 : daysBelow + 1;
    if (latest === 'unknown') continue;
    const newest = latest?.sequence ?? 0;
    if (daysBelow >= 2 && (newest <= after || found.some(({ sequence }) => sequence === newest))) break;
  }
  return found;
}

/** `unknown` if it was changed: then it cannot end the walk, and the next run that is published replaces it. */
async function findLatest(store: DocumentReader, exportName: string): Promise<Pointer | 'unknown' | undefined> {
  try {
    return await readLatestPointer(store, exportName);
  } catch (error) {
    if (isExportError(error, 'PageConflictError')) return 'unknown';
    throw error;
  }
}

async function readDay(store: DocumentReader, day: string): Promise<FoundRun[]> {
  const folders = await runFoldersIn(store, day);
  const runs = await mapConcurrently(folders, concurrency, (folder) => readRun(store, folder));
  return runs.filter((run) => run !== undefined);
}

const runIn = (folder: string): RunId => asRunId(folder.slice(folder.lastIndexOf('=') + 1));

/** The folders in `day` of the runs for which `isWanted` returns true. */
async function runFoldersIn(
  store: DocumentReader,
  day: string,
  isWanted: (run: RunId) => boolean = () => true,
): Promise<readonly string[]> {
  const folders: string[] = [];
  for await (const folder of store.listFolders(day)) {
    if (folder.startsWith(`${day}/run=`) && isWanted(runIn(folder))) folders.push(folder);
  }
  return folders;
}

/** The run in `folder`; undefined if it is not published. */
async function readRun(store: DocumentReader, folder: string): Promise<FoundRun | undefined> {
  try {
    const summary = await readSummary(store, `${folder}/run.json`);
    if (summary === undefined) return undefined;
    if (runFolder(summary) === folder && manifestKey(summary) === summary.manifest) {
      return { sequence: summary.sequence, summary };
    }
    throw new ExportError(
      'PageConflictError',
      `${store.locate(`${folder}/run.json`)} is that of another run. Restore it from a bucket version or a backup`,
    );
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    const manifest = await findManifest(store, `${folder}/manifest.json`);
    if (manifest === undefined) throw error;
    // Only the header is needed; leaving the loop closes the file.
    for await (const _ of manifest.pages) break;
    return { sequence: manifest.header.sequence, error };
  }
}
