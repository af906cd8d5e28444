import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { exportSettingsSchema } from '../../lib/settings/settings.ts';
import { startScript } from '../support/process/child-script.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import type { MemorySample, LongRunResult } from './children/export-long-run.ts';
import { bodyOf, cursorTo, reportsOn } from './numbered-pages.ts';

/** A quarter of a million pages show the same as a million, which takes four times as long: LONG_RUN_PAGES=1000000. */
const pages = Number(process.env.LONG_RUN_PAGES ?? 250_000);
const mebibyte = 1024 * 1024;
const { iterationsPerExecution } = exportSettingsSchema.parse({ name: 'reports' });

/** From the first tenth to the last page. One number kept per page would be 7.2 bytes for each page of the run. */
const maxHeapGrowth = 6 * pages;
/**
 * Coarser, as V8 does not return free memory at once. It includes 8 MB for the digests of the cursors, and the listing
 * of the store beside the reading of the log.
 */
const maxResidentGrowth = 40 * mebibyte;

/** A manifest, read as a stream. */
interface ManifestSummary {
  /** All but its pages. */
  readonly header: { readonly totals: unknown; readonly run: string };
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
    manifest = await readManifest(join(directory.path, exported.result.manifest ?? ''));
    printFigures(exported);
  });

  afterAll(() => directory.remove());

  it('is published with every page, in order and without gaps', () => {
    expect(manifest.totals).toEqual({ pages, reports: exported.result.reports, bytes: exported.result.bytes });
    expect(manifest.header).toMatchObject({ run: exported.result.run, totals: manifest.totals });
    expect(exported.fetched).toBe(pages);
  });

  it('continues from execution to execution', () => {
    expect(exported.executions).toBeGreaterThanOrEqual(pages / (8 * iterationsPerExecution));
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
  let beforePages = '';
  let afterPages = '';
  const totals = { pages: 0, reports: 0, bytes: 0 };
  for await (const line of createInterface({ input: createReadStream(file) })) {
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
  return { header: JSON.parse(beforePages + afterPages), totals };
}

const inMebibytes = (bytes: number) => `${(bytes / mebibyte).toFixed(1)} MiB`;

function printFigures({ memory, executions, maxResidentBytes }: LongRunResult): void {
  for (const { page, residentBytes, heapBytes, seconds } of memory) {
    process.stdout.write(
      `page ${page.toLocaleString('en')}: ${inMebibytes(residentBytes)} resident, ${inMebibytes(heapBytes)} heap, ${seconds.toFixed(0)} s\n`,
    );
  }
  process.stdout.write(`peak ${inMebibytes(maxResidentBytes)} resident, in ${executions} executions\n`);
}

/** About 1,100 bytes per page in the log and 260 in the manifest, and SQLite's journal. */
const requiredBytes = 2_048 * mebibyte;

/**
 * Where the page log and the manifest are written: into memory if the machine has a file system there, since a million
 * commits to a disk take half an hour and power loss is not tested here. @throws Error if no directory has enough space
 */
async function findScratchDirectory(): Promise<string> {
  const candidates = ['/dev/shm', tmpdir()];
  for (const directory of candidates) {
    const { bavail, bsize } = await statfs(directory).catch(() => ({ bavail: 0, bsize: 0 }));
    if (bavail * bsize >= requiredBytes) return directory;
  }
  throw new Error(
    `The page log of a million pages needs ${requiredBytes / mebibyte} MiB in ${candidates.join(' or ')}. ` +
      'Free some space, or set TMPDIR to another directory',
  );
}
