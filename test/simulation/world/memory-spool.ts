/** Holds a body in memory until it is uploaded: a disk would bring in a time of its own. */

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Spool } from '../../../lib/aws/s3/spool.ts';

export const memorySpool: Spool = async (chunks, use) => {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(Buffer.from(chunk));
  const body = Buffer.concat(all);
  const sha256 = createHash('sha256').update(body).digest('hex');
  return use({ bytes: body.length, sha256, read: () => Readable.from(body.length === 0 ? [] : [body]) });
};
