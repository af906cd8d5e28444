/** A ZIP archive is accepted if its entries are what its directory lists, and have its CRCs. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { strFromU8, unzipSync, Zip, ZipDeflate, zipSync } from 'fflate';
import { describe, expect, it } from 'vitest';
import { createZipCheck } from '../../../lib/service/formats/zip/zip.ts';
import { cases, fc } from '../../support/property.ts';
import { bytewise, cut } from '../../support/service/checked-pages.ts';

/** The problem of the archive in these pieces; undefined: it is accepted. */
async function problemOf(...pieces: readonly Uint8Array[]): Promise<string | undefined> {
  const check = createZipCheck();
  for (const piece of pieces) await check.push(piece);
  const end = await check.end();
  return typeof end === 'string' ? end : undefined;
}

const archives = readFileSync(join(import.meta.dirname, 'archives.txt'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => line.split(' | '))
  .map(([program = '', expected = '', base64 = '']) => ({ program, expected, bytes: Buffer.from(base64, 'base64') }));

/** An archive as a service writes it that does not know yet how long an entry will be. */
function streamed(entries: Readonly<Record<string, Uint8Array>>): Buffer {
  const chunks: Uint8Array[] = [];
  const zip = new Zip((_, chunk) => chunks.push(chunk));
  for (const [name, content] of Object.entries(entries)) {
    const entry = new ZipDeflate(name);
    zip.add(entry);
    entry.push(content, true);
  }
  zip.end();
  return Buffer.concat(chunks);
}

/** Their names differ in more than one byte. */
const entries = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.string({ unit: fc.constantFrom('a', 'b', '\n'), maxLength: 300 }).map((text) => Buffer.from(text)),
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map((contents) => Object.fromEntries(contents.map((content, at) => ['äbcd'.charAt(at).repeat(3), content])));
const archive = fc
  .tuple(entries, fc.constantFrom(0, 6, 'streamed'))
  .map(([content, level]) =>
    level === 'streamed' ? streamed(content) : Buffer.from(zipSync(content, { level: level as 0 | 6 })),
  );

const contentsOf = (bytes: Uint8Array) =>
  Object.values(unzipSync(bytes))
    .map((content) => strFromU8(content, true))
    .toSorted();

describe('an archive of', () => {
  it.each(archives)('$program: $expected', async ({ expected, bytes }) => {
    for (const pieces of [[bytes], bytewise(bytes)]) {
      expect((await problemOf(...pieces)) ?? 'accepted').toContain(expected);
    }
  });
});

describe('any archive', () => {
  it('is accepted, however it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(archive, fc.array(fc.nat(), { maxLength: 10 }), async (bytes, seeds) => {
        expect(await problemOf(...cut(bytes, seeds))).toBeUndefined();
      }),
    );
  });

  it('is refused when it is truncated, or continues', async () => {
    await fc.assert(
      fc.asyncProperty(archive, fc.nat(), async (bytes, seed) => {
        expect(await problemOf(bytes.subarray(0, seed % bytes.length))).toMatch(/not complete|empty/);
        expect(await problemOf(bytes, Buffer.of(seed))).toBe('it continues after its end');
        expect(await problemOf(Buffer.concat([bytes, Buffer.of(seed)]))).toBe('it continues after its end');
      }),
    );
  });

  it('with another byte is refused, or has the same contents', async () => {
    await fc.assert(
      fc.asyncProperty(archive, fc.nat(), fc.integer({ min: 1, max: 255 }), async (bytes, seed, change) => {
        const damaged = Buffer.from(bytes);
        const at = seed % bytes.length;
        damaged[at] = (damaged[at] ?? 0) ^ change;
        const problem = await problemOf(damaged);
        expect(problem ?? contentsOf(damaged)).toEqual(problem ?? contentsOf(bytes));
      }),
      { numRuns: cases(2000) },
    );
  });
});

describe('a damaged archive', () => {
  const text = Buffer.from('id,text\n1,one\n2,two\n');
  const stored = Buffer.from(zipSync({ 'a.csv': text, 'b.csv': text }, { level: 0 }));
  const directory = stored.indexOf('PK\u0001\u0002');
  const second = stored.indexOf('PK\u0003\u0004', 4);
  const changed = (bytes: Uint8Array, at: number, value: number) => {
    const copy = Buffer.from(bytes);
    copy[at] = value;
    return copy;
  };
  const deflated = Buffer.from(zipSync({ 'a.csv': Buffer.from('abcdefgh'.repeat(20)) }));
  const inStream = streamed({ 'a.csv': text });

  it.each([
    ['another content', changed(stored, stored.indexOf('two'), 0x54), 'the CRC of entry 1 is not that of its content'],
    [
      'another CRC after the content',
      changed(inStream, inStream.indexOf('PK\u0007\u0008') + 4, 0),
      'the CRC of entry 1 is not that of its content',
    ],
    ['another length', changed(deflated, 22, 1), 'entry 1 has 160 bytes, and its header says 1'],
    ['a block of no kind', changed(deflated, 35, 0x07), 'entry 1 is damaged: invalid block type'],
    ['an entry that is too short', changed(deflated, 18, 5), 'entry 1 is damaged: unexpected end of file'],
    ['an entry that is too long', changed(deflated, 18, 100), 'entry 1 is damaged: its content ends after'],
    ['another CRC in the directory', changed(stored, directory + 16, 0), 'its directory does not list exactly'],
    ['another place in the directory', changed(stored, directory + 42, 1), 'its directory does not list exactly'],
    ['an entry that is not listed', withoutSecondEntry(), 'its directory does not list exactly its entries'],
    ['another method in the directory', changed(stored, directory + 10, 8), 'its directory does not list exactly'],
    ['fewer entries on this disk', changed(stored, stored.length - 14, 1), 'its directory does not list exactly'],
    ['no directory', stored.subarray(0, directory), 'it is not complete'],
    ['text between entries', Buffer.concat([stored.subarray(0, second), text]), 'it has no record at byte'],
    ['a part of several', changed(stored, stored.length - 18, 1), 'it is a part of a split archive'],
    ['text before it', Buffer.concat([text, stored]), 'it does not begin with an entry'],
    ['an error document', Buffer.from('{"error": "expired"}'), 'it does not begin with an entry'],
    ['nothing', Buffer.of(), 'the body is empty'],
  ])('with %s is refused', async (_, bytes, problem) => {
    expect(await problemOf(bytes)).toContain(problem);
  });

  /** The first entry twice: once with its directory, and once unlisted before it. */
  function withoutSecondEntry(): Buffer {
    const one = Buffer.from(zipSync({ 'a.csv': text }, { level: 0 }));
    const entry = one.subarray(0, one.indexOf('PK\u0001\u0002'));
    const rest = Buffer.from(one.subarray(entry.length));
    rest.writeUInt32LE(entry.length, 42);
    rest.writeUInt32LE(entry.length * 2, rest.indexOf('PK\u0005\u0006') + 16);
    return Buffer.concat([entry, entry, rest]);
  }

  it('that expands as only an attack does is refused', async () => {
    const bomb = zipSync({ 'a.csv': new Uint8Array(32 * 1024 * 1024) });
    expect(await problemOf(...cut(Buffer.from(bomb), [10_000, 20_000]))).toContain('more than 500 times its size');
  });

  it('has the first of its problems, whatever follows', async () => {
    const check = createZipCheck();
    const problem = await check.push(text);
    expect(problem).toBe('it does not begin with an entry');
    expect([await check.push(stored), await check.end()]).toEqual([problem, problem]);
  });
});
