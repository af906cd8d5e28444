/** Compresses without waiting for threads, for virtual time; levels differ, as releases of zlib may. */

import { gzipSync } from 'node:zlib';
import type { Compress } from '../../../lib/core/storage/compression.ts';

export function compressAtOnce(level: number): Compress {
  return async function* (content) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of content) chunks.push(chunk);
    yield gzipSync(Buffer.concat(chunks), { level });
  };
}
