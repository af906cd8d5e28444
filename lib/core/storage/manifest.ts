/**
 * Writes the manifest, which publishes a run and lists its pages, and the summary of the run: `run.json`, or
 * `bounded.json`.
 *
 * Their bytes depend only on the completed run and the page log, so a repeated write produces the same bytes. The
 * manifest is streamed, one page per line, so a run of a million pages takes no more memory than a run of ten.
 */

import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { describeRoot, haveOneRoot } from '../document-root.ts';
import { ExportError } from '../errors.ts';
import {
  addPage,
  type LogEntry,
  type PageEntry,
  periodOf,
  refOf,
  type Run,
  type RunId,
  type RunRef,
  zeroTotals,
} from '../model.ts';
import { endsChain } from '../run-progress.ts';
import { chainNoun, hasParents, numberOf, shownNumber, sliceOf } from '../slices.ts';
import { filterOf } from '../filter.ts';
import { describePage, missingParentsKey, pageKey, type RunKeyParts } from './keys.ts';
import { countMissing, foldContent, type LoggedRun, type RunContent } from './run-content.ts';
import type { ManifestHeader, ManifestPage, RunSummary } from './published-schemas.ts';

/** A run whose manifest can be written: it no longer changes. */
export type CompletedRun = Run & Required<Pick<Run, 'completion'>>;

/**
 * The text of the manifest. Pages are numbered over all slices.
 * @throws PageConflictError if the entries of a slice do not form an unbroken chain from page 1 to a page without a
 *   next cursor, or to an end, if one of them does not match its predecessor, or if slices have different roots
 */
export async function* manifestChunks(
  run: CompletedRun,
  content: RunContent,
  entries: AsyncIterable<LogEntry>,
): AsyncGenerator<string> {
  const header = JSON.stringify(manifestHeader(run, content), null, 2);
  const openHeader = header.slice(0, -'\n}'.length);
  // On one line, so that a reader of lines finds it.
  const reportsAt = JSON.stringify(run.request.reportsAt);
  yield `${openHeader},\n  "reportsAt": ${reportsAt},\n  "pages": [`;
  let number = 0;
  const read = foldContent(run);
  for await (const entry of unbrokenChains(run, read, entries)) {
    number += 1;
    yield `${number === 1 ? '' : ','}\n    ${JSON.stringify(listedPage(run, number, entry))}`;
  }
  // The header has what was read before.
  if (!isDeepStrictEqual(read.content(), content)) throw new BrokenChain(run, 'it has changed while it was read');
  yield '\n  ]\n}\n';
}

/** The line of a page in the manifest, in which it has the number `page`. */
export function listedPage(run: Pick<Run, 'slices'>, page: number, entry: PageEntry): ManifestPage {
  const { parent, key, bytes, sha256, compression, storedBytes, storedSha256, reports, cursor, transferredBytes } =
    entry;
  const object = { key, bytes, sha256, compression, storedBytes, storedSha256 };
  return { page, slice: shownNumber(run, entry), parent, ...object, reports, cursor, transferredBytes };
}

/**
 * Yields the pages, and completes only if the entries are the chains of the run, one after the other. Then `read` has
 * all of them.
 * @throws BrokenChain otherwise
 */
export async function* unbrokenChains(
  run: LoggedRun,
  read: ReturnType<typeof foldContent>,
  entries: AsyncIterable<LogEntry>,
): AsyncGenerator<PageEntry> {
  let number = 0;
  let first: LogEntry | undefined;
  let predecessor: LogEntry | undefined;
  let root: PageEntry['documentRoot'] = null;
  const endSlice = () => {
    if (first === undefined || predecessor === undefined) throw new BrokenChain(run, 'it is empty');
    if (!endsChain(predecessor)) throw new BrokenChain(run, `it ends with ${describePage(predecessor)}`);
    read.add(first, predecessor);
    if (!haveOneRoot(run)) root = null;
    first = undefined;
    predecessor = undefined;
  };
  for await (const entry of entries) {
    if (predecessor !== undefined && entry.slice !== predecessor.slice) endSlice();
    if (first === undefined) number += 1;
    if (numberOf(entry) !== number)
      throw new BrokenChain(run, `${describePage(entry)} is not of ${chainNoun(run)} ${number}`);
    const problem = chainProblem(run, predecessor, entry, root);
    if (problem !== undefined) throw new BrokenChain(run, problem);
    first ??= entry;
    predecessor = entry;
    root = entry.documentRoot ?? root;
    if (entry.kind === 'page') yield entry;
  }
  // The plan of a run may have no parents.
  if (run.slices?.count !== 0 || first !== undefined) endSlice();
}

/** The fields of the manifest before `reportsAt`. */
function manifestHeader(run: CompletedRun, content: RunContent): Omit<ManifestHeader, 'reportsAt'> {
  const { request, compression } = run;
  const { filter, api, size = null } = request;
  const slices = content.slices.map((own, index) => {
    const { since, until = null } = sliceOf(run, index + 1);
    return { since, until, ...own };
  });
  return {
    manifestVersion: 1,
    ...factsOf(run, content),
    filter: filterOf({ filter, api }, run.since) as ManifestHeader['filter'],
    api: api.pagination === undefined ? undefined : { ...api, pagination: api.pagination },
    compression,
    size,
    totals: content.totals,
    slices: hasParents(run) ? undefined : run.slices && slices,
    parents: hasParents(run) ? parentsOf(run, content) : undefined,
  };
}

/** A run with parents, as its state or its manifest describes it. */
interface RunOfParents {
  readonly parents?: { readonly export?: string | undefined; readonly run?: RunId | undefined } | undefined;
}

/** The run of another export whose reports are the parents; undefined if they are not. */
export const parentRunOf = ({ parents }: RunOfParents) =>
  parents?.export === undefined || parents.run === undefined ? undefined : { export: parents.export, run: parents.run };

/** What the manifest says of the parents. */
export function parentsOf(run: LoggedRun & RunOfParents, content: RunContent): ManifestHeader['parents'] {
  const { complete: count, withoutPages } = content;
  const { text: _, ...missing } = missingParents(run, content) ?? { text: '' };
  const ended = { gone: countMissing(content, 'gone'), skipped: countMissing(content, 'skipped') };
  const counts = { ...parentRunOf(run), count, withoutPages, ...ended };
  return 'key' in missing ? { ...counts, missing } : counts;
}

/** The object that lists the parents that are gone or were skipped; undefined if there are none. */
export function missingParents(run: RunKeyParts, { missing }: RunContent) {
  if (missing.length === 0) return undefined;
  const text = missing.map((parent) => `${JSON.stringify(parent)}\n`).join('');
  const sha256 = hash('sha256', text);
  return { key: missingParentsKey(run, sha256), bytes: Buffer.byteLength(text), sha256, text };
}

/** The fields that the manifest and the summary have in common. */
function factsOf(run: CompletedRun, content: RunContent) {
  return {
    ...refOf(run),
    sequence: run.sequence,
    ...periodOf(run),
    startedAt: run.startedAt,
    completedAt: run.completion.at,
    serviceStartedAt: content.serviceStartedAt,
    serviceCompletedAt: content.serviceCompletedAt,
    format: run.request.format,
    container: run.request.container,
    source: run.request.source,
  };
}

/**
 * The text of `run.json`, or of `bounded.json`: one line, so that every engine that reads lines of JSON reads many of
 * them as a table.
 */
export async function* summaryChunks(run: CompletedRun, content: RunContent, manifest: string): AsyncGenerator<string> {
  const watermark = run.completion.watermark ?? null;
  const facts = { ...factsOf(run, content), parents: parentRunOf(run) };
  const summary: RunSummary = { runVersion: 1, ...facts, watermark, ...content.totals, manifest };
  yield `${JSON.stringify(summary)}\n`;
}

type Problem = readonly [isPresent: boolean, describe: () => string];

/**
 * Why `entry` cannot follow `predecessor` in the log of a slice of `run`; undefined if it can. `previousRoot` is the
 * root of the pages before, also of other slices.
 */
export function chainProblem(
  run: RunKeyParts,
  predecessor: LogEntry | undefined,
  entry: LogEntry,
  previousRoot: PageEntry['documentRoot'] = predecessor?.documentRoot ?? null,
): string | undefined {
  if (predecessor?.kind === 'end') return `${describePage(entry)} follows the end of the pages`;
  const { page: previousPage, nextCursor } = predecessor ?? { page: 0, nextCursor: null };
  const otherRoot = otherRootThan(previousRoot, entry);
  const own = entry.kind === 'page' ? entry : zeroTotals;
  const { reports, bytes } = addPage(predecessor?.totals ?? zeroTotals, own);
  const page = describePage(entry);
  const problems: readonly Problem[] = [
    [entry.page !== previousPage + 1, () => `${page} follows page ${previousPage}`],
    [
      entry.run !== run.run || entry.export !== run.export,
      () => `${page} belongs to run ${entry.run} of export ${entry.export}`,
    ],
    [entry.cursor !== nextCursor, () => `${page} was not requested with the cursor that the page before it returned`],
    [otherRoot !== undefined, () => `${page} ${otherRoot}`],
    ...(entry.kind === 'page' ? problemsOfPage(run, entry) : []),
    [
      entry.totals.reports !== reports || entry.totals.bytes !== bytes,
      () => `the totals of ${page} are not those of the page before it plus its own`,
    ],
  ];
  return problems.find(([isPresent]) => isPresent)?.[1]();
}

function otherRootThan(before: LogEntry['documentRoot'], { documentRoot: root }: LogEntry): string | undefined {
  if (root === null || before === null || root === before) return undefined;
  return `has the ${describeRoot(root)}, and pages before it have the ${describeRoot(before)}`;
}

function problemsOfPage(run: RunKeyParts, entry: PageEntry): readonly Problem[] {
  const page = describePage(entry);
  return [
    [entry.key !== pageKey(run, entry), () => `${page} has the key ${entry.key}`],
    [entry.compression !== run.compression, () => `${page} has the compression ${entry.compression ?? 'none'}`],
    [entry.repeats, () => `${page} returned a cursor that occurred earlier in the run, or repeats the pages before it`],
  ];
}

/** The page log is not that of a complete run. */
export class BrokenChain extends ExportError {
  readonly reason: string;

  constructor(run: RunRef, reason: string) {
    super(
      'PageConflictError',
      `The page log of run ${run.run} of export ${run.export} is inconsistent: ${reason}. The run is not published. ` +
        'Restore its log and start again, or start with --restart to abandon the run and begin a new one',
    );
    this.reason = reason;
  }
}
