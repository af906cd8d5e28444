/**
 * A service with large pages. Prints its address and serves until it is killed. A run has a tiny page and a large one; the
 * path is the format. XML has a content-length, and JSON comes in chunks.
 */

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Format, largePage, largePageBytes } from '../large-page.ts';

const tinyPages: Readonly<Record<Format, readonly [contentType: string, body: string]>> = {
  xml: ['application/xml;charset=UTF-8', '<reports><report id="first"/></reports>'],
  json: ['application/json', '{"data":[{"id":"first"}],"next":"second"}'],
};

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
  const format = pathname.slice(1).replace(/\/.*/, '') as Format;
  const [contentType, tinyPage] = tinyPages[format];
  request.resume();
  response.setHeader('content-type', contentType);
  if (!searchParams.has('cursor')) {
    response.setHeader('X-SERVICE-CURSOR', 'second');
    response.end(tinyPage);
    return;
  }
  sendLargePage(response, format).catch(() => response.destroy());
});

async function sendLargePage(response: ServerResponse, format: Format): Promise<void> {
  const closed = once(response, 'close');
  if (format === 'xml') response.setHeader('content-length', largePageBytes);
  for (const block of largePage(format)) {
    if (!response.write(block)) await Promise.race([once(response, 'drain'), closed]);
    if (response.destroyed) return;
  }
  response.end();
}

server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
