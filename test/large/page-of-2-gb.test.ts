import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ChildScript, startScript } from '../support/child-script.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import type { Swallowed } from './children/discarding-s3.ts';
import type { LargePageExported } from './children/export-large-page.ts';
import type { Delivery } from './children/large-page-service.ts';
import { digestLargePage, type LargePageDigest, largePageBytes, reportsInLargePage } from './large-page.ts';

const mebibyte = 1024 * 1024;
const mostGrowth = 256 * mebibyte;

const script = (name: string) => new URL(`children/${name}.ts`, import.meta.url);

describe('a page of 2 GB', () => {
  let service: ChildScript;

  beforeAll(async () => {
    const { bavail, bsize } = await statfs(tmpdir());
    const room = bavail * bsize;
    const wanted = largePageBytes + 256 * mebibyte;
    if (room < wanted) {
      throw new Error(
        `A page of 2 GB waits in ${tmpdir()}, which has ${shown(room)} free and needs ${shown(wanted)}. ` +
          'Make room there, or name another directory with TMPDIR',
      );
    }
    service = startScript(script('send-large-pages'));
    await service.said(/^http/);
  });

  afterAll(() => service.kill());

  it.each<[string, Delivery]>([
    ['with its length', 'length'],
    ['in chunks', 'chunked'],
  ])('%s lies in S3 byte for byte, and took no more than 256 MB of memory', async (how, delivery) => {
    await using s3 = startScript(script('swallow-objects'));
    const { exported } = await exportLargePage(service, delivery, await addressOf(s3));
    tell(`2 GiB ${how} into S3`, exported);

    expect(exported).toMatchObject({ next: 'finish', spooled: [] });
    const { asked, objects, unfinished } = await swallowedBy(s3);
    const object = objects[`pages/${exported.logged?.key}`];
    const parts = object?.parts ?? [];
    const { sha256, pieces } = digested(parts.map(({ bytes }) => bytes));
    const sent = { bytes: largePageBytes, reports: reportsInLargePage };
    expect(exported.logged).toMatchObject({ page: 2, sha256, revision: object?.etag.slice(1, -1), ...sent });
    expect(object).toMatchObject({
      bytes: largePageBytes,
      metadata: { page: '2', sha256, bytes: String(sent.bytes), reports: String(sent.reports), 'last-page': 'true' },
    });
    expect(parts.map((part) => part.sha256)).toEqual(pieces);
    expect(parts.length).toBeGreaterThan(1);
    // The tiny page, and the large one in one upload; nothing was refused, repeated or left behind.
    expect(tally(asked)).toEqual({
      'HeadObject 404': 1,
      'PutObject 200': 1,
      'CreateMultipartUpload 200': 1,
      'UploadPart 200': parts.length,
      'CompleteMultipartUpload 200': 1,
    });
    expect(unfinished).toBe(0);
    expect(exported.peakBytes - exported.idleBytes).toBeLessThanOrEqual(mostGrowth);
  });

  it.each<[string, Delivery, string, RegExp]>([
    ['with its length told', 'cut', 'ServiceUnavailableError', /closed the connection after 21\d{8} bytes/],
    ['with nothing to tell by but its last tag', 'cut-unseen', 'ContractError', /no whole well-formed XML document/],
  ])('that breaks off at its very end, %s, is not even begun to be uploaded', async (how, delivery, name, message) => {
    await using s3 = startScript(script('swallow-objects'));
    const { exported } = await exportLargePage(service, delivery, await addressOf(s3));
    tell(`2 GiB less 5 bytes, ${how}, into S3`, exported);

    expect(exported).toMatchObject({ error: { name, message: expect.stringMatching(message) as string }, spooled: [] });
    expect(exported.logged?.page).toBe(1);
    const { asked, objects } = await swallowedBy(s3);
    expect(Object.keys(objects)).toEqual([`pages/${exported.logged?.key}`]);
    // The second look is for what an attempt before may have stored, as the service gives no page.
    expect(tally(asked)).toEqual({ 'HeadObject 404': 2, 'PutObject 200': 1 });
    expect(exported.peakBytes - exported.idleBytes).toBeLessThanOrEqual(mostGrowth);
  });

  it('lies in a directory byte for byte, and took no more memory than that', async () => {
    await using pages = await temporaryDirectory();
    const { exported } = await exportLargePage(service, 'length', pages.path);
    tell('2 GiB into a directory', exported);

    const { sha256 } = digested([]);
    expect(exported).toMatchObject({ next: 'finish', spooled: [] });
    expect(exported.logged).toMatchObject({ page: 2, sha256, bytes: largePageBytes, reports: reportsInLargePage });
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(join(pages.path, exported.logged?.key ?? ''))) hash.update(chunk);
    expect(hash.digest('hex')).toBe(sha256);
    expect(await readdir(join(pages.path, '.incoming'))).toEqual([]);
    expect(exported.peakBytes - exported.idleBytes).toBeLessThanOrEqual(mostGrowth);
  });

  it('that breaks off at its very end leaves nothing in a directory', async () => {
    await using pages = await temporaryDirectory();
    const { exported } = await exportLargePage(service, 'cut', pages.path);
    tell('2 GiB less 5 bytes, with its length told, into a directory', exported);

    expect(exported).toMatchObject({ error: { name: 'ServiceUnavailableError' }, spooled: [] });
    expect(exported.logged?.page).toBe(1);
    const files = await readdir(pages.path, { recursive: true });
    expect(files.filter((file) => file.includes('page-'))).toEqual([expect.stringMatching(/\/page-000001\.xml$/)]);
    const { key = '' } = exported.logged ?? {};
    using metadata = new DatabaseSync(join(pages.path, dirname(key), '.page-metadata.sqlite'));
    expect(metadata.prepare('SELECT key FROM page_metadata').all()).toEqual([{ key }]);
    expect(await readdir(join(pages.path, '.incoming'))).toEqual([]);
    expect(exported.peakBytes - exported.idleBytes).toBeLessThanOrEqual(mostGrowth);
  });
});

async function exportLargePage(service: ChildScript, delivery: Delivery, target: string) {
  await using temporary = await temporaryDirectory();
  const serviceUrl = `${await addressOf(service)}/${delivery}`;
  await using child = startScript(script('export-large-page'), serviceUrl, target, temporary.path);
  expect(await child.ended).toBe(0);
  return { exported: JSON.parse(child.lines.at(-1) ?? '') as LargePageExported };
}

async function addressOf(child: ChildScript): Promise<string> {
  await child.said(/^http/);
  return child.lines[0] ?? '';
}

async function swallowedBy(s3: ChildScript): Promise<Swallowed> {
  const answer = await fetch(`${await addressOf(s3)}/`);
  return (await answer.json()) as Swallowed;
}

/** Once for each way of cutting the page: it takes seconds. */
const digests = new Map<string, LargePageDigest>();
function digested(sizes: readonly number[]): LargePageDigest {
  const known = digests.get(sizes.join()) ?? digestLargePage(sizes);
  digests.set(sizes.join(), known);
  return known;
}

function tally(asked: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const each of asked) counts[each] = (counts[each] ?? 0) + 1;
  return counts;
}

const shown = (bytes: number) => `${(bytes / mebibyte).toFixed(0)} MiB`;

function tell(what: string, { idleBytes, peakBytes, maxRssBytes, seconds }: LargePageExported): void {
  process.stdout.write(
    `${what}: idle ${shown(idleBytes)}, peak ${shown(peakBytes)}, so ${shown(peakBytes - idleBytes)} more ` +
      `(maxRSS ${shown(maxRssBytes)}), ${seconds.toFixed(0)} s\n`,
  );
}
