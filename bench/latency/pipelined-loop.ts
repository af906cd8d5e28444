/**
 * A bare pipelined undici loop: requests the next page as soon as the headers of this one bring its cursor, while bodies are still
 * arriving and being written. No checks, no page log, no guarantees, and no limit on pages in flight: no program that follows the
 * cursors can be faster.
 */

import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Pool } from 'undici';
import { startMeasurement } from '../harness/measured-process.ts';

const [baseUrl = '', out = ''] = process.argv.slice(2);
const pool = new Pool(baseUrl);
const { finish } = startMeasurement();
const writing: Promise<void>[] = [];
let cursor: string | undefined;
do {
  const { headers, body } = await pool.request({
    method: 'POST',
    path: `/v1/report/export${cursor === undefined ? '' : `?cursor=${encodeURIComponent(cursor)}`}`,
    headers: { 'content-type': 'application/json', 'x-service-api-key': 'bench' },
    body: '{"filter":{"date":{"gte":"2026-11-20T00:00:00Z"}},"format":"XML","container":"NONE"}',
  });
  const file = join(out, `page-${String(writing.length + 1).padStart(6, '0')}.xml`);
  writing.push(pipeline(body, createWriteStream(file)));
  const next = headers['x-service-cursor'];
  cursor = typeof next === 'string' ? next : undefined;
} while (cursor !== undefined);
await Promise.all(writing);
finish({ pages: writing.length });
await pool.close();
