/** A bare undici loop: writes page after page to disk, without checks, without a page log and without guarantees. */

import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Pool } from 'undici';
import { requestPage } from '../harness/bare-request.ts';
import { startMeasurement } from '../harness/measured-process.ts';

const [baseUrl = '', out = '', sync] = process.argv.slice(2);
const pool = new Pool(baseUrl);
const { finish } = startMeasurement();
let cursor: string | undefined;
let pages = 0;
do {
  const { body, nextCursor } = await requestPage(pool, cursor);
  pages += 1;
  // `flush` syncs each file before it is closed: the least that a durable export must do.
  const flush = sync === 'sync';
  await pipeline(body, createWriteStream(join(out, `page-${String(pages).padStart(6, '0')}.xml`), { flush }));
  cursor = nextCursor;
} while (cursor !== undefined);
finish({ pages });
await pool.close();
