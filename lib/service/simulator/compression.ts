/** Compresses responses with the encoding that the client prefers, as most services do (RFC 9110, section 12.5.3). */

import { pipeline, type Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import type { PreparedResponse } from './response.ts';

const encoders: Readonly<Record<string, () => Transform>> = {
  gzip: () => zlib.createGzip(),
  br: () => zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }),
  zstd: () => zlib.createZstdCompress(),
};

/** The response as it is if the client accepts no encoding that this Node.js has. */
export function compressed(response: PreparedResponse, acceptEncoding = ''): PreparedResponse {
  const encoding = preferredEncoding(acceptEncoding);
  const createEncoder = encoders[encoding];
  if (createEncoder === undefined) return response;
  return {
    ...response,
    headers: [
      // The size is not known in advance.
      ...response.headers.filter(([name]) => name !== 'content-length'),
      ['vary', 'Accept-Encoding'],
      ['content-encoding', encoding],
    ],
    // The reader of the encoder meets the error of a report that cannot be read.
    body: () => pipeline(response.body(), createEncoder(), () => {}),
  };
}

/** The one with the highest weight; among these, the first. */
function preferredEncoding(acceptEncoding: string): string {
  const [preferred] = acceptEncoding
    .split(',')
    .map((item) => /^\s*([^\s;]+)\s*(?:;\s*q=([\d.]+)\s*)?$/i.exec(item))
    .map((match) => ({ name: match?.[1]?.toLowerCase() ?? '', weight: Number(match?.[2] ?? 1) }))
    .filter(({ name, weight }) => weight > 0 && (name === 'identity' || Object.hasOwn(encoders, name)))
    .toSorted((one, other) => other.weight - one.weight);
  return preferred?.name ?? 'identity';
}
