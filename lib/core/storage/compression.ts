/**
 * How a page is stored compressed: as a gzip file of its own, whose name ends with `.gz`. The manifest's `bytes` and
 * `sha256` are those of the page itself in either form.
 *
 * Nothing relies on a page being compressed to the same bytes each time: another release of zlib may compress it
 * differently. So every comparison with an object in the store uses the size and the hash of the object that was
 * stored, from its metadata.
 */

import { createHash } from 'node:crypto';
import type { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import type { PageMetadata } from '../model.ts';
import { codeOf } from '../errors.ts';

/** Compresses a stream. Rethrows an error of `content` unchanged, and ends the iteration of `content` with its own. */
export type Compress = (content: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;

/** Size and SHA-256, in lower-case hexadecimal. */
export type Digest = Pick<PageMetadata, 'bytes' | 'sha256'>;

/** The digest of a page; of a compressed one, also that of its object. */
export type PageObject = Digest & Pick<PageMetadata, 'compression' | 'storedBytes' | 'storedSha256'>;

/** Determines the digest of what passes. */
export function createMeter() {
  const hash = createHash('sha256');
  let bytes = 0;
  return {
    async *passing(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        hash.update(chunk);
        bytes += chunk.byteLength;
        yield chunk;
      }
    },
    /** The digest of everything that has passed. Call it once. */
    digest: (): Digest => ({ bytes, sha256: hash.digest('hex') }),
  };
}

export async function digestOf(chunks: AsyncIterable<Uint8Array>): Promise<Digest> {
  const meter = createMeter();
  for await (const _ of meter.passing(chunks));
  return meter.digest();
}

/** The digest of the object that holds the page. */
export const objectDigest = ({ bytes, sha256, storedBytes, storedSha256 }: PageObject): Digest => ({
  bytes: storedBytes ?? bytes,
  sha256: storedSha256 ?? sha256,
});

/** The object of a page is not what the manifest or the log says. The message is a predicate: `has 3 bytes, not 4`. */
export class DifferentContentError extends Error {}

/**
 * The content of a page, decompressed, from the bytes of its object. Neither is read any further than the bytes that
 * `page` names, whatever the object has become.
 * @throws DifferentContentError, after the last byte at the latest, if object or content differ
 */
export async function* readPage(page: PageObject, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const object = createCheck(objectDigest(page));
  if (page.compression === undefined) {
    yield* object.passing(chunks);
    return object.assertSame();
  }
  const content = createCheck(page, ' after decompression');
  try {
    yield* content.passing(through(createGunzip(), object.passing(chunks)));
  } catch (error) {
    if (!(error instanceof Error && codeOf(error).startsWith('Z_'))) throw error;
    throw new DifferentContentError(`is not a complete gzip file (${error.message})`, { cause: error });
  }
  object.assertSame();
  content.assertSame();
}

/** Compares what passes with the expected bytes, and stops after their number. */
function createCheck(expected: Digest, when = '') {
  const meter = createMeter();
  let remaining = expected.bytes;
  return {
    async *passing(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of meter.passing(chunks)) {
        remaining -= chunk.byteLength;
        if (remaining < 0) throw new DifferentContentError(`has more than ${expected.bytes} bytes${when}`);
        yield chunk;
      }
    },
    assertSame(): void {
      const { bytes, sha256 } = meter.digest();
      if (bytes !== expected.bytes) {
        throw new DifferentContentError(`has ${bytes} bytes${when}, not ${expected.bytes}`);
      }
      if (sha256 === expected.sha256) return;
      throw new DifferentContentError(`has other content${when}: its SHA-256 is ${sha256}, not ${expected.sha256}`);
    },
  };
}

const level = 6;

export const gzip: Compress = (content) => through(createGzip({ level }), content);

/** What `stream` makes of `input`, a chunk at a time. zlib works in threads of its own. */
async function* through(stream: Transform, input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const written = pipeline(input, stream);
  // An error is thrown by the iteration, which it ends.
  written.catch(() => {});
  try {
    yield* stream as AsyncIterable<Uint8Array>;
  } finally {
    stream.destroy();
    await written.catch(() => {});
  }
}
