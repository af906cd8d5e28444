/** Decompresses without waiting for threads, for virtual time. */

import { Transform } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import type { CreateGunzip } from '../../../lib/service/client/response/gzip.ts';

export const gunzipAtOnce: CreateGunzip = () => {
  const chunks: Buffer[] = [];
  const stream = new Transform({
    transform(chunk: Buffer, _, done) {
      chunks.push(chunk);
      done();
    },
    flush(done) {
      try {
        // The types do not have the result of `info`.
        const decoded: unknown = gunzipSync(Buffer.concat(chunks), { info: true, rejectGarbageAfterEnd: true });
        const { buffer, engine } = decoded as { buffer: Buffer; engine: { bytesWritten: number } };
        Object.assign(stream, { bytesWritten: engine.bytesWritten });
        done(null, buffer);
      } catch (error) {
        done(error as Error);
      }
    },
  });
  return Object.assign(stream, { bytesWritten: 0 });
};
