/**
 * The promises, checked at every write, before it takes effect. Written from the design and from what lies in the stores, in
 * words of its own: it reads items and objects as an outsider would.
 */

import { createHash } from 'node:crypto';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { SimulatedExecution } from '../step-functions/step-functions.ts';
import { type Item, type SimulatedDynamoDb, text } from '../world/dynamodb.ts';
import type { Process } from '../world/process.ts';
import type { GivenPage, SimulatedService } from '../world/report-service.ts';
import type { ReportTimeline, SimulatedReport } from '../world/reports.ts';
import type { SimulatedS3, StoredObject } from '../world/s3.ts';
import type { World } from '../world/world.ts';

/** What one export has to do with. */
export interface ExportWorld {
  readonly name: string;
  readonly service: SimulatedService;
  readonly timeline: ReportTimeline;
  readonly initial: number | undefined;
  /** How often a walk may start afresh because its cursor was dropped. */
  readonly maxCursorRestarts: number;
}

export interface Surveyed {
  readonly world: World;
  readonly prefix: string;
  readonly s3: () => SimulatedS3;
  readonly dynamoDb: () => SimulatedDynamoDb;
  readonly exports: ReadonlyMap<string, ExportWorld>;
  /** Whose request is being answered. */
  readonly writer: () => Process;
  readonly execution: (arn: string) => SimulatedExecution | undefined;
}

export interface Invariants {
  readonly onObject: (key: string, object: StoredObject, existing: StoredObject | undefined) => void;
  readonly onItem: (item: Item, existing: Item | undefined) => void;
  /** Reports that stand in a published run of the export. */
  published(exportName: string): ReadonlySet<SimulatedReport>;
  publishedRuns(): number;
  /** In the order in which they were completed. */
  readonly completions: readonly Completion[];
  /** From where on the export promises to miss nothing; undefined before its first watermark. */
  lowerBound(exportName: string): number | undefined;
}

interface Completion {
  readonly exportName: string;
  readonly run: string;
  readonly execution: string;
  readonly at: number;
}

interface Active {
  readonly run: string;
  readonly execution: string;
  readonly startedBy: string;
  readonly sequence: number;
  readonly since: string;
  readonly cursorRestarts: number;
}

interface HeadItem {
  readonly version: number;
  readonly sequence: number;
  readonly active?: Active;
  readonly watermark?: { readonly instant: string };
  readonly lastCompleted?: {
    readonly execution: string;
    readonly result: { readonly run: string; readonly manifest: string };
  };
}

interface Entry {
  readonly export: string;
  readonly run: string;
  readonly page: number;
  readonly key: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly cursor: string | null;
  readonly nextCursor: string | null;
  readonly repeats: boolean;
}

interface Manifest {
  readonly run: string;
  readonly sequence: number;
  readonly since: string;
  readonly totals: { readonly pages: number; readonly bytes: number; readonly reports: number | null };
  readonly pages: readonly {
    readonly page: number;
    readonly key: string;
    readonly bytes: number;
    readonly sha256: string;
    readonly cursor: string | null;
  }[];
}

const sha256Of = (body: Buffer) => createHash('sha256').update(body).digest('hex');

export function createInvariants(surveyed: Surveyed): Invariants {
  const { world, prefix, s3, dynamoDb, exports } = surveyed;
  const published = new Map<string, Set<SimulatedReport>>();
  const manifests = new Map<string, Manifest>();
  const lowerBounds = new Map<string, number>();
  const completions: Completion[] = [];
  const broken = (invariant: string, what: string) => world.violate(invariant, what);

  const entriesOf = (exportName: string, run: string): Entry[] =>
    dynamoDb()
      .items(exportName, `run#${run}#page#`)
      .map((item) => unmarshall({ ...item }) as Entry);
  const publishedOf = (exportName: string) => published.get(exportName) ?? new Set<SimulatedReport>();
  const exportOf = (name: string): ExportWorld => {
    const found = exports.get(name);
    if (found === undefined) throw new Error(`there is no export ${name}`);
    return found;
  };

  function onObject(key: string, object: StoredObject, existing: StoredObject | undefined): void {
    const [, exportName = '', rest = ''] = new RegExp(`^${prefix}([^/]+)/(.+)$`).exec(key) ?? [];
    if (!exports.has(exportName)) broken('objects lie where they belong', key);
    else if (rest === 'latest.json') onLatest(key, object, existing);
    else if (existing !== undefined) broken('an object, once visible, never changes', key);
    else if (rest.endsWith('/manifest.json')) onManifest(exportOf(exportName), key, object);
    else onPage(exportOf(exportName), key, rest, object);
  }

  function onPage(exported: ExportWorld, key: string, rest: string, { body, metadata }: StoredObject): void {
    const { service } = exported;
    const [, run = '', digits = ''] = /^date=[\d-]{10}\/run=([^/]+)\/page-(\d{6})\.[a-z]+$/.exec(rest) ?? [];
    const page = Number(digits);
    const cursor = cursorBehind(exported, run, page - 1, key);
    if (cursor === undefined) {
      broken('pages are stored in order', `${key} comes before its predecessor is stored`);
      return;
    }
    if (page !== 1 && cursor === null) broken('pages are stored in order', `${key} comes behind the last`);
    const sha256 = sha256Of(body);
    const alike = service.given(cursor).filter((given) => given.sha256 === sha256);
    if (alike.length === 0)
      broken('a page is stored byte for byte', `${key} holds what was never given out for its cursor`);
    else if (!alike.some(({ nextCursor }) => sameCursor(metadata, 'next-cursor', nextCursor))) {
      broken('a page names the cursor it came with', key);
    }
    if (!sameCursor(metadata, 'cursor', cursor)) broken('cursors chain', `${key} was asked for with another cursor`);
    if (metadata.run !== run || metadata.page !== String(page)) broken('a page says whose it is', key);
  }

  /** What a page went on with, by the log or by what is stored; null before the first, undefined where it is not there. */
  function cursorBehind(
    exported: ExportWorld,
    run: string,
    page: number,
    keyBehind: string,
  ): string | null | undefined {
    if (page === 0) return null;
    const logged = entriesOf(exported.name, run).find((entry) => entry.page === page);
    if (logged !== undefined) return logged.nextCursor;
    const key = keyBehind.replace(/\d{6}(?=\.[a-z]+$)/, String(page).padStart(6, '0'));
    const stored = s3().objects.get(key);
    const asked = stored && cursorBehind(exported, run, page - 1, key);
    if (stored === undefined || asked === undefined) return undefined;
    const given = exported.service.given(asked);
    return given.find(({ nextCursor }) => sameCursor(stored.metadata, 'next-cursor', nextCursor))?.nextCursor;
  }

  function onManifest({ name, service, timeline }: ExportWorld, key: string, { body }: StoredObject): void {
    const manifest = JSON.parse(body.toString()) as Manifest;
    const entries = entriesOf(name, manifest.run);
    const last = entries.at(-1);
    if (last === undefined || last.nextCursor !== null) {
      broken('only a walk that came to its end is published', key);
      return;
    }
    const listed = manifest.pages.map(namedFacts);
    const logged = entries.map(namedFacts);
    if (JSON.stringify(listed) !== JSON.stringify(logged)) broken('a manifest names exactly the log of its run', key);
    if (manifest.totals.pages !== entries.length)
      broken('a manifest names exactly the log of its run', `${key}: its totals`);
    const since = Date.parse(manifest.since);
    const walked: GivenPage[] = [];
    for (const entry of entries) {
      const object = s3().objects.get(prefix + entry.key);
      if (object === undefined || sha256Of(object.body) !== entry.sha256 || object.body.length !== entry.bytes) {
        broken('a manifest names what is there', `${key}: page ${entry.page}`);
      }
      const given = givenPage(service, entry, since);
      if (given === undefined) broken('a page is stored byte for byte', `${key}: page ${entry.page}`);
      else walked.push(given);
    }
    checkWalk(timeline, key, since, walked);
    const { bytes, reports: told } = manifest.totals;
    const reports = walked.reduce((sum, page) => sum + page.reports.length, 0);
    if (bytes !== entries.reduce((sum, entry) => sum + entry.bytes, 0) || (told !== null && told !== reports))
      broken('a manifest names exactly the log of its run', `${key}: its totals`);
    const all = publishedOf(name);
    for (const { reports } of walked) for (const report of reports) all.add(report);
    published.set(name, all);
    manifests.set(key, manifest);
  }

  /** Nothing twice, nothing out of order, and nothing lost that was there when the walk began and stayed. */
  function checkWalk(timeline: ReportTimeline, key: string, since: number, walked: readonly GivenPage[]): void {
    const reports = walked.flatMap((page) => page.reports);
    const ids = new Set(reports.map(({ id }) => id));
    if (ids.size !== reports.length) broken('nothing is twice within a run', key);
    const [first] = walked;
    const last = walked.at(-1);
    if (first === undefined || last === undefined) return;
    if (reports.some(({ date }) => date < since)) broken('a run asks for what it says', key);
    const stayed = timeline.matching(since, first.at).filter(({ goneAt }) => goneAt === undefined || goneAt > last.at);
    const lost = stayed.filter(({ id }) => !ids.has(id)).map(({ id }) => id);
    if (lost.length > 0) broken('nothing is lost within a run', `${key} lacks ${lost.join(', ')}`);
  }

  function onLatest(key: string, { body }: StoredObject, existing: StoredObject | undefined): void {
    const latest = JSON.parse(body.toString()) as { sequence: number; manifest: string; run: string };
    const manifest = manifests.get(prefix + latest.manifest);
    if (manifest === undefined) broken('latest.json points at a published run', `${key}: ${latest.manifest}`);
    else if (manifest.sequence !== latest.sequence || manifest.run !== latest.run)
      broken('latest.json says what it points at', key);
    if (existing === undefined) return;
    const { sequence } = JSON.parse(existing.body.toString()) as { sequence: number };
    if (sequence > latest.sequence)
      broken('latest.json never points backwards', `${key}: ${sequence} to ${latest.sequence}`);
  }

  function onItem(item: Item, existing: Item | undefined): void {
    const name = text(item, 'pk');
    if (text(item, 'sk') === 'state') onHead(exportOf(name), unmarshall({ ...item }) as HeadItem, existing);
    else onEntry(exportOf(name), unmarshall({ ...item }) as Entry, existing);
  }

  function onEntry({ name, service }: ExportWorld, entry: Entry, existing: Item | undefined): void {
    const about = `page ${entry.page} of run ${entry.run} of ${name}`;
    if (existing !== undefined) {
      broken('a log entry never changes', about);
      return;
    }
    const entries = entriesOf(name, entry.run);
    const before = entries.at(-1);
    if (entry.page !== (before?.page ?? 0) + 1)
      broken('the log is free of gaps', `${about} after ${before?.page ?? 0}`);
    if (entry.cursor !== (before?.nextCursor ?? null)) broken('cursors chain', about);
    if (before?.repeats === true) broken('no page is logged behind one that closes a circle', about);
    const object = s3().objects.get(prefix + entry.key);
    if (object === undefined) broken('a page is stored before it is logged', about);
    else if (sha256Of(object.body) !== entry.sha256) broken('the log agrees with the objects', about);
    else if (!sameCursor(object.metadata, 'next-cursor', entry.nextCursor))
      broken('the log agrees with the objects', `${about}: its next cursor`);
    if (givenPage(service, entry) === undefined) broken('the log holds the cursor the service gave', about);
  }

  function onHead(exported: ExportWorld, head: HeadItem, existing: Item | undefined): void {
    const { name } = exported;
    const before = existing === undefined ? undefined : (unmarshall({ ...existing }) as HeadItem);
    if (head.version !== (before?.version ?? 0) + 1)
      broken('a head replaces the one that was read', `${name}: version ${head.version}`);
    if (head.sequence < (before?.sequence ?? 0)) broken('sequences grow', name);
    const begun = head.active !== undefined && head.active.run !== before?.active?.run;
    if (begun && (head.sequence <= (before?.sequence ?? 0) || head.active?.sequence !== head.sequence))
      broken('sequences grow', `${name}: with ${head.active?.run}`);
    checkOwner(exported, before?.active, head);
    checkCompletion(name, before, head);
    checkWatermark(exported, before, head);
  }

  /** At most one run is active: none takes the place of another without a reason. */
  function checkOwner({ name, maxCursorRestarts }: ExportWorld, before: Active | undefined, head: HeadItem): void {
    if (before === undefined) return;
    const { step, payload, id } = surveyed.writer();
    const input = (payload.input ?? {}) as { restart?: boolean; since?: string; continues?: string; Error?: string };
    const { active } = head;
    if (step === 'FailRun' && before.execution !== payload.execution)
      broken('one run at a time', `${name}: ${id} touches ${before.run}, which is not its own`);
    if (active?.run === before.run) {
      const taken = active.execution !== before.execution;
      const living = surveyed.execution(before.execution)?.status === 'RUNNING';
      const handedOver = input.continues === before.execution;
      const misled = world.struck.some(({ kind, about }) => kind === 'stale-description' && about.includes(id));
      if (taken && living && !handedOver && !misled)
        broken('one run at a time', `${name}: ${before.run} was taken from a living execution`);
      return;
    }
    const last = entriesOf(name, before.run).at(-1);
    const completed = head.lastCompleted?.result.run === before.run && step === 'FinishRun';
    const asked = input.restart === true && before.startedBy !== payload.execution;
    // A start with another since may give up a run without a page, and the first may be logged while it does so.
    const unbegun =
      last === undefined || (input.since !== undefined && input.since !== before.since && last.page === 1);
    // No BeginRun gives up the very run that its execution has begun.
    const others = before.startedBy !== payload.execution;
    const restarted = step === 'BeginRun' && others && (asked || unbegun || last?.repeats);
    const cursorDropped =
      step === 'ExportPage' &&
      active?.cursorRestarts === before.cursorRestarts + 1 &&
      active.cursorRestarts <= maxCursorRestarts &&
      active.since === before.since;
    const hopeless =
      step === 'FailRun' && active === undefined && (input.Error === 'CursorRejectedError' || last?.repeats);
    if (completed || restarted || cursorDropped || hopeless) return;
    broken('one run at a time', `${name}: ${before.run} was given up by ${step} ${id} for ${active?.run ?? 'nothing'}`);
  }

  function checkCompletion(name: string, before: HeadItem | undefined, head: HeadItem): void {
    const completed = head.lastCompleted?.result;
    if (completed === undefined || completed.run === before?.lastCompleted?.result.run) return;
    const manifest = manifests.get(prefix + completed.manifest);
    if (manifest === undefined) {
      broken('a run is completed once it is published', `${name}: ${completed.run}`);
      return;
    }
    const pointer = s3().objects.get(`${prefix}${name}/latest.json`);
    const reached = pointer === undefined ? 0 : (JSON.parse(pointer.body.toString()) as Manifest).sequence;
    if (reached < manifest.sequence)
      broken('latest.json points at the newest completed run', `${name}: ${completed.run}`);
    completions.push({
      exportName: name,
      run: completed.run,
      execution: head.lastCompleted?.execution ?? '',
      at: world.time.now(),
    });
  }

  function checkWatermark(
    { name, timeline, initial }: ExportWorld,
    before: HeadItem | undefined,
    head: HeadItem,
  ): void {
    const instant = head.watermark?.instant;
    const known = before?.watermark?.instant;
    if (instant === known) return;
    if (instant === undefined || (known !== undefined && Date.parse(instant) < Date.parse(known))) {
      broken('the watermark never moves back', `${name}: from ${known} to ${instant}`);
      return;
    }
    if (before?.active === undefined || head.active !== undefined) {
      broken('the watermark moves only as a run completes', `${name}: to ${instant}`);
      return;
    }
    const bound = lowerBounds.get(name) ?? initial ?? Date.parse(before.active.since);
    lowerBounds.set(name, bound);
    const seen = publishedOf(name);
    const missed = timeline.reports.filter(
      (report) =>
        report.date >= bound &&
        report.date < Date.parse(instant) &&
        report.visibleAt <= Date.parse(instant) &&
        report.goneAt === undefined &&
        !seen.has(report),
    );
    if (missed.length > 0) {
      broken(
        'the watermark never moves past what is not exported',
        `${name}: to ${instant}, past ${missed.map(({ id }) => id).join(', ')}`,
      );
    }
  }

  return {
    onObject,
    onItem,
    published: publishedOf,
    publishedRuns: () => manifests.size,
    completions,
    lowerBound: (exportName) => lowerBounds.get(exportName),
  };
}

/** As the service made it: given out more than once, as it was the first time. */
function givenPage(
  service: SimulatedService,
  { cursor, sha256, nextCursor }: Entry,
  since?: number,
): GivenPage | undefined {
  return service
    .given(cursor)
    .find((page) => page.sha256 === sha256 && page.nextCursor === nextCursor && page.since === (since ?? page.since));
}

/** Metadata hold a cursor whole, or, where it is too long, as its hash. */
function sameCursor(metadata: StoredObject['metadata'], name: string, cursor: string | null): boolean {
  const hash = cursor === null ? undefined : createHash('sha256').update(cursor).digest('hex');
  const whole = metadata[name];
  return cursor === null
    ? whole === undefined && metadata[`${name}-sha256`] === undefined
    : whole === cursor || metadata[`${name}-sha256`] === hash;
}

/** What a manifest tells of a page. */
function namedFacts({ page, key, bytes, sha256, cursor }: Manifest['pages'][number]) {
  return { page, key, bytes, sha256, cursor };
}
