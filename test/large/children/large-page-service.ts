/**
 * A report service with large pages. Prints its address and serves until it is killed. A run has one tiny page, followed by one
 * or more large pages; the first segment of the path is the delivery, the second the number of large pages.
 */

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { asCursor } from '../../../lib/core/model.ts';
import { largePage, largePageBytes } from '../large-page.ts';
import { cursorTo, pageOf } from '../numbered-pages.ts';

/**
 * How a large page is sent: complete with content-length, complete in chunks, truncated with content-length, or truncated with
 * neither, so that only the missing closing tag shows it.
 */
export type Delivery = 'length' | 'chunked' | 'truncated' | 'truncated-unframed';

/** Less than the closing tag of the root. */
const missingBytes = 5;

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
  const [, delivery, count = ''] = pathname.split('/');
  const lastPage = 1 + (/^\d+$/.test(count) ? Number(count) : 1);
  const cursor = searchParams.get('cursor');
  const page = pageOf(cursor === null ? null : asCursor(cursor));
  request.resume();
  response.setHeader('content-type', 'application/xml;charset=UTF-8');
  if (page < lastPage) response.setHeader('X-SERVICE-CURSOR', cursorTo(page + 1));
  if (page === 1) {
    response.end('<reports><report id="first"/></reports>');
    return;
  }
  sendLargePage(response, delivery as Delivery).catch(() => response.destroy());
});

async function sendLargePage(response: ServerResponse, delivery: Delivery): Promise<void> {
  const closed = once(response, 'close');
  const isComplete = delivery === 'length' || delivery === 'chunked';
  if (delivery === 'length' || delivery === 'truncated') response.setHeader('content-length', largePageBytes);
  // Without both, the end of the connection is the end of the page.
  if (delivery === 'truncated-unframed') response.useChunkedEncodingByDefault = false;
  let remaining = isComplete ? largePageBytes : largePageBytes - missingBytes;
  for (const block of largePage()) {
    const chunk = block.subarray(0, remaining);
    remaining -= chunk.length;
    if (!response.write(chunk)) await Promise.race([once(response, 'drain'), closed]);
    if (response.destroyed) return;
  }
  if (delivery !== 'truncated') {
    response.end();
    return;
  }
  // Sends what was written, then closes the connection.
  response.socket?.end();
}

server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
