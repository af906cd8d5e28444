/**
 * An export that was cut off half-way, for hands to edit what it keeps: one run published, of another two pages logged
 * and a third stored but not logged. And what must hold however it ends then: published is only what is true.
 */

import { expect } from 'vitest';
import { errorNames } from '../../../lib/core/errors.ts';
import { asCursor, type Instant, type LatestPointer } from '../../../lib/core/model.ts';
import type { PageLog, PageStore, StepDependencies } from '../../../lib/core/ports.ts';
import { filterSince } from '../../../lib/core/settings/filter.ts';
import { interpretExecution, type LocalExecutionOutcome } from '../../../lib/local/interpreter.ts';
import { anExportDefinition, anExportRequest, at, collect, sha256Of } from '../builders.ts';
import type { Manifest } from './export-bench.ts';
import { scriptedService, someReports } from './scripted-service.ts';
import { type HandEdit, type KeptThing, makeEdit } from './storage-edits.ts';

/** Where it all lies: as a test makes it anew for each case. */
export interface HalfWay {
  readonly store: PageStore;
  readonly log: PageLog;
  readonly things: readonly KeptThing[];
  /** Takes the head away, as an operator is told to where it was edited. */
  deleteHead(): Promise<void>;
  /** What a reader sees, by key. */
  objects(): Promise<ReadonlyMap<string, Buffer>>;
  /** Whether an edit that leaves the size of a page as it was goes unseen, as no store says that it was made. */
  readonly blindToSameSize: boolean;
}

export const exportName = 'reports';
const definition = anExportDefinition({
  name: exportName,
  request: anExportRequest({ size: 2, filter: { type: 'x' } }),
});
const since = at('2026-11-01T00:02:00Z');
/** The second run begins here; one that lost its head begins at the beginning. */
const starts: readonly Instant[] = [since, at('1970-01-01T00:00:00Z')];
const service = scriptedService(someReports(9));

let random = 0;
const needsOf = (parts: Pick<HalfWay, 'store' | 'log'>): StepDependencies => ({
  definition,
  service,
  ...parts,
  executions: { isRunning: async () => false },
  runtime: {
    now: () => Date.UTC(2026, 10, 20, 2) + random * 1_000,
    sleep: async () => {},
    randomHex: (length) => {
      random += 1;
      return random.toString(16).padStart(length, '0').slice(-length);
    },
  },
  emit: () => {},
});

let executions = 0;
function start(parts: Pick<HalfWay, 'store' | 'log'>, input: unknown): Promise<LocalExecutionOutcome> {
  executions += 1;
  return interpretExecution(needsOf(parts), { name: `execution-${executions}`, input }, { pauseSeconds: 0 });
}

/** Makes one run whole, and another up to where its third page is stored but not logged. */
export async function comeHalfWay({ store, log }: Pick<HalfWay, 'store' | 'log'>): Promise<void> {
  expect((await start({ store, log }, {})).status).toBe('completed');
  const cutOff: PageLog = {
    ...log,
    async append(entry) {
      if (entry.page === 3) throw new Error('cut off');
      return await log.append(entry);
    },
  };
  expect((await start({ store, log: cutOff }, { since })).status).toBe('failed');
}

const manifestsIn = (objects: ReadonlyMap<string, Buffer>) =>
  [...objects.keys()].filter((key) => key.endsWith('/manifest.json'));

/**
 * Makes the edits, starts the export again, and makes sure that it ends: with a manifest of which every word is true, or
 * with an error that has a name and says what to do, and that doing so helps.
 */
export async function expectAnHonestEndAfter(edits: readonly HandEdit[], halfWay: HalfWay): Promise<void> {
  const done: string[] = [];
  for (const edit of edits) done.push(await makeEdit(halfWay.things, edit));
  try {
    await expectAnHonestEnd(halfWay, await halfWay.objects());
  } catch (cause) {
    throw new Error(`After ${done.join('; ')}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

async function expectAnHonestEnd(halfWay: HalfWay, before: ReadonlyMap<string, Buffer>): Promise<void> {
  const end = await within(20_000, start(halfWay, {}));
  await expectHonest(halfWay, before, end);
  if (end.status !== 'failed' || end.failed.error !== 'PageConflictError') return;

  // Whoever does as the message says has an export that works again.
  if (end.failed.message.startsWith('The state of export')) await halfWay.deleteHead();
  else expect(end.failed.message).toMatch(/start with restart|move it away and start again|find out who wrote it/);
  const objects = await halfWay.objects();
  const again = await within(20_000, start(halfWay, { restart: true, since }));
  expect(again).toMatchObject({ status: 'completed' });
  await expectHonest(halfWay, objects, again);
}

async function expectHonest(
  halfWay: HalfWay,
  before: ReadonlyMap<string, Buffer>,
  end: LocalExecutionOutcome,
): Promise<void> {
  const objects = await halfWay.objects();
  const newManifests = manifestsIn(objects).filter((key) => !before.has(key));
  const latest = objects.get(`${exportName}/latest.json`);
  if (end.status !== 'completed') {
    expect(end).toMatchObject({
      status: 'failed',
      failed: { message: expect.stringMatching(/.{40}/) as unknown as string },
    });
    expect(errorNames).toContain(end.status === 'failed' && end.failed.error);
    expect(newManifests).toEqual([]);
    expect(latest).toEqual(before.get(`${exportName}/latest.json`));
    return;
  }
  expect(newManifests).toEqual([end.result.manifest]);
  expect((JSON.parse(String(latest)) as LatestPointer).manifest).toBe(end.result.manifest);
  await expectTrue(halfWay, JSON.parse(String(objects.get(end.result.manifest))) as Manifest, objects);
}

/** Every statement of the manifest, by what the service has and by what the objects hold. */
async function expectTrue(
  { blindToSameSize }: HalfWay,
  manifest: Manifest,
  objects: ReadonlyMap<string, Buffer>,
): Promise<void> {
  const { request } = definition;
  const from = manifest.since as Instant;
  expect(starts).toContain(from);
  const { filter, format, container, size, source } = { ...request, filter: filterSince(request.filter, from) };
  expect(manifest).toMatchObject({ export: exportName, filter, format, container, size, source });
  let totals = { pages: 0, reports: 0, bytes: 0 };
  for (const { page, key, bytes, sha256, reports, cursor } of manifest.pages) {
    const asked = { request, since: from, cursor: cursor === null ? null : asCursor(cursor), label: '' };
    const fetched = await service.fetchPage(asked);
    const body = Buffer.concat(await collect(fetched.body));
    expect({ page, bytes, sha256, reports }).toEqual({
      page: totals.pages + 1,
      bytes: body.length,
      sha256: sha256Of(body),
      reports: fetched.reports(),
    });
    const object = objects.get(key);
    expect({ key, lies: object?.length }).toEqual({ key, lies: bytes });
    if (!blindToSameSize) expect({ key, lies: sha256Of(object ?? '') }).toEqual({ key, lies: sha256 });
    expect(manifest.pages[page]?.cursor ?? null).toBe(fetched.nextCursor);
    totals = { pages: page, reports: totals.reports + (reports ?? 0), bytes: totals.bytes + bytes };
  }
  expect(manifest.totals).toEqual(totals);
  expect(manifest.pages[0]?.cursor).toBeNull();
}

async function within<Result>(ms: number, doing: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it hangs: no end after ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([doing, late]);
  } finally {
    clearTimeout(timer);
  }
}
