/** The pages that a run should consist of, by its manifest and its log, and where those two do not agree. */

import { isExportError } from '../errors.ts';
import type { PageEntry } from '../model.ts';
import type { PageLog, RunRef, StoreReader } from '../ports.ts';
import { pageNumberAt } from '../storage/keys.ts';
import { chainProblem, type RunKeyParts } from '../storage/manifest.ts';
import type { PublishedRun } from '../storage/published-runs.ts';
import type { ManifestPage } from '../storage/published-schemas.ts';

export interface Finding {
  readonly page: number | null;
  /** What is wrong, and where it lies. */
  readonly message: string;
}

interface ExpectedPagesDependencies {
  readonly store: StoreReader;
  readonly log: PageLog;
  readonly onFinding: (finding: Finding) => void;
}

/** A page as it should be, with its line in the log, where there is one. */
export interface ExpectedPage {
  readonly page: ManifestPage;
  readonly entry: PageEntry | undefined;
  readonly isLast: boolean;
}

/** What the manifest names, held against the log. Ends with notes on what could not be looked at. */
export async function* pagesOfManifest(
  { log, store, onFinding }: ExpectedPagesDependencies,
  run: RunKeyParts,
  { head, manifest, pages }: PublishedRun,
): AsyncGenerator<ExpectedPage, readonly string[]> {
  const entries = entriesOf(log, run, onFinding);
  const says = (page: number | null, message: string) =>
    onFinding({ page, message: `${store.locate(manifest)}: ${message}` });
  let before: ExpectedPage | undefined;
  let number = 0;
  let logged = 0;
  try {
    for await (const page of pages) {
      number += 1;
      if (page.page !== number) says(page.page, `page ${page.page} stands where page ${number} should`);
      if (pageNumberAt(run, page.key) !== page.page) says(page.page, `page ${page.page} is said to lie at ${page.key}`);
      const { value: entry } = await entries.next();
      if (entry !== undefined) {
        logged += 1;
        const problem = chainProblem(run, before?.entry, entry) ?? differenceOf(page, entry);
        if (problem !== undefined) onFinding({ page: page.page, message: `The page log: ${problem}` });
        if (number === 1 && entry.serviceTime !== head.serviceStartedAt)
          says(1, 'its serviceStartedAt is not that of page 1');
      }
      if (before !== undefined) yield before;
      before = { page, entry: entry ?? undefined, isLast: false };
    }
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    onFinding({ page: null, message: error.message });
  }
  if (before !== undefined) yield { ...before, isLast: true };
  if (number === 0) says(null, 'it names no page');
  if (before?.entry !== undefined && before.entry.serviceTime !== head.serviceCompletedAt) {
    says(number, `its serviceCompletedAt is not that of page ${number}`);
  }
  if (before?.entry != null && before.entry.nextCursor !== null) {
    onFinding({
      page: number,
      message: `The page log: page ${number} goes on with a cursor, but the manifest ends with it`,
    });
  }
  if ((await entries.next()).value !== undefined) {
    onFinding({ page: number + 1, message: `The page log goes on behind page ${number}, where the manifest ends` });
  }
  if (logged > 0 && logged < number) {
    onFinding({ page: logged + 1, message: `The page log ends behind page ${logged}, the manifest has ${number}` });
  }
  return logged === 0 ? ['The page log no longer holds the run; its manifest was checked against the pages alone'] : [];
}

/** What the log holds of a run that has no manifest. */
export async function* pagesOfLog(
  { log, onFinding }: ExpectedPagesDependencies,
  run: RunKeyParts,
): AsyncGenerator<ExpectedPage, readonly string[]> {
  let before: PageEntry | undefined;
  for await (const entry of entriesOf(log, run, onFinding)) {
    const problem = chainProblem(run, before, entry);
    if (problem !== undefined) onFinding({ page: entry.page, message: `The page log: ${problem}` });
    yield { page: entry, entry, isLast: entry.nextCursor === null };
    before = entry;
  }
  return [];
}

/** The log as far as it can be read; where it cannot, it ends, and that is a finding. */
async function* entriesOf(
  log: PageLog,
  run: RunRef,
  onFinding: ExpectedPagesDependencies['onFinding'],
): AsyncGenerator<PageEntry, undefined> {
  try {
    yield* log.entries(run);
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    onFinding({ page: null, message: error.message });
  }
}

function differenceOf(page: ManifestPage, entry: PageEntry): string | undefined {
  const field = (['page', 'key', 'bytes', 'sha256', 'reports', 'cursor'] as const).find(
    (name) => page[name] !== entry[name],
  );
  if (field === undefined) return undefined;
  return `page ${entry.page} has ${field} ${JSON.stringify(entry[field])}, the manifest ${JSON.stringify(page[field])}`;
}
