/**
 * Reads a run again from its manifest to its last byte, and says what is not as it was exported.
 *
 * Manifest and page log are walked side by side, a page at a time, while the objects they name are read and hashed some
 * pages at once; so a run of any length takes the same memory. Nothing is changed.
 */

import { createHash } from 'node:crypto';
import { isExportError } from '../errors.ts';
import type { StoredCursor, StoredPage } from '../model.ts';
import type { PageLog, StoreReader } from '../ports.ts';
import { latestKey, pageKey, pageNumberAt, runFolder, createRunId } from '../storage/keys.ts';
import type { RunKeyParts } from '../storage/manifest.ts';
import { type PublishedRun, readLatestPointer } from '../storage/published-runs.ts';
import { epochMsOf } from '../timestamps.ts';
import { type ExpectedPage, type Finding, pagesOfLog, pagesOfManifest } from './expected-pages.ts';

export interface VerifyDependencies {
  readonly store: StoreReader;
  readonly log: PageLog;
  readonly onFinding: (finding: Finding) => void;
  /** Told of each page that was looked at, in no order. */
  readonly onPage: (bytes: number) => void;
}

export interface VerifiedRun {
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
  /** What could not be looked at, and why that is no fault. */
  readonly notes: readonly string[];
}

/** So many objects are read at once. */
const concurrency = 8;

/** A published run: its manifest, its log, its objects, what lies beside them, and the pointer to the newest run. */
export async function verifyPublishedRun(deps: VerifyDependencies, run: PublishedRun): Promise<VerifiedRun> {
  const { head, manifest } = run;
  const walked = { ...head, request: { ...head, source: head.source, filter: {}, size: head.size ?? undefined } };
  const audited = await auditWalk(deps, walked, pagesOfManifest(deps, walked, run), true);
  for (const message of headFindings(head, manifest)) {
    deps.onFinding({ page: null, message: `${deps.store.locate(manifest)}: ${message}` });
  }
  const { totals } = head;
  for (const field of ['pages', 'reports', 'bytes'] as const) {
    if (totals[field] !== audited[field]) {
      const said = `its totals say ${totals[field]} ${field}, its pages come to ${audited[field]}`;
      deps.onFinding({ page: null, message: `${deps.store.locate(manifest)}: ${said}` });
    }
  }
  await auditPointer(deps, run);
  return audited;
}

/** An unfinished run: its log, the objects logged, and what lies beside them. */
export async function verifyUnpublishedRun(deps: VerifyDependencies, run: RunKeyParts): Promise<VerifiedRun> {
  const audited = await auditWalk(deps, run, pagesOfLog(deps, run), false);
  return { ...audited, notes: [...audited.notes, 'It is not published: nothing of it is for readers yet'] };
}

/** What the head of a manifest says otherwise than its own name and the rest of it. */
function headFindings(
  { export: name, run, startedAt, since, filter }: PublishedRun['head'],
  manifest: string,
): string[] {
  const key = `${name}/date=${startedAt.slice(0, 10)}/run=${run}/manifest.json`;
  const second = createRunId(epochMsOf(startedAt), '').replace(/-$/, '');
  return [
    ...(key === manifest ? [] : [`it says of itself that it is ${key}`]),
    ...(run.startsWith(second) ? [] : [`it says that the run began at ${startedAt}`]),
    ...(filter.date.gte === since ? [] : [`its since, ${since}, is not that of its filter`]),
  ];
}

async function auditWalk(
  deps: VerifyDependencies,
  run: RunKeyParts,
  pages: AsyncGenerator<ExpectedPage, readonly string[]>,
  isWhole: boolean,
): Promise<VerifiedRun> {
  const sum: { pages: number; reports: number | null; bytes: number } = { pages: 0, reports: 0, bytes: 0 };
  let notes: readonly string[] = [];
  // Each lane takes the next page as soon as it is done with one; the generator gives them out one after the other.
  const lane = async () => {
    for (;;) {
      const next = await pages.next();
      if (next.done === true) {
        notes = next.value ?? notes;
        return;
      }
      const { page } = next.value;
      sum.pages += 1;
      sum.reports = sum.reports === null || page.reports === null ? null : sum.reports + page.reports;
      sum.bytes += page.bytes;
      await auditObject(deps, run, next.value);
      deps.onPage(page.bytes);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  await auditFolder(deps, run, sum.pages, isWhole);
  return { ...sum, notes };
}

async function auditObject(
  { store, onFinding }: VerifyDependencies,
  run: RunKeyParts,
  expected: ExpectedPage,
): Promise<void> {
  const { page } = expected;
  const says = (message: string) => onFinding({ page: page.page, message: `${store.locate(page.key)} ${message}` });
  try {
    const chunks = await store.read(page.key);
    if (chunks === undefined) return says('is gone');
    const { bytes, sha256 } = await digestOf(chunks);
    if (bytes !== page.bytes) return says(`has ${bytes} bytes, not ${page.bytes}`);
    if (sha256 !== page.sha256) return says(`has other bytes: their SHA-256 is ${sha256}, not ${page.sha256}`);
    const stored = await store.find(page.key);
    const wrong = stored && wrongFact(run, expected, stored);
    if (wrong !== undefined) says(`says of itself ${wrong}`);
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    onFinding({ page: page.page, message: error.message });
  }
}

async function digestOf(chunks: AsyncIterable<Uint8Array>): Promise<Pick<StoredPage, 'bytes' | 'sha256'>> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of chunks) {
    hash.update(chunk);
    bytes += chunk.byteLength;
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** What the facts beside the object say otherwise than manifest and log: where it came from, and where the run goes. */
function wrongFact(
  { run }: RunKeyParts,
  { page, entry, isLast }: ExpectedPage,
  stored: StoredPage,
): string | undefined {
  if (stored.run !== run || stored.page !== page.page) return `that it is page ${stored.page} of run ${stored.run}`;
  if (stored.reports !== page.reports) return `that it holds ${stored.reports} reports, not ${page.reports}`;
  if (!isSame(stored.cursor, page.cursor)) return 'that it was asked for with another cursor';
  if ((stored.nextCursor === null) !== isLast) return isLast ? 'that a page follows' : 'that no page follows';
  if (entry !== undefined && !isSame(stored.nextCursor, entry.nextCursor)) return 'that another cursor follows';
  if (entry !== undefined && stored.revision !== entry.revision) {
    return `that it is ${stored.revision}, but ${entry.revision} was logged: it was replaced`;
  }
  return undefined;
}

function isSame(held: StoredCursor, cursor: StoredCursor): boolean {
  if (held === null || cursor === null) return held === cursor;
  return typeof held === 'string' && typeof cursor === 'string' ? held === cursor : hashOf(held) === hashOf(cursor);
}

const hashOf = (cursor: NonNullable<StoredCursor>): string =>
  typeof cursor === 'string' ? createHash('sha256').update(cursor).digest('hex') : cursor.sha256;

/** Pages that lie in the run's folder, but behind its last one, by manifest or log. */
async function auditFolder(deps: VerifyDependencies, run: RunKeyParts, pages: number, isWhole: boolean): Promise<void> {
  const { store, onFinding } = deps;
  const conflicts = new Set<number>();
  let last = pages;
  for await (const { key } of store.list(runFolder(run))) {
    const page = pageNumberAt(run, key);
    if (page === undefined || page <= last) continue;
    if (!isWhole) last = await lastStored(deps, run, pages, conflicts);
    if (page <= last || conflicts.has(page)) continue;
    onFinding({ page, message: `${store.locate(key)} is there, but neither manifest nor log ends with it` });
  }
}

/**
 * The last page of an unfinished run: some may be stored that are not logged yet, each following from the one before it.
 * The run may be under way, and have come further since its log was walked, or since this was asked before. Pages that
 * cannot be read are added to `conflicts`, once.
 */
async function lastStored(
  { store, log, onFinding }: VerifyDependencies,
  run: RunKeyParts,
  walked: number,
  conflicts: Set<number>,
): Promise<number> {
  let { page, hasNextPage, cursor } = await lastLogged(log, run, walked);
  try {
    while (hasNextPage) {
      const stored = await store.find(pageKey(run, page + 1));
      if (stored === undefined || !follows(stored, run, page + 1, cursor)) break;
      page += 1;
      cursor = stored.nextCursor;
      hasNextPage = cursor !== null;
    }
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    if (!conflicts.has(page + 1)) onFinding({ page: page + 1, message: error.message });
    conflicts.add(page + 1);
  }
  return page;
}

/** `cursor` is undefined where it cannot be told. */
function follows(stored: StoredPage, { run }: RunKeyParts, page: number, cursor: StoredCursor | undefined): boolean {
  return stored.run === run && stored.page === page && (cursor === undefined || isSame(stored.cursor, cursor));
}

interface LastLogged {
  readonly page: number;
  readonly hasNextPage: boolean;
  /** With which the next page is asked for; undefined where the log cannot tell. */
  readonly cursor: StoredCursor | undefined;
}

/** What the log cannot tell was found when it was walked. */
async function lastLogged(log: PageLog, run: RunKeyParts, known: number): Promise<LastLogged> {
  try {
    const last = await log.last(run);
    if (last !== undefined && last.page >= known) {
      const { page, nextCursor, repeats } = last;
      return { page, hasNextPage: nextCursor !== null && !repeats, cursor: nextCursor };
    }
    return { page: known, hasNextPage: true, cursor: known === 0 ? null : undefined };
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    return { page: known, hasNextPage: true, cursor: undefined };
  }
}

/** `latest.json` may name a newer run, but never an older one. */
async function auditPointer({ store, onFinding }: VerifyDependencies, { head, manifest }: PublishedRun): Promise<void> {
  const where = store.locate(latestKey(head.export));
  try {
    const pointer = await readLatestPointer(store, head.export);
    if (pointer === undefined) return onFinding({ page: null, message: `${where} is gone` });
    const { sequence, run } = pointer;
    const isThis = sequence === head.sequence && run === head.run && pointer.manifest === manifest;
    if (sequence < head.sequence || ((sequence === head.sequence || run === head.run) && !isThis)) {
      onFinding({
        page: null,
        message: `${where} names run ${run} at ${pointer.manifest}, ${sequence > head.sequence ? 'but with another sequence' : 'which is older than this one'}`,
      });
    }
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    onFinding({ page: null, message: error.message });
  }
}
