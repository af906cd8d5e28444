/**
 * A bare undici loop that writes page after page to disk, without checks, without a page log and without guarantees.
 * Its further arguments may be
 * - `synced`: syncs each file, the least that a durable export must do;
 * - `pipelined`: requests the next page as soon as the headers of this one bring its cursor, while any number of bodies
 *   is still
 *   arriving and being written. No program that follows the cursors can be faster;
 * - `gzip`: accepts gzip and writes what it decompresses to.
 */

import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { type Dispatcher, Pool } from 'undici';
import { startMeasurement } from '../harness/processes.ts';

const [baseUrl = '', out = '', ...modes] = process.argv.slice(2);
const flush = modes.includes('synced');
const acceptsGzip = modes.includes('gzip');
const pool = new Pool(baseUrl);
const { finish } = startMeasurement();
const writing: Promise<void>[] = [];
let pages = 0;
let cursor: string | undefined;
do {
  const { headers, body }: Dispatcher.ResponseData = await pool.request({
    method: 'POST',
    path: `/v1/report/export${cursor === undefined ? '' : `?cursor=${encodeURIComponent(cursor)}`}`,
    headers: {
      'content-type': 'application/json',
      'x-service-api-key': 'bench',
      ...(acceptsGzip && { 'accept-encoding': 'gzip' }),
    },
    body: '{"filter":{"date":{"gte":"2020-01-01T00:00:00Z"}},"format":"XML","container":"NONE"}',
  });
  pages += 1;
  const file = join(out, `page-${String(pages).padStart(6, '0')}.xml`);
  const target = createWriteStream(file, { flush });
  const isCompressed = headers['content-encoding'] === 'gzip';
  const written = isCompressed ? pipeline(body, createGunzip(), target) : pipeline(body, target);
  if (modes.includes('pipelined')) writing.push(written);
  else await written;
  const next = headers['x-service-cursor'];
  cursor = typeof next === 'string' ? next : undefined;
} while (cursor !== undefined);
await Promise.all(writing);
finish(pages);
await pool.close();
