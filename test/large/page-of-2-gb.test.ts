import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { startScript } from '../support/process/child-script.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import type { LargePageResult } from './children/export-large-page.ts';
import {
  digestLargePage,
  type Format,
  largePageBytes,
  reportsInLargePage,
  startLargePageService,
} from './large-page.ts';

const mebibyte = 1024 * 1024;
const maxGrowth = 256 * mebibyte;

describe('a page of 2 GB', () => {
  beforeAll(async () => {
    const { bavail, bsize } = await statfs(tmpdir());
    const freeBytes = bavail * bsize;
    const requiredBytes = largePageBytes + 256 * mebibyte;
    if (freeBytes < requiredBytes) {
      throw new Error(
        `A page of 2 GB needs ${inMebibytes(requiredBytes)} in ${tmpdir()}, which has ${inMebibytes(freeBytes)} free. ` +
          'Free some space, or set TMPDIR to another directory',
      );
    }
  });

  it('of XML is stored in S3 byte for byte, with at most 256 MB of memory', async () => {
    const format = 'xml';
    const { exported } = await exportLargePage({ format, target: 's3' });
    printFigures('2 GiB of XML into S3', exported);

    const { parts, sent } = exported;
    const expected = digestLargePage(
      format,
      parts.map(({ bytes }) => bytes),
    );
    expect(exported).toMatchObject({ next: 'finish', spooled: [] });
    const reports = reportsInLargePage(format);
    expect(exported.logged).toMatchObject({ page: 2, sha256: expected.sha256, bytes: largePageBytes, reports });
    expect(parts.map((part) => part.sha256)).toEqual(expected.parts);
    expect(parts.reduce((sum, part) => sum + part.bytes, 0)).toBe(largePageBytes);
    // The tiny page, and the large one in one upload. Nothing is repeated or left unfinished.
    expect(countOf(sent)).toEqual({
      HeadObject: 1,
      PutObject: 1,
      CreateMultipartUpload: 1,
      UploadPart: parts.length,
      CompleteMultipartUpload: 1,
    });
    expect(exported.peakBytes - exported.idleBytes).toBeLessThanOrEqual(maxGrowth);
  });

  it('of JSON is stored in a directory byte for byte, with at most 256 MB of memory', async () => {
    await using pages = await temporaryDirectory();
    const { exported } = await exportLargePage({ format: 'json', target: pages.path });
    printFigures('2 GiB of JSON into a directory', exported);

    const { sha256 } = digestLargePage('json', []);
    expect(exported).toMatchObject({ next: 'finish', spooled: [] });
    const reports = reportsInLargePage('json');
    expect(exported.logged).toMatchObject({ page: 2, sha256, bytes: largePageBytes, reports });
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(join(pages.path, exported.logged?.key ?? ''))) hash.update(chunk);
    expect(hash.digest('hex')).toBe(sha256);
    expect(await readdir(join(pages.path, '.incoming'))).toEqual([]);
    expect(exported.peakBytes - exported.idleBytes).toBeLessThanOrEqual(maxGrowth);
  });
});

interface LargePage {
  readonly format: Format;
  /** `s3`, or a directory. */
  readonly target: string;
}

async function exportLargePage({ format, target }: LargePage) {
  await using service = await startLargePageService();
  await using temporary = await temporaryDirectory();
  const script = new URL('children/export-large-page.ts', import.meta.url);
  await using child = startScript(script, `${service.url}/${format}`, format, target, temporary.path);
  expect(await child.ended).toBe(0);
  return { exported: JSON.parse(child.lines.at(-1) ?? '') as LargePageResult };
}

function countOf(requests: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const request of requests) counts[request] = (counts[request] ?? 0) + 1;
  return counts;
}

const inMebibytes = (bytes: number) => `${(bytes / mebibyte).toFixed(0)} MiB`;

function printFigures(label: string, { idleBytes, peakBytes, maxRssBytes, seconds }: LargePageResult): void {
  process.stdout.write(
    `${label}: idle ${inMebibytes(idleBytes)}, peak ${inMebibytes(peakBytes)}, growth ${inMebibytes(peakBytes - idleBytes)} ` +
      `(maxRSS ${inMebibytes(maxRssBytes)}), ${seconds.toFixed(0)} s\n`,
  );
}
