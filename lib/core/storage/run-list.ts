/**
 * Lists the published runs of an export in order, from their summaries. Lists folders and never pages, so its
 * cost depends only on the number of runs.
 */

import { concurrentReads, mapConcurrently } from '../concurrency.ts';
import { ExportError, isExportError } from '../errors.ts';
import { type RunId, runIdPattern } from '../model.ts';
import type { StoreReader } from '../ports.ts';
import { latestKey, manifestKey, manifestKeyFromRunId, runsPrefix, summaryKey } from './keys.ts';
import {
  type DocumentReader,
  exists,
  findManifest,
  findSummary,
  missingManifest,
  type Pointer,
  readLatestPointer,
  readSummary,
} from './published-runs.ts';
import type { RunSummary } from './published-schemas.ts';

/**
 * The published runs, bounded ones included, lowest sequence first. A run is published here once it has a summary:
 * `run.json`, or `bounded.json`.
 *
 * A consumer must not skip a run, so a summary that was changed, or has no manifest, is an error, thrown after the
 * runs before it: each of both objects has the sequence. A `run.json` that was deleted is noticed here only if
 * `latest.json` names its run; verify reports it.
 * @throws PageConflictError if a summary, and maybe the manifest beside it, was changed, if a manifest is missing, or
 *   the newest run
 */
export async function* listPublishedRuns(store: RunReader, exportName: string): AsyncGenerator<RunSummary> {
  // Read first: the run that it names has its run.json by now.
  const latest = await findLatest(store, exportName);
  const found = await findRuns(store, exportName);
  for (const run of found.sort((one, other) => one.sequence - other.sequence)) {
    if ('error' in run) throw run.error;
    yield run.summary;
  }
  if (latest === undefined || found.some(({ sequence }) => sequence === latest.sequence)) return;
  throw new ExportError(
    'PageConflictError',
    `${store.locate(latestKey(exportName))} names run ${latest.run}, which has no run.json. Restore its folder from bucket versions or a backup`,
  );
}

/** The IDs of all published runs, oldest first by their IDs: those with a manifest, and those that have lost theirs. */
export async function listRunIds(store: RunReader, exportName: string): Promise<readonly RunId[]> {
  const found: RunId[] = [];
  for (const day of (await daysOf(store, exportName)).sort()) {
    const folders = await foldersIn(store, day, `${day}/run=`);
    const runs = folders.map((folder) => folder.slice(`${day}/run=`.length)).filter(isRunId);
    const published = await mapConcurrently(runs.sort(), concurrentReads, async (run) => {
      if (await exists(store, manifestKeyFromRunId(exportName, run))) return [run];
      return (await findSummary(store, { export: exportName, run })) === undefined ? [] : [run];
    });
    found.push(...published.flat());
  }
  return found;
}

/** Read access to documents, and to the folders they are in. */
type RunReader = DocumentReader & Pick<StoreReader, 'listFolders'>;

type FoundRun =
  | { readonly sequence: number; readonly summary: RunSummary }
  | { readonly sequence: number; readonly error: ExportError };

/**
 * Reads the summaries of all days. The folder of a run has the day on which it began, by the clock of the function that
 * began it. A clock can be wrong by any time, so only the sequence in the summary says whether a run is above another.
 */
async function findRuns(store: RunReader, exportName: string): Promise<FoundRun[]> {
  const found: FoundRun[] = [];
  for (const day of await daysOf(store, exportName)) {
    const folders = await foldersIn(store, day, `${day}/run=`);
    const runs = await mapConcurrently(folders, concurrentReads, (folder) => readRun(store, folder));
    found.push(...runs.filter((run) => run !== undefined));
  }
  return found;
}

/** Undefined also if it was changed: the next run that is published replaces it. */
async function findLatest(store: RunReader, exportName: string): Promise<Pointer | undefined> {
  try {
    return await readLatestPointer(store, exportName);
  } catch (error) {
    if (isExportError(error, 'PageConflictError')) return undefined;
    throw error;
  }
}

const isRunId = (name: string): name is RunId => runIdPattern.test(name);

const daysOf = (store: RunReader, exportName: string): Promise<string[]> =>
  foldersIn(store, exportName, runsPrefix(exportName));

/** The folders directly in `parent` whose keys begin with `prefix`. */
export async function foldersIn(store: RunReader, parent: string, prefix: string): Promise<string[]> {
  const folders: string[] = [];
  for await (const folder of store.listFolders(parent)) if (folder.startsWith(prefix)) folders.push(folder);
  return folders;
}

/** The run in `folder`; undefined if it is not published. */
async function readRun(store: RunReader, folder: string): Promise<FoundRun | undefined> {
  const regular = await readRunAt(store, folder, 'run.json');
  return regular ?? (await readRunAt(store, folder, 'bounded.json'));
}

async function readRunAt(
  store: RunReader,
  folder: string,
  name: 'run.json' | 'bounded.json',
): Promise<FoundRun | undefined> {
  const key = `${folder}/${name}`;
  try {
    const summary = await readSummary(store, key);
    if (summary === undefined) return undefined;
    const { sequence, manifest } = summary;
    if (summaryKey(summary) !== key || manifestKey(summary) !== manifest) {
      throw new ExportError(
        'PageConflictError',
        `${store.locate(key)} is that of another run. Restore it from a bucket version or a backup`,
      );
    }
    if (await exists(store, manifest)) return { sequence, summary };
    return { sequence, error: missingManifest(store.locate(manifest)) };
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    const manifest = await findManifest(store, `${folder}/manifest.json`);
    if (manifest === undefined) throw error;
    // Only the header is needed; leaving the loop closes the file.
    for await (const _ of manifest.pages) break;
    return { sequence: manifest.header.sequence, error };
  }
}
