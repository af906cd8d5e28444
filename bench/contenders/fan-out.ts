/**
 * Bare loops, as many as `parallel`, that walk the pages of one parent after the other and write each to disk, without
 * checks, without a page log and without guarantees. The parents are known, and no loop waits for the disk.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool } from 'undici';
import { startMeasurement } from '../harness/processes.ts';

const [baseUrl = '', out = '', parents, parallel] = process.argv.slice(2);
const pool = new Pool(baseUrl);
const { finish } = startMeasurement();
const writing: Promise<void>[] = [];
let begun = 0;

async function walkParents(): Promise<void> {
  while (begun < Number(parents)) {
    begun += 1;
    const id = `p-${String(begun).padStart(6, '0')}`;
    for (let cursor: string | null = 'page-1'; cursor !== null;) {
      const path = `/children/${id}?since=2026-01-01T00:00:00Z&cursor=${cursor}`;
      const { body } = await pool.request({ method: 'GET', path });
      const text = await body.text();
      writing.push(writeFile(join(out, `${id}-${cursor}.json`), text));
      ({ next: cursor } = JSON.parse(text) as { next: string | null });
    }
  }
}

await Promise.all(Array.from({ length: Number(parallel) }, walkParents));
await Promise.all(writing);
finish(writing.length);
await pool.close();
