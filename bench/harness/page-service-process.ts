/** The process of page-service.ts. */

import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { createPageDocument } from './page-document.ts';
import type { PageServiceProcessOptions, RequestMessage } from './page-service.ts';

const {
  pageBytes,
  pages,
  latencyMs = 0,
  bodyMs = 0,
  numbered = false,
  reportRequests,
} = JSON.parse(process.argv[2] ?? '{}') as PageServiceProcessOptions;
const document = createPageDocument(pageBytes, numbered);
/** No report is dated later. */
const newestReportAt = Date.now() - 60_000;
const emptyPage: readonly [Buffer, Buffer] = [Buffer.from('<?xml version="1.0"?>\n'), Buffer.from('<reports/>\n')];

const server = createServer((request, response) => {
  const cursor = new URL(request.url ?? '', 'http://localhost').searchParams.get('cursor');
  const page = cursor === null ? 1 : Number.parseInt(cursor, 10) + 1;
  const nextCursor = page < pages ? cursorAfter(page) : undefined;
  if (!numbered) {
    request.resume();
    request.on('end', () => void respond(response, document.page(), nextCursor));
    return;
  }
  // The client may be killed while it sends the request.
  void text(request).then(
    (body) => {
      const { filter } = JSON.parse(body) as { filter: { date: { gte: string; lt?: string } } };
      const { gte, lt } = filter.date;
      const isEmpty = Date.parse(gte) > newestReportAt || (lt !== undefined && lt <= gte);
      if (isEmpty) return respond(response, emptyPage, undefined);
      if (reportRequests) process.send?.({ requestedPage: page } satisfies RequestMessage);
      return respond(response, document.page(page), nextCursor);
    },
    () => {},
  );
});

async function respond(
  response: ServerResponse,
  [head, rest]: readonly [Buffer, Buffer],
  nextCursor: string | undefined,
): Promise<void> {
  if (latencyMs > 0) await sleep(latencyMs);
  response.writeHead(200, {
    'content-type': 'application/xml;charset=UTF-8',
    'content-length': head.length + rest.length,
    ...(nextCursor !== undefined && { 'x-service-cursor': nextCursor }),
  });
  response.write(head);
  if (bodyMs > 0) await writeEvenly(response, rest);
  else response.end(rest);
}

/** Time between two parts of a body that takes `bodyMs`. */
const partMs = 5;

/** As a connection of limited bandwidth delivers it: the last part is sent after `bodyMs`, however late the timers are. */
async function writeEvenly(response: ServerResponse, body: Buffer): Promise<void> {
  const startedAt = performance.now();
  const parts = Math.max(1, Math.round(bodyMs / partMs));
  for (let part = 1; part <= parts; part += 1) {
    await sleep(Math.max(0, startedAt + (bodyMs * part) / parts - performance.now()));
    response.write(body.subarray(((part - 1) * body.length) / parts, (part * body.length) / parts));
  }
  response.end();
}

/** In the contract's form; the 13 digits are the number of the page before. */
function cursorAfter(page: number): string {
  return `${String(page).padStart(13, '0')},550e8400-e29b-41d4-a716-446655440000`;
}

// The parent may be killed.
process.on('disconnect', () => process.exit());

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ baseUrl: `http://127.0.0.1:${port}`, pageBytes: document.bytes });
});
