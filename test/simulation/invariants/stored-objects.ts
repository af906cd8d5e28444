/** Checks each object before it is stored in S3: pages, manifests, `run.json`, and `latest.json`. */

import type { ServedPage } from '../world/report-service.ts';
import type { ReportTimeline } from '../world/reports.ts';
import type { StoredObject } from '../world/s3.ts';
import {
  contentOf,
  entriesOf,
  findServedPage,
  holdsCursor,
  isChangedTooLate,
  isStored,
  keyOfPage,
  type Manifest,
  type Observations,
  type ObservedExport,
  type RunSummary,
  type Seen,
  sha256Of,
  summaryKeyBeside,
  type WindowBounds,
} from './observations.ts';
import { isPageInXml } from './document-roots.ts';
import { checkPublishedWindow } from './windows.ts';

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
  if (observed === undefined) world.violate('every object has an expected key', key);
  else if (path === 'latest.json') checkLatestPointer(observations, seen, exportName, key, object, existing);
  else if (existing !== undefined) world.violate('a visible object never changes', key);
  else if (path.includes('/_cursors/')) {
    if (!path.endsWith(`/${sha256Of(object.body)}`)) world.violate('no object has missing or reordered parts', key);
  } else if ((object.metadata['stored-sha256'] ?? object.metadata.sha256) !== sha256Of(object.body)) {
    world.violate('no object has missing or reordered parts', key);
  } else if (path.endsWith('/manifest.json')) checkManifest(observations, seen, observed, key, object);
  else if (path.endsWith('/run.json') || path.endsWith('/window.json')) {
    checkRunSummary(observations, seen, key, object);
  } else {
    seen.pagesStoredAt.set(key, world.time.now());
    checkPage(observations, observed, key, path, object);
  }
}

function checkPage(
  observations: Observations,
  observed: ObservedExport,
  key: string,
  path: string,
  object: StoredObject,
): void {
  const { world } = observations;
  const { metadata } = object;
  const body = contentOf(object.body, metadata.compression);
  if (observed.scenario.settings.format === 'XML' && !isPageInXml(body)) {
    world.violate('every page has the root element of the service', key);
  }
  const [, run = '', digits = ''] = /^date=[\d-]{10}\/run=([^/]+)\/page-(\d{6})\.[a-z]+(?:\.gz)?$/.exec(path) ?? [];
  const page = Number(digits);
  const isCompressed = metadata.compression !== undefined;
  const isAsFirst = page === 1 || observations.s3().versions(keyOfPage(key, 1)).length > 0;
  if (isCompressed !== key.endsWith('.gz') || !isAsFirst) {
    world.violate('all pages of a run have the same form', key);
  }
  const cursors = nextCursorsOf(observations, observed, run, page - 1, key);
  const cursor = cursors.find((each) => holdsCursor(metadata, 'cursor', each)) ?? cursors[0];
  if (cursor === undefined) {
    world.violate('pages are stored in order', `${key} is stored before its predecessor`);
    return;
  }
  if (page !== 1 && cursor === null) world.violate('pages are stored in order', `${key} is stored after the last page`);
  const sha256 = sha256Of(body);
  const served = observed.service.servedPages(cursor).filter((each) => each.sha256 === sha256);
  if (served.length === 0) {
    world.violate('a page is stored byte for byte', `${key} differs from every response for its cursor`);
  } else if (!served.some(({ nextCursor }) => holdsCursor(metadata, 'next-cursor', nextCursor))) {
    world.violate('page metadata holds the next cursor of its response', key);
  }
  if (!holdsCursor(metadata, 'cursor', cursor)) {
    world.violate('cursors form a chain', `${key} was requested with another cursor`);
  }
  if (metadata.run !== run || metadata.page !== String(page)) {
    world.violate('page metadata names the run and the page', key);
  }
}

/**
 * The cursor after `page`, from its log entry or else from its object; null before the first page and after the last. None: the
 * page does not exist. Several: someone has deleted the page, and it was stored again, with another cursor.
 */
function nextCursorsOf(
  observations: Observations,
  observed: ObservedExport,
  run: string,
  page: number,
  successorKey: string,
): readonly (string | null)[] {
  if (page === 0) return [null];
  const entry = entriesOf(observations, observed.name, run).find((each) => each.page === page);
  const key = keyOfPage(successorKey, page);
  const versions = observations.s3().versions(key);
  if (entry !== undefined && versions.length < 2) return [entry.nextCursor];
  const served = nextCursorsOf(observations, observed, run, page - 1, key).flatMap((cursor) =>
    observed.service.servedPages(cursor),
  );
  const found = versions.flatMap(({ metadata }) =>
    served.filter(({ nextCursor }) => holdsCursor(metadata, 'next-cursor', nextCursor)).slice(0, 1),
  );
  return [...(entry === undefined ? [] : [entry.nextCursor]), ...found.map(({ nextCursor }) => nextCursor)];
}

function checkManifest(
  observations: Observations,
  seen: Seen,
  { name, service, timeline }: ObservedExport,
  key: string,
  { body }: StoredObject,
): void {
  const { world, prefix } = observations;
  const manifest = JSON.parse(body.toString()) as Manifest;
  const entries = entriesOf(observations, name, manifest.run);
  const last = entries.at(-1);
  if (last === undefined || last.nextCursor !== null) {
    world.violate('only a complete run is published', key);
    return;
  }
  const listed = JSON.stringify(manifest.pages.map(manifestFields));
  const logged = JSON.stringify(entries.map(manifestFields));
  if (listed !== logged) world.violate('a manifest lists exactly the page log of its run', key);

  const bounds = {
    // Requests have whole seconds, rounded down.
    since: Math.floor(Date.parse(manifest.since) / 1_000) * 1_000,
    until: manifest.until === undefined ? Number.POSITIVE_INFINITY : Date.parse(manifest.until),
  };
  const served: ServedPage[] = [];
  for (const entry of entries) {
    if (!isStored(observations, entry) && !isChangedTooLate(observations, prefix + entry.key)) {
      world.violate('a manifest lists stored pages only', `${key}: page ${entry.page}`);
    }
    const page = findServedPage(service, entry, bounds);
    const requestMark = seen.requestMarks.get(manifest.run);
    if (page === undefined) world.violate('a page is stored byte for byte', `${key}: page ${entry.page}`);
    else if (findServedPage(service, entry, { ...bounds, requestMark }) === undefined) {
      world.violate('every page of a published run is requested as the run is', `${key}: page ${entry.page}`);
    } else served.push(page);
  }
  const folder = key.slice(0, key.lastIndexOf('/'));
  for (const stored of observations.s3().objects.keys()) {
    if (!stored.startsWith(`${folder}/page-`) || entries.some((entry) => prefix + entry.key === stored)) continue;
    if (isChangedTooLate(observations, stored)) continue;
    world.violate('no page in the folder of a run is missing from its manifest', `${key}: ${stored}`);
  }
  checkReports(observations, timeline, key, bounds, served);

  const { pages, bytes, reports: statedReports } = manifest.totals;
  const loggedBytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  const servedReports = served.reduce((sum, { reports }) => sum + reports.length, 0);
  const isReportTotalRight = statedReports === null || statedReports === servedReports;
  if (pages !== entries.length || bytes !== loggedBytes || !isReportTotalRight) {
    world.violate('a manifest lists exactly the page log of its run', `${key}: its totals`);
  }

  seen.manifests.set(key, manifest);
  if (manifest.until !== undefined) {
    const reports = served.flatMap((page) => page.reports);
    checkPublishedWindow(observations, seen, name, { ...bounds, run: manifest.run, reports });
    return;
  }
  const published = seen.publishedReports.get(name) ?? new Set();
  for (const { reports } of served) for (const report of reports) published.add(report);
  seen.publishedReports.set(name, published);
}

/** The fields that a manifest repeats from the page log. */
function manifestFields(listed: Manifest['pages'][number]) {
  const { page, key, bytes, sha256, compression, storedBytes, storedSha256, cursor, transferredBytes } = listed;
  return { page, key, bytes, sha256, compression, storedBytes, storedSha256, cursor, transferredBytes };
}

/** No duplicate, nothing that does not match, and nothing missing that was there throughout the run. */
function checkReports(
  { world }: Observations,
  timeline: ReportTimeline,
  key: string,
  { since, until }: WindowBounds,
  served: readonly ServedPage[],
): void {
  const reports = served.flatMap((page) => page.reports);
  const ids = new Set(reports.map(({ id }) => id));
  if (ids.size !== reports.length) world.violate('no report appears twice in a run', key);
  const [first] = served;
  const last = served.at(-1);
  if (first === undefined || last === undefined) return;
  if (reports.some(({ date }) => date < since || date >= until))
    world.violate('a run requests what its manifest states', key);
  const throughout = timeline
    .matching(since, first.asOf)
    .filter(({ date, goneAt }) => date < until && (goneAt === undefined || goneAt > last.asOf));
  const missing = throughout.filter(({ id }) => !ids.has(id)).map(({ id }) => id);
  if (missing.length > 0) world.violate('no report is missing from a run', `${key} lacks ${missing.join(', ')}`);
}

/** Fields of `run.json` that the manifest has, too. `window.json` has one more, its `until`. */
const summaryFields = 15;

/** A reader of the table of runs sees published runs only, each as its manifest describes it. */
function checkRunSummary({ world, prefix }: Observations, seen: Seen, key: string, { body }: StoredObject): void {
  const text = body.toString();
  const summary = JSON.parse(text) as RunSummary;
  const manifest = seen.manifests.get(prefix + summary.manifest);
  const isOfWindow = key.endsWith('/window.json');
  const summaryKey = isOfWindow ? key.replace(/window\.json$/, 'run.json') : key;
  if (manifest === undefined || summaryKeyBeside(prefix + summary.manifest) !== summaryKey) {
    world.violate('only a published run is listed', `${key}: ${summary.manifest}`);
    return;
  }
  const header: Record<string, unknown> = { ...manifest, ...manifest.totals, manifest: summary.manifest };
  const stated = Object.entries(summary).filter(([field]) => !/^(runVersion|windowVersion|watermark)$/.test(field));
  const different = stated.filter(([field, value]) => value !== header[field]).map(([field]) => field);
  const isOneLine = text.indexOf('\n') === text.length - 1;
  if (isOfWindow !== (manifest.until !== undefined) || (isOfWindow && 'watermark' in summary)) {
    world.violate('a window leaves the runs of its export as they are', `${key} is the wrong summary for its run`);
  }
  if (!isOneLine || different.length > 0 || stated.length !== summaryFields + (isOfWindow ? 1 : 0)) {
    world.violate('run.json agrees with its manifest', `${key}: ${different.join(', ')}`);
  }
  seen.summaries.set(key, summary);
}

function checkLatestPointer(
  { world, prefix }: Observations,
  { manifests, summaries, latestSequences }: Seen,
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
  if (manifest?.until !== undefined) {
    world.violate('a window leaves the runs of its export as they are', `${key} points to a window`);
  }
  latestSequences.set(exportName, latest.sequence);
  if (existing === undefined) return;
  const { sequence, manifest: previous } = JSON.parse(existing.body.toString()) as typeof latest;
  // That of another deployment with the same prefix is replaced.
  if (sequence > latest.sequence && manifests.has(prefix + previous)) {
    world.violate('latest.json never moves back', `${key}: from ${sequence} to ${latest.sequence}`);
  }
}
