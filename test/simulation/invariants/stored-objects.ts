/** Checks each object before it is stored in S3: pages, manifests, `run.json`, and `latest.json`. */

import { isDeepStrictEqual } from 'node:util';
import type { ServedPage } from '../world/report-service.ts';
import type { StoredObject } from '../world/s3.ts';
import {
  type ActiveRun,
  type Bounds,
  type Chain,
  chainsOf,
  contentOf,
  cutsOf,
  endOfChain,
  entriesOfChain,
  findServedPage,
  holdsCursor,
  isChangedTooLate,
  isStored,
  isWhole,
  type LogEntry,
  keyOfPage,
  type Manifest,
  type Observations,
  type ObservedExport,
  pageMetadataOf,
  parentsOf,
  requestedBounds,
  type RunSummary,
  type Seen,
  sha256Of,
  summaryKeyBeside,
} from './observations.ts';
import { isPageInXml } from './document-roots.ts';
import { firstPagesOf, hasCoverage } from './parents.ts';
import { checkNoUrl, checkResult } from './report-jobs.ts';
import { chainOfKey, hasParents, isOfEarlierAttempt, mayBeMisplaced } from './slices.ts';

export function checkObject(
  observations: Observations,
  seen: Seen,
  key: string,
  object: StoredObject,
  existing: StoredObject | undefined,
): void {
  const { world, prefix, exports } = observations;
  const [, exportName = '', path = ''] = new RegExp(`^${prefix}([^/]+)/(.+)$`).exec(key) ?? [];
  const observed = exports.get(exportName);
  const body = contentOf(object.body, pageMetadataOf(object).compression);
  checkNoUrl(world, key, `${key} ${JSON.stringify(object.metadata)} ${body.toString('latin1')}`);
  if (observed === undefined) world.violate('every object has an expected key', key);
  else if (path === 'latest.json') checkLatestPointer(observations, seen, exportName, key, object, existing);
  else if (existing !== undefined) world.violate('a visible object never changes', key);
  else if (/(^|\/)_(cursors|plans)\//.test(path)) {
    if (!new RegExp(`/${sha256Of(object.body)}(\\.jsonl)?$`).test(path))
      world.violate('no object has missing or reordered parts', key);
  } else if ((object.metadata.sha256 ?? storedSha256Of(object)) !== sha256Of(object.body)) {
    world.violate('no object has missing or reordered parts', key);
  } else if (path.endsWith('/manifest.json')) checkManifest(observations, seen, observed, key, object);
  else if (path.endsWith('/run.json') || path.endsWith('/bounded.json')) {
    checkRunSummary(observations, seen, key, object);
  } else if (!/\/missing-parents-[0-9a-f]{12}\.ndjson$/.test(path)) {
    // The manifest says what is in the list.
    seen.pagesStoredAt.set(key, world.time.now());
    checkPage(observations, observed, key, path, object);
  }
}

const storedSha256Of = (object: StoredObject): string | undefined => {
  const { storedSha256, sha256 } = pageMetadataOf(object);
  return storedSha256 ?? sha256;
};

function checkPage(
  observations: Observations,
  observed: ObservedExport,
  key: string,
  path: string,
  object: StoredObject,
): void {
  const { world } = observations;
  const metadata = pageMetadataOf(object);
  const body = contentOf(object.body, metadata.compression);
  if (observed.scenario.settings.format === 'XML' && !isPageInXml(body)) {
    world.violate('every page has the root element of the service', key);
  }
  const [, run = '', digits = ''] =
    /^date=[\d-]{10}\/run=([^/]+)\/page-(?:\d{6}(?:\.\d+)?-)?(\d{6})\.[a-z]+(?:\.gz)?$/.exec(path) ?? [];
  const page = Number(digits);
  const { slice, attempt } = chainOfKey(key);
  const active = observations.runs.get(run);
  const isCompressed = metadata.compression !== undefined;
  if (isCompressed !== key.endsWith('.gz') || isCompressed !== (active?.compression !== undefined)) {
    world.violate('all pages of a run have the same form', key);
  }
  const cursors = nextCursorsOf(observations, observed, run, page - 1, key);
  const cursor = cursors.find((each) => holdsCursor(metadata.cursor, each)) ?? cursors[0];
  if (cursor === undefined) {
    world.violate('pages are stored in order', `${key} is stored before its predecessor`);
    return;
  }
  if (page !== 1 && cursor === null) world.violate('pages are stored in order', `${key} is stored after the last page`);
  const sha256 = sha256Of(body);
  const served = observed.service.servedPages(cursor).filter((each) => each.sha256 === sha256);
  if (served.length === 0) {
    world.violate('a page is stored byte for byte', `${key} differs from every response for its cursor`);
  } else if (!served.some(({ nextCursor }) => holdsCursor(metadata.nextCursor, nextCursor))) {
    world.violate('page metadata holds the next cursor of its response', key);
  }
  if (!holdsCursor(metadata.cursor, cursor)) {
    world.violate('cursors form a chain', `${key} was requested with another cursor`);
  }
  const isNumbered = active?.slices !== undefined || attempt !== undefined;
  const isOfRun = (slice !== undefined) === isNumbered && (slice ?? 1) <= (active?.slices?.count ?? 1);
  const isOfSlice = metadata.slice === slice && (slice === undefined || metadata.attempt === attempt);
  if (!isOfRun || metadata.run !== run || metadata.page !== page || !isOfSlice) {
    world.violate('page metadata names the run and the page', key);
  }
}

/**
 * The cursor after `page`, from its log entry or else from its object; null before the first page and after the last.
 * None: the page does not exist. Several: someone has deleted the page, and it was stored again, with another cursor.
 */
function nextCursorsOf(
  observations: Observations,
  observed: ObservedExport,
  run: string,
  page: number,
  successorKey: string,
): readonly (string | null)[] {
  if (page === 0) return [null];
  const entry = entriesOfChain(observations, observed.name, run, chainOfKey(successorKey)).find(
    (each) => each.page === page,
  );
  const key = keyOfPage(successorKey, page);
  const versions = observations.s3().versions(key);
  if (entry !== undefined && versions.length < 2) return [entry.nextCursor];
  const served = nextCursorsOf(observations, observed, run, page - 1, key).flatMap((cursor) =>
    observed.service.servedPages(cursor),
  );
  const found = versions.flatMap((object) =>
    served.filter(({ nextCursor }) => holdsCursor(pageMetadataOf(object).nextCursor, nextCursor)).slice(0, 1),
  );
  return [...(entry === undefined ? [] : [entry.nextCursor]), ...found.map(({ nextCursor }) => nextCursor)];
}

function checkManifest(
  observations: Observations,
  seen: Seen,
  observed: ObservedExport,
  key: string,
  { body }: StoredObject,
): void {
  const { name, service, scenario } = observed;
  const { world, prefix, runs } = observations;
  const manifest = JSON.parse(body.toString()) as Manifest;
  const parents = parentsOf(observations, observed, manifest.run);
  const run = runs.get(manifest.run);
  const chains = chainsOf(observations, manifest.run).map((chain) =>
    entriesOfChain(observations, name, manifest.run, chain),
  );
  if (run === undefined || !isWhole(observations, name, manifest.run)) {
    world.violate('only a complete run is published', key);
    return;
  }
  const entries = chains.flat();
  const listed = JSON.stringify(manifest.pages.map(manifestFields));
  const expected = chains.flatMap((chain, index) =>
    chain.map((entry) => ({ ...entry, slice: run.slices && entry.slice, parent: parents[index] })),
  );
  const logged = JSON.stringify(expected.map((entry, index) => manifestFields({ ...entry, page: index + 1 })));
  const cuts = cutsOf(run);
  const slices = cuts.map((bounds, index) => sliceFields(bounds, chains[index] ?? []));
  const ends = chainsOf(observations, manifest.run).map((chain) => endOfChain(observations, name, manifest.run, chain));
  const endedAs = (reason: string) => ends.filter((end) => end?.reason === reason).length;
  const withoutPages = chains.filter(({ length }) => length === 0).length;
  const ended = { withoutPages, gone: endedAs('gone'), skipped: endedAs('skipped') };
  const listName = scenario.settings.parents?.export;
  const ofList = listName === undefined ? {} : { export: listName, run: run.parents?.run };
  const parts = hasParents(run)
    ? { parents: { ...ofList, count: parents.length, ...ended } }
    : { slices: run.slices && slices };
  const { missing, ...counts } = manifest.parents ?? {};
  const isOfParts = isDeepStrictEqual([manifest.slices, counts], [parts.slices, parts.parents ?? {}]);
  const lines = ends.flatMap((end, index) =>
    end === undefined || end.page > 1 || end.reason === 'empty'
      ? []
      : [`${JSON.stringify({ slice: index + 1, parent: end.parent, reason: end.reason, status: end.status })}\n`],
  );
  const list =
    missing === undefined
      ? ''
      : observations
          .s3()
          .objects.get(prefix + missing.key)
          ?.body.toString();
  if (list !== lines.join('')) world.violate('a manifest lists exactly the page log of its run', `${key}: its parents`);
  if (ended.gone > Math.max(0, Math.min(1, parents.length - ended.skipped - 1))) {
    world.violate('a run is published only if few of its parents are gone', key);
  }
  if (listed !== logged || !isOfParts) {
    world.violate('a manifest lists exactly the page log of its run', key);
  }
  const { since, until, bounded } = manifest;
  if (!isDeepStrictEqual([since, until, bounded], [run.since, run.until, run.bounded])) {
    world.violate('a run requests what its manifest states', `${key}: ${since}, ${until}, ${bounded}`);
  }

  const servedSlices = chains.map((chain, index): ServedSlice => {
    const parent = parents[index];
    const requested = requestedBounds(cuts[index] ?? { since: 0, until: 0 }, run, observed);
    // Where it must begin is checked when the run completes (`parents.ts`).
    const covered = hasCoverage(observed, run) && !seen.namedSince.has(run.run);
    const [first] = covered ? firstPagesOf(observed, run.run, chain[0], parent) : [];
    const bounds = { ...requested, since: first?.since ?? requested.since };
    const pages: ServedPage[] = [];
    for (const entry of chain) {
      const label = `${key}: page ${entry.page} of slice ${index + 1}`;
      if (!isStored(observations, entry) && !isChangedTooLate(observations, prefix + entry.key)) {
        world.violate('a manifest lists stored pages only', label);
      }
      const requestMark = seen.requestMarks.get(manifest.run);
      const page = findServedPage(service, entry, { ...bounds, parent });
      if (findServedPage(service, entry) === undefined) world.violate('a page is stored byte for byte', label);
      else if (page === undefined) world.violate('a run requests what its manifest states', label);
      else if (findServedPage(service, entry, { ...bounds, parent, requestMark }) === undefined) {
        world.violate('every page of a published run is requested as the run is', label);
      } else pages.push(page);
    }
    checkResult(observations, observed, chain, `${key}: slice ${index + 1}`);
    return { bounds, parent, pages };
  });
  const served = servedSlices.flatMap(({ pages }) => pages);
  const folder = key.slice(0, key.lastIndexOf('/'));
  for (const stored of observations.s3().objects.keys()) {
    if (!stored.startsWith(`${folder}/page-`) || entries.some((entry) => prefix + entry.key === stored)) continue;
    if (isChangedTooLate(observations, stored) || isOfEarlierAttempt(observations, manifest.run, stored)) continue;
    // Another attempt has received a page where the end was logged.
    const end = endOfChain(observations, name, manifest.run, chainOfKey(stored));
    if (end !== undefined && stored === keyOfPage(stored, end.page)) continue;
    world.violate('no page in the folder of a run is missing from its manifest', `${key}: ${stored}`);
  }
  checkReports(observations, seen, observed, key, manifest.run, servedSlices);
  if (service.counts) checkPasses(observations, observed, key, run, servedSlices);

  const { pages, bytes, reports: statedReports } = manifest.totals;
  const loggedBytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  const servedReports = served.reduce((sum, { reports }) => sum + reports.length, 0);
  const isReportTotalRight = statedReports === null || statedReports === servedReports;
  if (pages !== entries.length || bytes !== loggedBytes || !isReportTotalRight) {
    world.violate('a manifest lists exactly the page log of its run', `${key}: its totals`);
  }

  seen.manifests.set(key, manifest);
  // What it has does not count as exported by the scheduled runs.
  if (manifest.bounded) return;
  const published = seen.publishedReports.get(name) ?? new Set();
  for (const { reports } of served) for (const report of reports) published.add(report);
  seen.publishedReports.set(name, published);
}

/** The fields that a manifest repeats from the page log. */
function manifestFields(listed: Manifest['pages'][number]) {
  const { page, slice, parent, key, bytes, sha256, compression, storedBytes, storedSha256, cursor, transferredBytes } =
    listed;
  return { page, slice, parent, key, bytes, sha256, compression, storedBytes, storedSha256, cursor, transferredBytes };
}

/** The slice with these pages in a manifest. */
function sliceFields({ since, until }: Bounds, entries: readonly LogEntry[]) {
  const textOf = (ms: number) => new Date(ms).toISOString().replace('.000Z', 'Z');
  const counts = entries.map(({ reports }) => reports);
  return {
    since: textOf(since),
    until: Number.isFinite(until) ? textOf(until) : null,
    pages: entries.length,
    reports: counts.includes(null) ? null : counts.reduce<number>((sum, count) => sum + (count ?? 0), 0),
    bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

/** The pages of a slice of a published run, and the bounds and the parent with which they were requested. */
interface ServedSlice {
  readonly bounds: Bounds;
  readonly parent: string | undefined;
  readonly pages: readonly ServedPage[];
}

/** No duplicate, nothing that does not match, and nothing missing that was there throughout the walk of its slice. */
function checkReports(
  observations: Observations,
  seen: Seen,
  { service, timeline, scenario }: Pick<ObservedExport, 'service' | 'timeline' | 'scenario'>,
  key: string,
  run: string,
  slices: readonly ServedSlice[],
): void {
  const { world } = observations;
  const ids = new Set<string>();
  for (const { bounds, pages } of slices) {
    const { since, until } = bounds;
    for (const report of pages.flatMap(({ reports }) => reports)) {
      const isMisplaced = mayBeMisplaced(observations, seen, run, report);
      if (ids.has(report.id) && !isMisplaced) world.violate('no report appears twice in a run', `${key}: ${report.id}`);
      // A run with a lag does not depend on its upper bound: the next run has what is after it, too.
      const isUnproven = !seen.proofs.has(run) && scenario.service.upperBounds !== 'honored';
      if (report.date < since || (report.date >= until && !isMisplaced && !isUnproven)) {
        world.violate('a run requests what its manifest states', `${key}: ${report.id}`);
      }
      ids.add(report.id);
    }
  }
  for (const { bounds, parent, pages } of slices) {
    const [first] = pages;
    const last = pages.at(-1);
    if (first === undefined || last === undefined) continue;
    // Counted pages have what there is throughout all passes.
    const [from, to] = service.counts
      ? [seen.begunAt.get(run) ?? 0, service.now()]
      : [first.asOf, service.endedAt(last.nextCursor) ?? last.asOf];
    const missing = timeline
      .matching(bounds.since, from, parent)
      .filter(({ date, goneAt }) => date < bounds.until && (goneAt === undefined || goneAt > to))
      .filter(({ id }) => !ids.has(id));
    if (missing.length > 0) {
      world.violate('no report is missing from a run', `${key} lacks ${missing.map(({ id }) => id).join(', ')}`);
    }
  }
}

/** Pages that are counted without a total have the reports of an earlier pass of their slice, each once. */
function checkPasses(
  observations: Observations,
  { name, service }: Pick<ObservedExport, 'name' | 'service'>,
  key: string,
  { run, slices }: ActiveRun,
  served: readonly ServedSlice[],
): void {
  const idsIn = (pages: readonly (ServedPage | undefined)[]) =>
    pages.flatMap((page) => page?.reports ?? []).map(({ id }) => id);
  for (const [index, { slice = 1, attempt = 1 }] of chainsOf(observations, run).entries()) {
    const { pages = [] } = served[index] ?? {};
    const ids = idsIn(pages);
    const passes = Array.from({ length: attempt - 1 }, (_, before): Chain => {
      const isOnly = before === 0 && slices === undefined;
      return isOnly ? {} : { slice, attempt: before + 1 };
    }).map((chain) => entriesOfChain(observations, name, run, chain).map((entry) => findServedPage(service, entry)));
    const isProved = passes.some((pass) => isDeepStrictEqual(idsIn(pass).toSorted(), ids.toSorted()));
    if (pages.length > 0 && (!isProved || new Set(ids).size < ids.length))
      observations.world.violate(
        'counted pages are those of two passes with the same reports',
        `${key}: slice ${slice}`,
      );
  }
}

/** Fields of `run.json` that the manifest has, too; and `until` and `bounded`, if the run has them. */
const summaryFields = 15;

/** A reader of the table of runs sees published runs only, each as its manifest describes it. */
function checkRunSummary({ world, prefix }: Observations, seen: Seen, key: string, { body }: StoredObject): void {
  const text = body.toString();
  const summary = JSON.parse(text) as RunSummary;
  const manifest = seen.manifests.get(prefix + summary.manifest);
  const isBounded = key.endsWith('/bounded.json');
  const summaryKey = key.replace(/bounded\.json$/, 'run.json');
  if (manifest === undefined || summaryKeyBeside(prefix + summary.manifest) !== summaryKey) {
    world.violate('only a published run is listed', `${key}: ${summary.manifest}`);
    return;
  }
  const header: Record<string, unknown> = { ...manifest, ...manifest.totals, manifest: summary.manifest };
  const stated = Object.entries(summary).filter(([field]) => !/^(runVersion|watermark)$/.test(field));
  const ofList = manifest.parents?.run && { export: manifest.parents.export, run: manifest.parents.run };
  const isSame = ([field, value]: [string, unknown]) =>
    field === 'parents' ? isDeepStrictEqual(value, ofList) : value === header[field];
  const different = stated.filter((each) => !isSame(each)).map(([field]) => field);
  const isOneLine = text.indexOf('\n') === text.length - 1;
  if (isBounded !== (manifest.bounded === true) || (isBounded && summary.watermark !== null)) {
    world.violate('a bounded run changes nothing of its export', `${key} is the wrong summary for its run`);
  }
  const fields = summaryFields + [manifest.until, ofList, isBounded || undefined].filter((each) => each).length;
  if (!isOneLine || different.length > 0 || stated.length !== fields) {
    world.violate('run.json agrees with its manifest', `${key}: ${different.join(', ')}`);
  }
  seen.summaries.set(key, summary);
}

function checkLatestPointer(
  { world, prefix }: Observations,
  { manifests, summaries, latestSequences, newestRuns }: Seen,
  exportName: string,
  key: string,
  { body }: StoredObject,
  existing: StoredObject | undefined,
): void {
  const latest = JSON.parse(body.toString()) as { sequence: number; manifest: string; run: string };
  const manifest = manifests.get(prefix + latest.manifest);
  if (manifest === undefined) world.violate('latest.json points to a published run', `${key}: ${latest.manifest}`);
  else if (manifest.sequence !== latest.sequence || manifest.run !== latest.run) {
    world.violate('latest.json agrees with its manifest', key);
  }
  if (!summaries.has(summaryKeyBeside(prefix + latest.manifest))) {
    world.violate('latest.json points to a listed run', `${key}: ${latest.manifest}`);
  }
  if (manifest?.bounded) {
    world.violate('a bounded run changes nothing of its export', `${key} points to a bounded run`);
  }
  latestSequences.set(exportName, latest.sequence);
  newestRuns.set(exportName, [...(newestRuns.get(exportName) ?? []), { run: latest.run, at: world.time.now() }]);
  if (existing === undefined) return;
  const { sequence, manifest: previous } = JSON.parse(existing.body.toString()) as typeof latest;
  // The pointer of another deployment with the same prefix is replaced.
  if (sequence > latest.sequence && manifests.has(prefix + previous)) {
    world.violate('latest.json never moves back', `${key}: from ${sequence} to ${latest.sequence}`);
  }
}
