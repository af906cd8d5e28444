/** How bodies in gzip are decoded, and which ones are refused (docs/service-contract.md, section 2.3). */

import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { gunzip, gunzipFile } from '../../../lib/service/client/response/gzip.ts';
import { collect } from '../../support/builders.ts';
import { cases, fc, test } from '../../support/property.ts';
import { chunk } from '../../support/service/raw-server.ts';
import { anError, anErrorContext, failureFrom, pageRequest } from '../../support/service/service-client.ts';

const context = anErrorContext();
const mebibyte = 1024 * 1024;
const document = `<reports>${'<report id="1">Grüße</report><report/>'.repeat(5_000)}</reports>`;

/** The chunks as a source, with a count of those that were read. */
function sourceOf(chunks: readonly Uint8Array[]) {
  const source = {
    read: 0,
    next: async (): Promise<IteratorResult<Uint8Array>> => {
      const value = chunks[source.read];
      if (value === undefined) return { done: true, value: undefined };
      source.read += 1;
      return { done: false, value };
    },
  };
  return source;
}

async function decoded(...chunks: readonly Uint8Array[]): Promise<Buffer> {
  return Buffer.concat(await collect(gunzip(context, sourceOf(chunks).next)));
}

const cut = (bytes: Buffer, ...offsets: readonly number[]): Buffer[] =>
  [0, ...offsets].map((offset, index) => bytes.subarray(offset, offsets[index] ?? bytes.length));

const flipped = (bytes: Buffer, offset: number, mask = 0xff): Buffer => {
  const changed = Buffer.from(bytes);
  const at = offset < 0 ? bytes.length + offset : offset;
  changed.writeUInt8(changed.readUInt8(at) ^ mask, at);
  return changed;
};

const truncated = anError('ServiceUnavailableError', 'without its end');
const invalid = (problem: string) => anError('ContractError', problem);
const continues = invalid('it continues after its end');

describe('a body', () => {
  const body = gzipSync(document);
  const empty = gzipSync('');

  it.each<[string, Buffer]>([
    ['a second one', body],
    ['a second one without content', empty],
    ['zeros', Buffer.alloc(9)],
    ['a byte', Buffer.from('x')],
    ['text', Buffer.from('<reports/>')],
  ])('is invalid if it is followed by %s, in the same chunk or in another', async (_, more) => {
    await expect(decoded(Buffer.concat([body, more]))).rejects.toMatchObject(continues);
    await expect(decoded(body, more)).rejects.toMatchObject(continues);
    await expect(decoded(...cut(Buffer.concat([body, more]), body.length - 3))).rejects.toMatchObject(continues);
  });

  it('is invalid if more arrives when the decoder has been read to its end', async () => {
    const chunks = [gzipSync('<reports/>'), gzipSync('<more/>')];
    const next = async () => {
      if (chunks.length === 1) await pause(20);
      const value = chunks.shift();
      return value === undefined ? { done: true as const, value } : { done: false as const, value };
    };
    await expect(collect(gunzip(context, next))).rejects.toMatchObject(continues);
    // An error event without a listener would end the process only after this.
    await pause(20);
  });

  it('passes on an error of the connection unchanged', async () => {
    const reason = { some: 'reason' };
    const chunks = cut(body, 40);
    const next = async () => {
      const value = chunks.shift();
      if (value === undefined) throw reason;
      return { done: false, value };
    };
    await expect(collect(gunzip(context, next))).rejects.toBe(reason);
  });

  it('is not read before it is asked for, and not far ahead', async () => {
    const chunks = cut(gzipSync(randomBytes(4 * mebibyte)), ...Array.from({ length: 255 }, (_, n) => (n + 1) * 16_384));
    const source = sourceOf(chunks);
    const reader = gunzip(context, source.next);
    expect(source.read).toBe(0);
    await reader.next();
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    expect(source.read).toBeLessThan(40);
    await reader.return();
  });

  it('is refused if it expands as only an attack does, long before its end', async () => {
    const bomb = gzipSync(Buffer.alloc(32 * mebibyte));
    let bytes = 0;
    const reading = async () => {
      for await (const part of gunzip(context, sourceOf([bomb]).next)) bytes += part.length;
    };
    await expect(reading()).rejects.toMatchObject(invalid('expands to more than 500 times its size'));
    expect(bytes).toBeLessThanOrEqual(16 * mebibyte);
  });

  it('may have any ratio if it is small', async () => {
    const zeros = Buffer.alloc(16 * mebibyte);
    expect(await decoded(gzipSync(zeros))).toHaveLength(zeros.length);
  });

  it.each([
    ['its checksum', -8, 'incorrect data check'],
    ['its length', -1, 'incorrect length check'],
    ['its magic number', 0, 'incorrect header'],
  ])('is invalid if %s differs, at byte %i', async (_, offset, problem) => {
    await expect(decoded(flipped(body, offset))).rejects.toMatchObject(invalid(problem));
  });

  it('is unavailable if its header does not end', async () => {
    const header = Buffer.from(body.subarray(0, 10));
    header[3] = 8;
    await expect(decoded(header, Buffer.alloc(100_000, 'x'))).rejects.toMatchObject(truncated);
  });
});

describe('a compressed page', () => {
  it('is limited by its encoded size, too: an endless one may have no content', async () => {
    const emptyBlock = Buffer.from([0, 0, 0, 0xff, 0xff]);
    const body = chunk(Buffer.concat([gzipSync('').subarray(0, 10), ...Array<Buffer>(1_000).fill(emptyBlock)]));
    const head = 'content-type: application/xml\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n';
    const response = Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\n${head}`), body]);
    expect(await failureFrom(response, pageRequest(), { maxPageBytes: 4_000 })).toMatchObject({
      name: 'ConfigurationError',
    });
  });
});

describe('any body', () => {
  const bodies = fc.oneof(
    fc.uint8Array({ maxLength: 3_000 }).map((bytes) => Buffer.from(bytes)),
    fc
      .tuple(fc.string({ minLength: 1, maxLength: 30 }), fc.nat(10_000))
      .map(([text, n]) => Buffer.from(text.repeat(n))),
  );
  const offsets = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 5 });
  const fractions = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
  const inChunks = (bytes: Buffer, fractions: readonly number[]) =>
    cut(bytes, ...fractions.map((fraction) => Math.floor(fraction * bytes.length)).toSorted((a, b) => a - b));

  test.prop([bodies, offsets], { numRuns: cases(200) })('is decoded exactly', async (body, offsets) => {
    expect((await decoded(...inChunks(gzipSync(body), offsets))).equals(body)).toBe(true);
  });

  test.prop([bodies, offsets, fractions], { numRuns: cases(200) })(
    'is an error if it is truncated anywhere',
    async (body, offsets, at) => {
      const whole = gzipSync(body);
      const part = whole.subarray(0, Math.floor(at * whole.length));
      await expect(decoded(...inChunks(part, offsets))).rejects.toMatchObject(truncated);
    },
  );

  test.prop([bodies, offsets, fractions, fc.integer({ min: 1, max: 255 })], { numRuns: cases(400) })(
    'is decoded exactly, or an error, if any byte differs',
    async (body, offsets, at, mask) => {
      const whole = gzipSync(body);
      const bytes = flipped(whole, Math.floor(at * whole.length), mask);
      const outcome = await decoded(...inChunks(bytes, offsets)).catch((error: unknown) => error);
      if (outcome instanceof Buffer) expect(outcome.equals(body)).toBe(true);
      else expect(outcome).toBeInstanceOf(ExportError);
    },
  );
});

describe('a file of a result', () => {
  async function* chunksOf(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  const read = async (bytes: Buffer, size = 7): Promise<string> =>
    Buffer.concat(await collect(gunzipFile(context, chunksOf(bytes, size)))).toString();

  test.prop([fc.array(fc.string({ maxLength: 40 }), { minLength: 1, maxLength: 4 }), fc.integer({ min: 1, max: 40 })], {
    numRuns: cases(200),
  })('has the content of all its members, wherever it is divided', async (members, size) => {
    const file = Buffer.concat(members.map((each) => gzipSync(each)));
    expect(await read(file, size)).toBe(members.join(''));
    const cutOff = read(file.subarray(0, -1), size);
    await expect(cutOff).rejects.toMatchObject(anError('ContractError', 'not a valid file in gzip'));
  });

  it.each(['', 'a', 'plain text', '\u{1f}x'])(
    'is taken as it is if it does not begin as gzip does: %j',
    async (text) => {
      expect(await read(Buffer.from(text), 1)).toBe(text);
    },
  );

  it.each([
    ['a byte is changed', (file: Buffer) => Buffer.concat([file.subarray(0, -6), Buffer.from([1]), file.subarray(-5)])],
    ['something follows', (file: Buffer) => Buffer.concat([file, Buffer.from('more')])],
    ['zeros follow', (file: Buffer) => Buffer.concat([file, Buffer.alloc(9)])],
  ])('is refused if %s', async (_, change) => {
    const file = change(Buffer.concat([gzipSync('one'), gzipSync('two')]));
    await expect(read(file)).rejects.toMatchObject(anError('ContractError', 'not a valid file in gzip'));
  });
});
