/**
 * An interrupted export for tests that edit its storage: one published run, and another with two pages logged and a
 * third stored but not logged. However the export ends after an edit, every published manifest must be correct.
 */

import { expect } from 'vitest';
import { errorNames } from '../../../lib/core/errors.ts';
import { asCursor, type Instant, type LatestPointer, zeroTotals } from '../../../lib/core/model.ts';
import type { PageLog, PageStore, StepDependencies } from '../../../lib/core/ports.ts';
import { filterSince } from '../../../lib/core/filter.ts';
import { runExecution, type ExecutionOutcome } from '../../../lib/local/execution.ts';
import { anExportDefinition, anExportRequest, at, sha256Of, fetchPage } from '../builders.ts';
import type { Manifest } from './export-bench.ts';
import { scriptedService, someReports } from './scripted-service.ts';
import { applyEdit, type StorageEdit, type StoredItem } from './storage-edits.ts';

/** The storage of the export, created for each case. */
export interface InterruptedExport {
  readonly store: PageStore;
  readonly log: PageLog;
  readonly items: readonly StoredItem[];
  /** Deletes the export state, as the error message tells an operator to do after it was edited. */
  deleteState(): Promise<void>;
  /** The objects that a consumer sees, by key. */
  objects(): Promise<ReadonlyMap<string, Buffer>>;
}

export const exportName = 'reports';
const definition = anExportDefinition({
  name: exportName,
  request: anExportRequest({ size: 2, filter: { type: 'x' } }),
});
const since = at('2026-11-01T00:02:00Z');
/** Where the second run starts; without an export state, it starts with the oldest report. */
const starts: readonly Instant[] = [since, at('1970-01-01T00:00:00Z')];
const service = scriptedService(someReports(9));

let random = 0;
const dependenciesOf = (parts: Pick<InterruptedExport, 'store' | 'log'>): StepDependencies => ({
  definition,
  service,
  ...parts,
  executions: { status: async () => 'unknown' as const },
  runtime: {
    now: () => Date.UTC(2026, 10, 20, 2) + random * 1_000,
    monotonicNow: () => random * 1_000,
    sleep: async () => {},
    randomHex: (length) => {
      random += 1;
      return random.toString(16).padStart(length, '0').slice(-length);
    },
  },
  emit: () => {},
});

let executions = 0;
function start(parts: Pick<InterruptedExport, 'store' | 'log'>, input: unknown): Promise<ExecutionOutcome> {
  executions += 1;
  return runExecution(dependenciesOf(parts), { name: `execution-${executions}`, input });
}

/** Completes one run, and interrupts another after its third page is stored but before it is logged. */
export async function createInterruptedExport({ store, log }: Pick<InterruptedExport, 'store' | 'log'>): Promise<void> {
  expect((await start({ store, log }, {})).status).toBe('completed');
  const interruptedLog: PageLog = {
    ...log,
    async append(entry) {
      if (entry.page === 3) throw new Error('interrupted');
      return await log.append(entry);
    },
  };
  expect((await start({ store, log: interruptedLog }, { since })).status).toBe('failed');
}

const manifestsIn = (objects: ReadonlyMap<string, Buffer>) =>
  [...objects.keys()].filter((key) => key.endsWith('/manifest.json'));

/**
 * Applies the edits, starts the export again and expects it to end, either with a correct manifest or with a named
 * error that says what to do, and that doing so works.
 */
export async function expectConsistentEndAfter(
  edits: readonly StorageEdit[],
  interrupted: InterruptedExport,
): Promise<void> {
  const applied: string[] = [];
  for (const edit of edits) applied.push(await applyEdit(interrupted.items, edit));
  try {
    await expectConsistentEnd(interrupted, await interrupted.objects());
  } catch (cause) {
    throw new Error(`After ${applied.join('; ')}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

async function expectConsistentEnd(interrupted: InterruptedExport, before: ReadonlyMap<string, Buffer>): Promise<void> {
  const end = await within(300_000, start(interrupted, {}));
  await expectConsistent(interrupted, before, end);
  if (end.status !== 'failed' || end.failed.error !== 'PageConflictError') return;

  // Following the message's advice must make the export work again.
  if (end.failed.message.startsWith('The state of export')) await interrupted.deleteState();
  else
    expect(end.failed.message).toMatch(
      /start with --restart|move it away and start again|Identify the program that wrote it/,
    );
  const objects = await interrupted.objects();
  const again = await within(300_000, start(interrupted, { restart: true, since }));
  expect(again).toMatchObject({ status: 'completed' });
  await expectConsistent(interrupted, objects, again);
}

async function expectConsistent(
  interrupted: InterruptedExport,
  before: ReadonlyMap<string, Buffer>,
  end: ExecutionOutcome,
): Promise<void> {
  const objects = await interrupted.objects();
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
  await expectTrueManifest(JSON.parse(String(objects.get(end.result.manifest ?? ''))) as Manifest, objects);
}

/** Compares every field of the manifest with the service and with the stored objects. */
async function expectTrueManifest(manifest: Manifest, objects: ReadonlyMap<string, Buffer>): Promise<void> {
  const { request } = definition;
  const from = manifest.since as Instant;
  expect(starts).toContain(from);
  const { filter, format, container, size, source } = { ...request, filter: filterSince(request.filter, from) };
  expect(manifest).toMatchObject({ export: exportName, filter, format, container, size, source });
  let totals = { ...zeroTotals, reports: 0 };
  for (const { page, key, bytes, sha256, reports, cursor } of manifest.pages) {
    const begunAt = manifest.startedAt as Instant;
    const pageRequest = { request, since: from, begunAt, cursor: cursor === null ? null : asCursor(cursor), label: '' };
    const { body, ...fetched } = await fetchPage(service, pageRequest);
    expect({ page, bytes, sha256, reports }).toEqual({
      page: totals.pages + 1,
      bytes: body.length,
      sha256: sha256Of(body),
      reports: fetched.reports,
    });
    const object = objects.get(key);
    expect({ key, stored: object?.length }).toEqual({ key, stored: bytes });
    expect(manifest.pages[page]?.cursor ?? null).toBe(fetched.nextCursor);
    totals = { pages: page, reports: totals.reports + (reports ?? 0), bytes: totals.bytes + bytes };
  }
  expect(manifest.totals).toEqual(totals);
  expect(manifest.pages[0]?.cursor).toBeNull();
}

async function within<Result>(ms: number, result: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out after ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([result, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
