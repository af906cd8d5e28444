import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { exportSettingsSchema } from '../../lib/settings/settings.ts';
import { maxHistoryEvents } from '../simulation/step-functions/step-functions.ts';
import { startScript } from '../support/process/child-script.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import type { MemorySample, LongRunResult } from './children/export-long-run.ts';
import { bodyOf, cursorTo, reportsOn } from './numbered-pages.ts';
import { findScratchDirectory } from './scratch-directory.ts';

/** What holds of a quarter of a million holds of a million, which takes four times as long: LONG_RUN_PAGES=1000000. */
const pages = Number(process.env.LONG_RUN_PAGES ?? 250_000);
const mebibyte = 1024 * 1024;
const maxPayloadBytes = 1_024;
const { iterationsPerExecution } = exportSettingsSchema.parse({ name: 'reports' });

/** From the first tenth to the last page. One number kept per page would be 8 bytes each: 7.2 bytes for each page of the run. */
const maxHeapGrowth = 6 * pages;
/**
 * Coarser, as V8 does not return free memory at once. It includes 8 MB for the digests of the cursors, and the listing of the store
 * beside the reading of the log.
 */
const maxResidentGrowth = 40 * mebibyte;

/** A manifest, read as a stream. */
interface ManifestSummary {
  /** All but its pages. */
  readonly header: { readonly totals: unknown; readonly run: string };
  readonly sha256: string;
  readonly bytes: number;
  /** The sums over its pages. */
  readonly totals: { readonly pages: number; readonly reports: number; readonly bytes: number };
}

describe(`a run of ${pages.toLocaleString('en')} pages`, () => {
  let directory: TemporaryDirectory;
  let exported: LongRunResult;
  let manifest: ManifestSummary;

  beforeAll(async () => {
    directory = await temporaryDirectory(await findScratchDirectory());
    // The limit stops a leak; the small young generation keeps garbage out of the resident memory.
    vi.stubEnv('NODE_OPTIONS', '--max-old-space-size=48 --max-semi-space-size=4');
    const child = startScript(new URL('children/export-long-run.ts', import.meta.url), directory.path, `${pages}`);
    vi.unstubAllEnvs();
    const exit = await child.ended;
    if (exit !== 0) throw new Error(`The export ended with ${exit}`);
    exported = JSON.parse(child.lines.at(-1) ?? '') as LongRunResult;
    manifest = await readManifest(exported.manifest.file);
    printFigures(exported, manifest);
  });

  afterAll(() => directory.remove());

  it('is published with every page, in order and without gaps', () => {
    expect(exported.status).toBe('SUCCEEDED in Completed');
    expect(manifest.totals).toEqual({ pages, reports: exported.result.reports, bytes: exported.result.bytes });
    expect(manifest.header).toMatchObject({ run: exported.result.run, totals: manifest.totals });
    expect(exported.latest).toBe(exported.result.manifest);
  });

  it('has the same manifest when it is finished again', () => {
    expect(exported.manifest.sha256).toEqual([manifest.sha256, manifest.sha256]);
  });

  it('continues from execution to execution, each within the limit of its history', () => {
    expect(exported.executions).toBeGreaterThanOrEqual(pages / iterationsPerExecution);
    // A wait takes up to two iterations.
    expect(exported.executions).toBeLessThanOrEqual(Math.ceil((pages + 2 * exported.waits) / iterationsPerExecution));
    expect(exported.maxHistoryEvents).toBeLessThan(maxHistoryEvents);
  });

  it('passes less than 1 KB from state to state, on the last page as on the first', () => {
    expect(exported.largestPayload.bytes).toBeLessThan(maxPayloadBytes);
  });

  it('fetches a page again only if it was lost before it was stored or logged', () => {
    const { failures } = exported;
    expect(Math.min(...Object.values(failures))).toBeGreaterThan(pages / 250);
    // A page that was stored but not logged is fetched again, unless an execution begins with it.
    const minFetched = pages + failures['lost-before-storing'];
    expect(exported.fetched).toBeGreaterThan(minFetched);
    expect(exported.fetched).toBeLessThanOrEqual(minFetched + failures['lost-after-storing']);
    // It may be lost again after it was stored; it is adopted once all the same.
    expect(exported.adopted).toBeLessThanOrEqual(failures['lost-after-storing']);
    expect(exported.adopted).toBeGreaterThan(failures['lost-after-storing'] * 0.95);
    expect(exported.waits).toBe(failures.throttled);
    // Plus one for the pointer. A few failures need no retry: if the service fails for a page that is stored, it is adopted.
    const failed = Object.values(failures).reduce((sum, count) => sum + count) - failures.throttled;
    expect(exported.retries).toBeLessThanOrEqual(failed + 1);
    expect(exported.retries).toBeGreaterThan(failed * 0.99);
  });

  it('needs no more memory at its end than after a tenth of its pages, nor while the manifest is written', () => {
    const [, early, , late] = exported.memory as [MemorySample, MemorySample, MemorySample, MemorySample];
    expect([early.page, late.page]).toEqual([pages / 10, pages]);
    expect(late.heapBytes - early.heapBytes).toBeLessThan(maxHeapGrowth);
    expect(late.residentBytes - early.residentBytes).toBeLessThan(maxResidentGrowth);
    expect(exported.maxResidentBytes - early.residentBytes).toBeLessThan(maxResidentGrowth);
  });
});

/** @throws Error if a page is missing, out of order, or not as the service sent it */
async function readManifest(file: string): Promise<ManifestSummary> {
  const hash = createHash('sha256');
  let bytes = 0;
  const stream = createReadStream(file).on('data', (chunk) => {
    hash.update(chunk);
    bytes += chunk.length;
  });
  let beforePages = '';
  let afterPages = '';
  const totals = { pages: 0, reports: 0, bytes: 0 };
  for await (const line of createInterface({ input: stream })) {
    if (!line.startsWith('    {"page":')) {
      if (totals.pages === 0) beforePages += line;
      else afterPages += line;
      continue;
    }
    const page = totals.pages + 1;
    const body = bodyOf(page);
    const { key, ...fields } = JSON.parse(line.replace(/,$/, '')) as { readonly key: string };
    const expected = {
      page,
      bytes: body.length,
      sha256: createHash('sha256').update(body).digest('hex'),
      reports: reportsOn(page),
      cursor: page === 1 ? null : cursorTo(page),
    };
    if (
      !key.endsWith(`/page-${String(page).padStart(6, '0')}.xml`) ||
      JSON.stringify(fields) !== JSON.stringify(expected)
    ) {
      throw new Error(`${file} lists as page ${page}: ${line}`);
    }
    totals.pages = page;
    totals.reports += reportsOn(page);
    totals.bytes += body.length;
  }
  return { header: JSON.parse(beforePages + afterPages), sha256: hash.digest('hex'), bytes, totals };
}

const inMebibytes = (bytes: number) => `${(bytes / mebibyte).toFixed(1)} MiB`;

function printFigures({ memory, ...exported }: LongRunResult, { bytes }: ManifestSummary): void {
  const lines = [
    ...memory.map(
      ({ page, residentBytes, heapBytes, seconds }) =>
        `page ${page.toLocaleString('en')}: ${inMebibytes(residentBytes)} resident, ${inMebibytes(heapBytes)} heap, ${seconds.toFixed(0)} s`,
    ),
    `peak ${inMebibytes(exported.maxResidentBytes)} resident, including the manifest of ${inMebibytes(bytes)}`,
    `${exported.executions} executions of up to ${exported.maxHistoryEvents} events, in ${exported.virtualDays.toFixed(1)} simulated days`,
    `${exported.retries} retries, ${exported.waits} waits; largest payload ${exported.largestPayload.bytes} bytes, in ${exported.largestPayload.of}`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}
