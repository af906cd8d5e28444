/**
 * got: its paginate over the pages, each written with node:fs. Follows documentation/4-pagination.md of
 * https://github.com/sindresorhus/got; `stackAllItems` is off by default, so that memory does not grow with the walk. It
 * is major 14: with 15.1.0 and 16.1.0 paginate failed here on pages of 1 MB ("Content-Length mismatch"), as a rule.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import got, { type Response } from 'got';
import { measuring } from '../harness/measured-process.ts';

const [baseUrl = '', out = ''] = process.argv.slice(2);
const { tell } = measuring();
const pages = got.paginate<Buffer, Buffer>(`${baseUrl}/v1/report/export`, {
  method: 'POST',
  headers: { 'x-service-api-key': 'bench' },
  json: { filter: { date: { gte: '2026-11-20T00:00:00Z' } }, format: 'XML', container: 'NONE' },
  responseType: 'buffer',
  pagination: {
    transform: (response) => [(response as Response<Buffer>).body],
    paginate({ response }) {
      const cursor = response.headers['x-service-cursor'];
      return typeof cursor === 'string' && { searchParams: { cursor } };
    },
  },
});
let written = 0;
for await (const page of pages) {
  written += 1;
  await writeFile(join(out, `page-${String(written).padStart(6, '0')}.xml`), page);
}
tell({ pages: written });
