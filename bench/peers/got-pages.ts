/**
 * got: its `paginate` over the pages, each written with node:fs. Follows documentation/4-pagination.md of
 * https://github.com/sindresorhus/got. `stackAllItems` is off by default, so memory does not grow with the number of pages.
 * Major 14, because `paginate` of 15.1.0 and 16.1.0 usually failed here on pages of 1 MB ("Content-Length mismatch").
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import got, { type Response } from 'got';
import { startMeasurement } from '../harness/measured-process.ts';

const [baseUrl = '', out = ''] = process.argv.slice(2);
const { finish } = startMeasurement();
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
let pageCount = 0;
for await (const page of pages) {
  pageCount += 1;
  await writeFile(join(out, `page-${String(pageCount).padStart(6, '0')}.xml`), page);
}
finish({ pages: pageCount });
