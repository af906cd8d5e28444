/**
 * The service, as far as large pages are concerned: says its address and answers until it is killed. A walk has a tiny page
 * and one large page behind it, or more; the first part of the path says how they come, the second how many.
 */

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { asCursor } from '../../../lib/core/model.ts';
import { largePage, largePageBytes } from '../large-page.ts';
import { cursorTo, pageBehind } from '../numbered-pages.ts';

/** How the large page comes: with a length, in chunks, or to its last bytes but no further. */
export type Delivery = 'length' | 'chunked' | 'cut' | 'cut-unseen';

/** Less than the last tag. */
const missingBytes = 5;

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
  const [, delivery, count = ''] = pathname.split('/');
  const lastPage = 1 + (/^\d+$/.test(count) ? Number(count) : 1);
  const cursor = searchParams.get('cursor');
  const page = pageBehind(cursor === null ? null : asCursor(cursor));
  request.resume();
  response.setHeader('content-type', 'application/xml;charset=UTF-8');
  if (page < lastPage) response.setHeader('X-SERVICE-CURSOR', cursorTo(page + 1));
  if (page === 1) {
    response.end('<reports><report id="first"/></reports>');
    return;
  }
  send(response, delivery as Delivery).catch(() => response.destroy());
});

async function send(response: ServerResponse, delivery: Delivery): Promise<void> {
  const closed = once(response, 'close');
  if (delivery === 'length' || delivery === 'cut') response.setHeader('content-length', largePageBytes);
  // Neither a length nor chunks: the connection's end is the page's end.
  if (delivery === 'cut-unseen') response.useChunkedEncodingByDefault = false;
  let left = delivery === 'length' || delivery === 'chunked' ? largePageBytes : largePageBytes - missingBytes;
  for (const block of largePage()) {
    const part = block.subarray(0, left);
    left -= part.length;
    if (!response.write(part)) await Promise.race([once(response, 'drain'), closed]);
    if (response.destroyed) return;
  }
  if (delivery !== 'cut') {
    response.end();
    return;
  }
  // What was written is sent before the connection ends.
  response.socket?.end();
}

server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
