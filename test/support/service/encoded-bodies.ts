/** Bodies in each encoding that the client accepts. */

import * as zlib from 'node:zlib';
import type { ContentEncoding } from '../../../lib/service/client/content-encoding.ts';

/** `zstd` with a checksum, as the command `zstd` writes it; the one of the encoding without. */
export const encoders = {
  gzip: (body) => zlib.gzipSync(body),
  br: (body) => zlib.brotliCompressSync(body, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } }),
  zstd: (body) => zlib.zstdCompressSync(body, { params: { [zlib.constants.ZSTD_c_checksumFlag]: 1 } }),
} as const satisfies Readonly<Record<ContentEncoding, (body: string | Uint8Array) => Buffer>>;

export const encodings = Object.keys(encoders) as (keyof typeof encoders)[];

/** A member of gzip with each optional field of its header (RFC 1952, section 2.3). */
export function gzipWithAllFields(body: string | Uint8Array): Buffer {
  const plain = zlib.gzipSync(body);
  const header = Buffer.from(plain.subarray(0, 10));
  header[3] = 0b11111;
  const extra = Buffer.from([4, 0, 1, 2, 0, 0]);
  const fields = [header, extra, Buffer.from('reports.xml\0'), Buffer.from('of\xa0today\0', 'latin1')];
  const crc = Buffer.alloc(2);
  crc.writeUInt16LE(zlib.crc32(Buffer.concat(fields)) % 65_536);
  return Buffer.concat([...fields, crc, plain.subarray(10)]);
}
