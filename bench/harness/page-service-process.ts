/** The page service's own process: page-service.ts starts it and says what it serves. */

import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { pageDocument } from './page-document.ts';
import type { ServingOptions } from './page-service.ts';

const {
  pageBytes,
  pages,
  latencyMs = 0,
  bodyMs = 0,
  numbered = false,
  telling,
} = JSON.parse(process.argv[2] ?? '{}') as ServingOptions;
const document = pageDocument(pageBytes, numbered);
/** All its reports are of the minute before it started: whoever asks for later ones gets a page without any. */
const datedUpTo = Date.now() - 60_000;
const nothing: readonly [Buffer, Buffer] = [Buffer.from('<?xml version="1.0"?>\n'), Buffer.from('<reports/>\n')];

const server = createServer((request, response) => {
  const cursor = new URL(request.url ?? '', 'http://localhost').searchParams.get('cursor');
  const number = cursor === null ? 1 : Number.parseInt(cursor, 10) + 1;
  if (!numbered) {
    request.resume();
    request.on('end', () => void answer(response, document.page(), number < pages && number));
    return;
  }
  // Who asks may be killed in the middle of asking.
  void text(request).then(
    (body) => {
      const { filter } = JSON.parse(body) as { filter: { date: { gte: string } } };
      const later = Date.parse(filter.date.gte) > datedUpTo;
      if (telling && !later) process.send?.({ asked: number });
      return answer(response, later ? nothing : document.page(number), !later && number < pages && number);
    },
    () => {},
  );
});

async function answer(
  response: ServerResponse,
  [head, rest]: readonly [Buffer, Buffer],
  cursorBehind: number | false,
): Promise<void> {
  if (latencyMs > 0) await sleep(latencyMs);
  response.writeHead(200, {
    'content-type': 'application/xml;charset=UTF-8',
    'content-length': head.length + rest.length,
    ...(cursorBehind !== false && { 'x-service-cursor': cursorOf(cursorBehind) }),
  });
  response.write(head);
  if (bodyMs === 0) {
    response.end(rest);
    return;
  }
  const middle = rest.length >> 1;
  response.write(rest.subarray(0, middle));
  await sleep(bodyMs);
  response.end(rest.subarray(middle));
}

/** The form of section 2.2; here the digits are the page it follows. */
function cursorOf(number: number): string {
  return `${String(number).padStart(13, '0')},550e8400-e29b-41d4-a716-446655440000`;
}

// Whoever started it may be killed.
process.on('disconnect', () => process.exit());

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ baseUrl: `http://127.0.0.1:${port}`, pageBytes: document.bytes });
});
