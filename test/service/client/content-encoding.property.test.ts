/** How compressed bodies are decoded, and which ones are refused (docs/service-contract.md, section 2.3). */

import { randomBytes } from 'node:crypto';
import * as zlib from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { type ContentEncoding, decode } from '../../../lib/service/client/content-encoding.ts';
import { collect, fetchPage } from '../../support/builders.ts';
import { cases, fc, test } from '../../support/property.ts';
import { encoders, encodings, gzipWithAllFields } from '../../support/service/encoded-bodies.ts';
import { chunk, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, failureOf, pageRequest, readPage, trickyApiKey } from '../../support/service/service-client.ts';

const subject = { label: 'page 1 of run R', keys: new Set<string>() };
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

async function decoded(encoding: ContentEncoding, ...chunks: readonly Uint8Array[]): Promise<Buffer> {
  return Buffer.concat(await collect(decode(subject, encoding, sourceOf(chunks).next)));
}

const cut = (bytes: Buffer, ...offsets: readonly number[]): Buffer[] =>
  [0, ...offsets].map((offset, index) => bytes.subarray(offset, offsets[index] ?? bytes.length));

const flipped = (bytes: Buffer, offset: number, mask = 0xff): Buffer => {
  const changed = Buffer.from(bytes);
  const at = offset < 0 ? bytes.length + offset : offset;
  changed.writeUInt8(changed.readUInt8(at) ^ mask, at);
  return changed;
};

const truncated = { name: 'ServiceUnavailableError', message: expect.stringContaining('without its end') };
const invalid = (problem: string) => ({ name: 'ContractError', message: expect.stringContaining(problem) });
const continues = invalid('it continues after its end');

describe.each(encodings)('a body in %s', (encoding) => {
  const body = encoders[encoding](document);
  const empty = encoders[encoding]('');

  it.each<[string, Buffer[]]>([
    ['in one chunk', [body]],
    ['byte by byte', cut(body, ...Array.from(body.keys()).slice(1))],
    ['in chunks of which some are empty', [Buffer.alloc(0), ...cut(body, 5, 5, 30), Buffer.alloc(0)]],
  ])('is decoded %s', async (_, chunks) => {
    expect((await decoded(encoding, ...chunks)).toString()).toBe(document);
  });

  it('may be empty', async () => {
    expect(await decoded(encoding, empty)).toHaveLength(0);
  });

  it.each<[string, Buffer]>([
    ['without its last byte', body.subarray(0, -1)],
    ['without its last 8 bytes', body.subarray(0, -8)],
    ['without its second half', body.subarray(0, body.length / 2)],
    ['of three bytes', body.subarray(0, 3)],
    ['of no byte', body.subarray(0, 0)],
  ])('is unavailable %s', async (_, bytes) => {
    await expect(decoded(encoding, bytes)).rejects.toMatchObject(truncated);
    await expect(decoded(encoding, ...cut(bytes, bytes.length >> 1))).rejects.toMatchObject(truncated);
  });

  it.each<[string, Buffer]>([
    ['a second one', body],
    ['a second one without content', empty],
    ['zeros', Buffer.alloc(9)],
    ['a byte', Buffer.from('x')],
    ['text', Buffer.from('<reports/>')],
  ])('is invalid if it is followed by %s, in the same chunk or in another', async (_, more) => {
    await expect(decoded(encoding, Buffer.concat([body, more]))).rejects.toMatchObject(continues);
    await expect(decoded(encoding, body, more)).rejects.toMatchObject(continues);
    await expect(decoded(encoding, ...cut(Buffer.concat([body, more]), body.length - 3))).rejects.toMatchObject(
      continues,
    );
  });

  it('is invalid if it is preceded by one without content', async () => {
    await expect(decoded(encoding, empty, body)).rejects.toMatchObject(continues);
    await expect(decoded(encoding, Buffer.concat([empty, body]))).rejects.toMatchObject(continues);
  });

  it('is invalid if it is not compressed', async () => {
    await expect(decoded(encoding, Buffer.from(document))).rejects.toMatchObject({ name: 'ContractError' });
  });

  it('passes on an error of the connection unchanged', async () => {
    const reason = { some: 'reason' };
    const chunks = cut(body, 40);
    const next = async () => {
      const value = chunks.shift();
      if (value === undefined) throw reason;
      return { done: false, value };
    };
    await expect(collect(decode(subject, encoding, next))).rejects.toBe(reason);
  });

  it('is not read before it is asked for, and not far ahead', async () => {
    const chunks = cut(
      encoders[encoding](randomBytes(4 * mebibyte)),
      ...Array.from({ length: 255 }, (_, n) => (n + 1) * 16_384),
    );
    const source = sourceOf(chunks);
    const reader = decode(subject, encoding, source.next);
    expect(source.read).toBe(0);
    await reader.next();
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    expect(source.read).toBeLessThan(40);
    await reader.return();
  });

  it('is refused if it expands as only an attack does, long before its end', async () => {
    const bomb = encoders[encoding](Buffer.alloc(64 * mebibyte));
    let bytes = 0;
    const reading = async () => {
      for await (const part of decode(subject, encoding, sourceOf([bomb]).next)) bytes += part.length;
    };
    await expect(reading()).rejects.toMatchObject(invalid('expands to more than 500 times its size'));
    expect(bytes).toBeLessThanOrEqual(16 * mebibyte);
  });

  it('may have any ratio if it is small', async () => {
    const zeros = Buffer.alloc(16 * mebibyte);
    expect(await decoded(encoding, encoders[encoding](zeros))).toHaveLength(zeros.length);
  });
});

describe('gzip', () => {
  const body = zlib.gzipSync(document);

  it('may have every field in its header', async () => {
    const bytes = gzipWithAllFields(document);
    expect(zlib.gunzipSync(bytes).toString()).toBe(document);
    expect((await decoded('gzip', bytes)).toString()).toBe(document);
    expect((await decoded('gzip', ...cut(bytes, ...Array.from({ length: 50 }, (_, n) => n + 1)))).toString()).toBe(
      document,
    );
  });

  it.each([
    ['its checksum', -8, 'its checksum is wrong'],
    ['its checksum', -5, 'its checksum is wrong'],
    ['its length', -4, 'its length is wrong'],
    ['its length', -1, 'its length is wrong'],
    ['its magic number', 0, 'incorrect header'],
    ['its method', 2, 'incorrect header'],
    ['its flags', 3, 'unknown flags'],
  ])('is invalid if %s differs, at byte %i', async (_, offset, problem) => {
    await expect(decoded('gzip', flipped(body, offset))).rejects.toMatchObject(invalid(problem));
  });

  it('is unavailable if its header does not end', async () => {
    const header = Buffer.from(body.subarray(0, 10));
    header[3] = 8;
    await expect(decoded('gzip', header, Buffer.alloc(100_000, 'x'))).rejects.toMatchObject(truncated);
  });
});

describe('zstd', () => {
  const withoutChecksum = zlib.zstdCompressSync(document);

  it('needs no checksum', async () => {
    expect((await decoded('zstd', withoutChecksum)).toString()).toBe(document);
  });

  it.each([2, 200, 100_000, 300_000])('is followed through raw and repeated blocks of %i bytes', async (size) => {
    const bodies = [randomBytes(size), Buffer.alloc(size, 'x'), Buffer.concat([randomBytes(size), Buffer.alloc(size)])];
    for (const body of bodies) expect((await decoded('zstd', zlib.zstdCompressSync(body))).equals(body)).toBe(true);
  });

  it('is invalid with a wrong checksum', async () => {
    await expect(decoded('zstd', flipped(encoders.zstd(document), -1))).rejects.toMatchObject(invalid('checksum'));
  });

  it('is invalid if it begins with a frame to be skipped', async () => {
    const skipped = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2]);
    await expect(decoded('zstd', skipped, withoutChecksum)).rejects.toMatchObject(invalid('incorrect header'));
  });

  it('is invalid if it makes its receiver allocate more than 8 MiB', async () => {
    const params = { [zlib.constants.ZSTD_c_windowLog]: 24 };
    const bytes = zlib.zstdCompressSync(randomBytes(17 * mebibyte), { params });
    await expect(decoded('zstd', bytes)).rejects.toMatchObject(invalid('requires too much memory'));
  });
});

describe('brotli', () => {
  it('is invalid if it is damaged', async () => {
    await expect(decoded('br', flipped(encoders.br(document), 5))).rejects.toMatchObject({ name: 'ContractError' });
  });
});

describe('a compressed page', () => {
  it.each([...encodings, 'x-gzip', 'GZip', 'BR'])('is delivered decoded: %s', async (name) => {
    const encode = encoders[name.toLowerCase().replace('x-', '') as ContentEncoding];
    const body = encode(document);
    await using server = await startRawServer(rawResponse({ headers: { 'content-encoding': name }, body }));
    await using client = clientFor(server);
    const page = await fetchPage(client, pageRequest());
    expect(await readPage(page)).toBe(document);
    expect(page.reports).toBe(10_000);
    expect(page.transferredBytes).toBe(body.length);
    expect(page.excerpt()).toMatch(/^<reports><report id="1">Grüße/);
  });

  it('says nothing about the bytes that travelled if it was not compressed', async () => {
    await using server = await startRawServer(rawResponse({ headers: { 'content-encoding': 'identity' } }));
    await using client = clientFor(server);
    expect((await fetchPage(client, pageRequest())).transferredBytes).toBeUndefined();
  });

  it.each([
    [{ 'content-encoding': 'deflate' }, 'content encoding "deflate"; only identity, gzip, br, zstd is accepted'],
    [{ 'content-encoding': 'gzip, br' }, 'content encoding "gzip, br"'],
    [{ 'content-encoding': 'gzip, identity' }, 'content encoding "gzip, identity"'],
    [
      [
        ['content-encoding', 'gzip'],
        ['content-encoding', 'gzip'],
      ],
      'content encoding "gzip, gzip"',
    ],
  ] as const)('is refused by its headers, unread: %j', async (headers, problem) => {
    await using server = await startRawServer(rawResponse({ headers, body: encoders.gzip('<r/>') }));
    await using client = clientFor(server);
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject(invalid(problem));
  });

  it('is refused if the settings do not allow it', async () => {
    await using server = await startRawServer(
      rawResponse({ headers: { 'content-encoding': 'gzip' }, body: encoders.gzip('<r/>') }),
    );
    await using client = clientFor(server, { compression: false });
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject(
      invalid('content encoding "gzip"; only identity is accepted'),
    );
    expect(server.requests[0]?.headers['accept-encoding']).toBe('identity');
  });

  it.each(encodings)('shows its end itself: %s needs neither a length nor chunks', async (encoding) => {
    const respond = (body: Buffer) =>
      rawResponse({ headers: { 'content-encoding': encoding, 'content-type': 'text/plain' }, body, framing: 'close' });
    const body = encoders[encoding]('any text');
    await using server = await startRawServer(
      (socket) => void socket.end(respond(body)),
      (socket) => void socket.end(respond(body.subarray(0, -1))),
    );
    await using client = clientFor(server);
    const request = pageRequest({ format: 'TEXT' });
    expect(await readPage(fetchPage(client, request))).toBe('any text');
    expect(await failureOf(readPage(fetchPage(client, request)))).toMatchObject(truncated);
  });

  it.each(encodings)('is limited by its decoded size: %s', async (encoding) => {
    const response = (size: number) =>
      rawResponse({
        headers: { 'content-encoding': encoding },
        body: encoders[encoding](`<r>${'x'.repeat(size)}</r>`),
      });
    await using server = await startRawServer(response(93), response(94));
    await using client = clientFor(server, { maxPageBytes: 100 });
    expect(await readPage(fetchPage(client, pageRequest()))).toHaveLength(100);
    expect(await failureOf(readPage(fetchPage(client, pageRequest())))).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('sent more than 100 bytes'),
    });
  });

  it('is limited by its encoded size, too: an endless one may have no content', async () => {
    const emptyBlock = Buffer.from([0, 0, 0, 0xff, 0xff]);
    const body = chunk(Buffer.concat([zlib.gzipSync('').subarray(0, 10), ...Array<Buffer>(1_000).fill(emptyBlock)]));
    await using server = await startRawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ncontent-encoding: gzip\r\n');
      socket.write(Buffer.concat([Buffer.from('transfer-encoding: chunked\r\n\r\n'), body]));
    });
    await using client = clientFor(server, { maxPageBytes: 4_000 });
    expect(await failureOf(readPage(fetchPage(client, pageRequest())))).toMatchObject({ name: 'ConfigurationError' });
  });

  it('must be a well-formed document like any other', async () => {
    const body = encoders.gzip('<r><a></r>');
    await using server = await startRawServer(rawResponse({ headers: { 'content-encoding': 'gzip' }, body }));
    await using client = clientFor(server);
    expect(await failureOf(readPage(fetchPage(client, pageRequest())))).toMatchObject(invalid('not a well-formed XML'));
  });

  it('is unavailable if the connection closes before its stated length', async () => {
    const response = rawResponse({ headers: { 'content-encoding': 'gzip' }, body: encoders.gzip(document) });
    await using server = await startRawServer((socket) => void socket.end(response.subarray(0, -4)));
    await using client = clientFor(server);
    const error = await failureOf(readPage(fetchPage(client, pageRequest())));
    expect(error).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('closed the conn'),
    });
  });

  it('leaves the reason of its caller as it is', async () => {
    const response = rawResponse({ headers: { 'content-encoding': 'gzip' }, body: encoders.gzip(document) });
    await using server = await startRawServer((socket) => void socket.write(response.subarray(0, -4)));
    await using client = clientFor(server);
    const caller = new AbortController();
    const reading = readPage(fetchPage(client, pageRequest(), caller.signal));
    const reason = new Error('Ctrl-C');
    setImmediate(() => caller.abort(reason));
    await expect(reading).rejects.toBe(reason);
  });
});

describe('a compressed error response', () => {
  it.each(encodings)('is quoted: %s', async (encoding) => {
    const headers = { 'content-encoding': encoding, 'content-type': 'text/plain' };
    const body = encoders[encoding](`the database is away ${'again '.repeat(1_000)}`);
    await using server = await startRawServer(rawResponse({ status: 500, headers, body }));
    await using client = clientFor(server);
    expect((await failureOf(fetchPage(client, pageRequest()))).message).toContain(
      'Response: the database is away again',
    );
  });

  it('is redacted if it contains the API key', async () => {
    const headers = { 'content-encoding': 'gzip', 'content-type': 'text/plain' };
    const body = encoders.gzip(`the key is ${trickyApiKey}`);
    await using server = await startRawServer(rawResponse({ status: 500, headers, body }));
    await using client = clientFor(server);
    expect((await failureOf(fetchPage(client, pageRequest()))).message).toContain('not shown: it contains the API key');
  });

  it.each([
    ['is damaged', 'gzip', flipped(encoders.gzip('gibberish'), 1)],
    ['has an unknown encoding', 'compress', Buffer.from('gibberish')],
  ])('is not quoted if it %s', async (_, encoding, body) => {
    const headers = { 'content-encoding': encoding, 'content-type': 'text/plain' };
    await using server = await startRawServer(rawResponse({ status: 500, headers, body }));
    await using client = clientFor(server);
    expect((await failureOf(fetchPage(client, pageRequest()))).message).toMatch(
      /responded with 500 for page 1 of run R$/,
    );
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

  test.prop([bodies, fc.constantFrom(...encodings), offsets], { numRuns: cases(300) })(
    'is decoded exactly',
    async (body, encoding, offsets) => {
      expect((await decoded(encoding, ...inChunks(encoders[encoding](body), offsets))).equals(body)).toBe(true);
    },
  );

  test.prop([bodies, fc.constantFrom(...encodings), offsets, fractions], { numRuns: cases(300) })(
    'is an error if it is truncated anywhere',
    async (body, encoding, offsets, at) => {
      const whole = encoders[encoding](body);
      const part = whole.subarray(0, Math.floor(at * whole.length));
      await expect(decoded(encoding, ...inChunks(part, offsets))).rejects.toMatchObject(truncated);
    },
  );

  test.prop(
    [bodies, fc.constantFrom<ContentEncoding>('gzip', 'zstd'), offsets, fractions, fc.integer({ min: 1, max: 255 })],
    { numRuns: cases(600) },
  )(
    'with a checksum is decoded exactly, or an error, if any byte differs',
    async (body, encoding, offsets, at, mask) => {
      const whole = encoders[encoding](body);
      const bytes = flipped(whole, Math.floor(at * whole.length), mask);
      const outcome = await decoded(encoding, ...inChunks(bytes, offsets)).catch((error: unknown) => error);
      if (outcome instanceof Buffer) expect(outcome.equals(body)).toBe(true);
      else expect(outcome).toBeInstanceOf(ExportError);
    },
  );
});
