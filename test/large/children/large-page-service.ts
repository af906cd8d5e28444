/**
 * A service with large pages. Prints its address and serves until it is killed. A run has a tiny page and a large one; the first
 * segment of the path is the delivery, the second the format.
 */

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Format, largePage, largePageBytes } from '../large-page.ts';

/**
 * How a large page is sent: complete with content-length, complete in chunks, or truncated with neither, so that only the missing end
 * of the document shows it.
 */
export type Delivery = 'length' | 'chunked' | 'truncated';

/** How many are missing where a page is truncated: part of its last tag. */
const missingBytes = 5;

const tinyPages: Readonly<Record<Format, readonly [contentType: string, body: string]>> = {
  xml: ['application/xml;charset=UTF-8', '<reports><report id="first"/></reports>'],
  json: ['application/json', '{"data":[{"id":"first"}],"next":"second"}'],
  csv: ['text/csv', 'id,text\r\nfirst,page\r\n'],
};

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
  const [, delivery, format] = pathname.split('/') as [string, Delivery, Format];
  const [contentType, tinyPage] = tinyPages[format];
  request.resume();
  response.setHeader('content-type', contentType);
  if (!searchParams.has('cursor')) {
    response.setHeader('X-SERVICE-CURSOR', 'second');
    response.end(tinyPage);
    return;
  }
  sendLargePage(response, delivery, format).catch(() => response.destroy());
});

async function sendLargePage(response: ServerResponse, delivery: Delivery, format: Format): Promise<void> {
  const closed = once(response, 'close');
  if (delivery === 'length') response.setHeader('content-length', largePageBytes);
  // Without both, the end of the connection is the end of the page.
  if (delivery === 'truncated') response.useChunkedEncodingByDefault = false;
  let remaining = delivery === 'truncated' ? largePageBytes - missingBytes : largePageBytes;
  for (const block of largePage(format)) {
    const chunk = block.subarray(0, remaining);
    remaining -= chunk.length;
    if (!response.write(chunk)) await Promise.race([once(response, 'drain'), closed]);
    if (response.destroyed) return;
  }
  response.end();
}

server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
