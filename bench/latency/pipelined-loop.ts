/**
 * A bare pipelined undici loop: requests the next page as soon as the headers of this one bring its cursor, while bodies are still
 * arriving and being written. No checks, no page log, no guarantees, and no limit on pages in flight: no program that follows the
 * cursors can be faster.
 */

import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Pool } from 'undici';
import { requestPage } from '../harness/bare-request.ts';
import { startMeasurement } from '../harness/measured-process.ts';

const [baseUrl = '', out = ''] = process.argv.slice(2);
const pool = new Pool(baseUrl);
const { finish } = startMeasurement();
const writing: Promise<void>[] = [];
let cursor: string | undefined;
do {
  const { body, nextCursor } = await requestPage(pool, cursor);
  const file = join(out, `page-${String(writing.length + 1).padStart(6, '0')}.xml`);
  writing.push(pipeline(body, createWriteStream(file)));
  cursor = nextCursor;
} while (cursor !== undefined);
await Promise.all(writing);
finish({ pages: writing.length });
await pool.close();
