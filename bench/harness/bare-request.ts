/** The request of the bare loops: what a page takes at least. */

import type { Dispatcher, Pool } from 'undici';

/** Resolves at the headers, with the cursor that they bring; undefined after the last page. */
export async function requestPage(
  pool: Pool,
  cursor: string | undefined,
): Promise<{ readonly body: Dispatcher.ResponseData['body']; readonly nextCursor: string | undefined }> {
  const { headers, body } = await pool.request({
    method: 'POST',
    path: `/v1/report/export${cursor === undefined ? '' : `?cursor=${encodeURIComponent(cursor)}`}`,
    headers: { 'content-type': 'application/json', 'x-service-api-key': 'bench' },
    body: '{"filter":{"date":{"gte":"2026-11-20T00:00:00Z"}},"format":"XML","container":"NONE"}',
  });
  const next = headers['x-service-cursor'];
  return { body, nextCursor: typeof next === 'string' ? next : undefined };
}
