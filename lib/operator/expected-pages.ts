/** The pages that a run should consist of according to its manifest and its log, and where those two disagree. */

import { isExportError } from '../core/errors.ts';
import type { PageEntry } from '../core/model.ts';
import type { PageLog, RunHistory, StoreReader } from '../core/ports.ts';
import { pageNumberAt, type RunKeyParts } from '../core/storage/keys.ts';
import { chainProblem } from '../core/storage/manifest.ts';
import type { PublishedRun } from '../core/storage/published-runs.ts';
import type { ManifestPage } from '../core/storage/published-schemas.ts';

export interface Finding {
  readonly page: number | null;
  /** What is wrong, with the address of the object. */
  readonly message: string;
}

export interface ExpectedPagesDependencies {
  readonly store: StoreReader;
  readonly log: PageLog & Pick<RunHistory, 'mayHaveExpired'>;
  readonly onFinding: (finding: Finding) => void;
}

/** A page as it should be, and its log entry if there is one. */
export interface ExpectedPage {
  readonly page: ManifestPage;
  readonly entry: PageEntry | undefined;
  readonly isLast: boolean;
}

/**
 * The pages that the manifest lists, compared with the log. Returns notes on what could not be verified.
 * The log of a run whose entries may have expired is not read: entries disappear in any order, over days.
 */
export async function* pagesOfManifest(
  { log, store, onFinding }: ExpectedPagesDependencies,
  run: RunKeyParts,
  { header, manifest, pages }: PublishedRun,
): AsyncGenerator<ExpectedPage, readonly string[]> {
  const entries = readable(log.mayHaveExpired(header.startedAt) ? noEntries() : log.entries(run), onFinding);
  const report = (page: number | null, message: string) =>
    onFinding({ page, message: `${store.locate(manifest)}: ${message}` });
  const reportLog = (page: number, message: string) => onFinding({ page, message: `The page log${message}` });
  let previous: ExpectedPage | undefined;
  let count = 0;
  let loggedCount = 0;
  for await (const page of readable(pages, onFinding)) {
    count += 1;
    if (page.page !== count) report(page.page, `it lists page ${page.page} where page ${count} is expected`);
    if (pageNumberAt(run, page.key) !== page.page) report(page.page, `page ${page.page} has the key ${page.key}`);
    const { value: entry } = await entries.next();
    if (entry !== undefined) {
      loggedCount += 1;
      const problem = chainProblem(run, previous?.entry, entry) ?? differenceOf(page, entry);
      if (problem !== undefined) reportLog(page.page, `: ${problem}`);
      if (count === 1 && entry.serviceTime !== header.serviceStartedAt) {
        report(1, 'its serviceStartedAt is not that of page 1');
      }
    }
    if (previous !== undefined) yield previous;
    previous = { page, entry, isLast: false };
  }
  if (previous !== undefined) yield { ...previous, isLast: true };
  if (count === 0) report(null, 'it lists no pages');
  const lastEntry = previous?.entry;
  if (lastEntry !== undefined && lastEntry.serviceTime !== header.serviceCompletedAt) {
    report(count, `its serviceCompletedAt is not that of page ${count}`);
  }
  if (lastEntry !== undefined && lastEntry.nextCursor !== null) {
    reportLog(count, `: page ${count} has a next cursor, but the manifest ends with it`);
  }
  if ((await entries.next()).value !== undefined) {
    reportLog(count + 1, ` continues after page ${count}, where the manifest ends`);
  }
  if (loggedCount > 0 && loggedCount < count) {
    reportLog(loggedCount + 1, ` ends after page ${loggedCount}, but the manifest lists ${count} pages`);
  }
  return loggedCount === 0
    ? ['The page log no longer has the run, so the manifest was verified against the stored pages only']
    : [];
}

/** The pages in the log of a run that has no manifest. */
export async function* pagesOfLog(
  { log, onFinding }: ExpectedPagesDependencies,
  run: RunKeyParts,
): AsyncGenerator<ExpectedPage, readonly string[]> {
  let previous: PageEntry | undefined;
  for await (const entry of readable(log.entries(run), onFinding)) {
    const problem = chainProblem(run, previous, entry);
    if (problem !== undefined) onFinding({ page: entry.page, message: `The page log: ${problem}` });
    yield { page: entry, entry, isLast: entry.nextCursor === null };
    previous = entry;
  }
  return [];
}

async function* noEntries(): AsyncGenerator<PageEntry> {}

/** The items up to the first one that cannot be read, which is a finding. */
async function* readable<Item>(
  items: AsyncIterable<Item>,
  onFinding: ExpectedPagesDependencies['onFinding'],
): AsyncGenerator<Item, undefined> {
  try {
    yield* items;
  } catch (error) {
    onFinding(conflictFinding(null, error));
  }
}

/** An object or a record that is not as it was written is a finding. Any other error is thrown again. */
export function conflictFinding(page: number | null, error: unknown): Finding {
  if (isExportError(error, 'PageConflictError')) return { page, message: error.message };
  throw error;
}

const comparedFields = [
  'page',
  'key',
  'bytes',
  'sha256',
  'compression',
  'storedBytes',
  'storedSha256',
  'reports',
  'cursor',
  'transferredBytes',
] as const;

function differenceOf(page: ManifestPage, entry: PageEntry): string | undefined {
  const field = comparedFields.find((name) => page[name] !== entry[name]);
  if (field === undefined) return undefined;
  return `page ${entry.page} has ${field} ${JSON.stringify(entry[field])}, the manifest has ${JSON.stringify(page[field])}`;
}
