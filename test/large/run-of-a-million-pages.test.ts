import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { exportSettingsSchema } from '../../lib/core/settings/settings.ts';
import { mostHistoryEvents } from '../simulation/step-functions/step-functions.ts';
import { startScript } from '../support/child-script.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import type { MemorySample, MillionPagesExported } from './children/export-a-million-pages.ts';
import { bodyOf, cursorTo, reportsOn } from './numbered-pages.ts';
import { placeForManyPages } from './scratch-directory.ts';

const pages = 1_000_000;
const mebibyte = 1024 * 1024;
const mostPayloadBytes = 1_024;
const { iterationsPerExecution } = exportSettingsSchema.parse({ name: 'reports' });

/**
 * From the first 100,000 pages to the last. A number kept for each page would be 8 bytes, so more than 7 MB.
 */
const mostHeapGrowth = 6 * mebibyte;
/** The machine's view is coarser: what is free again is not given back at once. */
const mostResidentGrowth = 32 * mebibyte;

/** The manifest read as it comes: what stands before its pages, and the sums over them. */
interface ManifestRead {
  readonly head: { readonly totals: unknown; readonly run: string };
  readonly sha256: string;
  readonly bytes: number;
  readonly pages: number;
  readonly totals: unknown;
}

describe('a run of a million pages', () => {
  let directory: TemporaryDirectory;
  let told: MillionPagesExported;
  let manifest: ManifestRead;

  beforeAll(async () => {
    directory = await temporaryDirectory(await placeForManyPages());
    // A backstop, should something leak; and a small young generation, so that the machine sees what is used.
    vi.stubEnv('NODE_OPTIONS', '--max-old-space-size=48 --max-semi-space-size=4');
    const child = startScript(
      new URL('children/export-a-million-pages.ts', import.meta.url),
      directory.path,
      `${pages}`,
    );
    vi.unstubAllEnvs();
    const ended = await child.ended;
    if (ended !== 0) throw new Error(`The run came to nothing: it ended with ${ended}`);
    told = JSON.parse(child.lines.at(-1) ?? '') as MillionPagesExported;
    manifest = await readManifest(told.manifest.file);
    tell(told, manifest);
  }, 3_600_000);

  afterAll(() => directory.remove());

  it('is published, every page of it, in order and without a gap', () => {
    expect(told.status).toBe('SUCCEEDED in Completed');
    expect(manifest.pages).toBe(pages);
    expect(manifest.totals).toEqual({ pages, reports: told.result.reports, bytes: told.result.bytes });
    expect(manifest.head).toMatchObject({ run: told.result.run, totals: manifest.totals });
    expect(told.latest).toBe(told.result.manifest);
  });

  it('has the same manifest when it is written again', () => {
    expect(told.manifest.sha256).toEqual([manifest.sha256, manifest.sha256]);
  });

  it('goes on from execution to execution, none of which holds more events than it may', () => {
    expect(told.segments).toBeGreaterThanOrEqual(pages / iterationsPerExecution);
    // A wait counts for two turns.
    expect(told.segments).toBeLessThanOrEqual(Math.ceil((pages + 2 * told.waits) / iterationsPerExecution));
    expect(told.mostEvents).toBeLessThan(mostHistoryEvents);
  });

  it('hands less than 1 KB from state to state, on page 1,000,000 as on page 1', () => {
    expect(told.largestPayload.bytes).toBeLessThan(mostPayloadBytes);
  });

  it('fetches a page again only where it was lost on its way to the store, or to the log', () => {
    const { struck } = told;
    expect(Math.min(...Object.values(struck))).toBeGreaterThan(pages / 250);
    // What was stored and not logged is asked for again, unless an execution began with it.
    const lost = pages + struck['lost-before-storing'];
    expect(told.fetched).toBeGreaterThan(lost);
    expect(told.fetched).toBeLessThanOrEqual(lost + struck['lost-after-storing']);
    // Asked for again, it may be lost once more behind the store: it is adopted all the same, once.
    expect(told.adopted).toBeLessThanOrEqual(struck['lost-after-storing']);
    expect(told.adopted).toBeGreaterThan(struck['lost-after-storing'] * 0.95);
    expect(told.waits).toBe(struck.throttled);
    // And once for the pointer to the manifest. Where a stored page is asked for again and the service is away, it is adopted.
    const failures = Object.values(struck).reduce((sum, count) => sum + count) - struck.throttled;
    expect(told.retries).toBeLessThanOrEqual(failures + 1);
    expect(told.retries).toBeGreaterThan(failures * 0.99);
  });

  it('takes no more memory at its end than at page 100,000, nor while its manifest is written', () => {
    const [, before, , after] = told.memory as [MemorySample, MemorySample, MemorySample, MemorySample];
    expect([before.page, after.page]).toEqual([pages / 10, pages]);
    expect(after.heapBytes - before.heapBytes).toBeLessThan(mostHeapGrowth);
    expect(after.residentBytes - before.residentBytes).toBeLessThan(mostResidentGrowth);
    expect(told.mostResidentBytes - before.residentBytes).toBeLessThan(mostResidentGrowth);
  });
});

/** @throws where a page is not the one that comes next, or not as the service sent it */
async function readManifest(file: string): Promise<ManifestRead> {
  const hash = createHash('sha256');
  let bytes = 0;
  const stream = createReadStream(file).on('data', (chunk) => {
    hash.update(chunk);
    bytes += chunk.length;
  });
  let head = '';
  let tail = '';
  const sums = { pages: 0, reports: 0, bytes: 0 };
  for await (const line of createInterface({ input: stream })) {
    if (!line.startsWith('    {"page":')) {
      if (sums.pages === 0) head += line;
      else tail += line;
      continue;
    }
    const page = sums.pages + 1;
    const body = bodyOf(page);
    const { key, ...facts } = JSON.parse(line.replace(/,$/, '')) as { readonly key: string };
    const expected = {
      page,
      bytes: body.length,
      sha256: createHash('sha256').update(body).digest('hex'),
      reports: reportsOn(page),
      cursor: page === 1 ? null : cursorTo(page),
    };
    if (
      !key.endsWith(`/page-${String(page).padStart(6, '0')}.xml`) ||
      JSON.stringify(facts) !== JSON.stringify(expected)
    ) {
      throw new Error(`Line ${page} of the pages of ${file} is ${line}`);
    }
    sums.pages = page;
    sums.reports += reportsOn(page);
    sums.bytes += body.length;
  }
  return { head: JSON.parse(head + tail), sha256: hash.digest('hex'), bytes, pages: sums.pages, totals: sums };
}

const shown = (bytes: number) => `${(bytes / mebibyte).toFixed(1)} MiB`;

function tell({ memory, ...told }: MillionPagesExported, { bytes }: ManifestRead): void {
  const lines = [
    ...memory.map(
      ({ page, residentBytes, heapBytes, seconds }) =>
        `page ${page.toLocaleString('en')}: ${shown(residentBytes)} resident, ${shown(heapBytes)} in use, ${seconds.toFixed(0)} s`,
    ),
    `at most ${shown(told.mostResidentBytes)} resident, the manifest of ${shown(bytes)} included`,
    `${told.segments} executions of up to ${told.mostEvents} events, in ${told.virtualDays.toFixed(1)} simulated days`,
    `${told.retries} retries, ${told.waits} waits; at most ${told.largestPayload.bytes} bytes travelled, in ${told.largestPayload.of}`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}
