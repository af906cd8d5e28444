/** The page service's own process: page-service.ts starts it and says what it serves. */

import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { generatedXml } from '../lib/report-service/simulator/generated-xml.ts';
import type { PageServiceOptions } from './page-service.ts';

const { pageBytes, pages, latencyMs = 0, bodyMs = 0 } = JSON.parse(process.argv[2] ?? '{}') as PageServiceOptions;
const page = pageOf(pageBytes);

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    const cursor = new URL(request.url ?? '', 'http://localhost').searchParams.get('cursor');
    void answer(response, cursor === null ? 1 : Number.parseInt(cursor, 10) + 1);
  });
});

async function answer(response: ServerResponse, number: number): Promise<void> {
  if (latencyMs > 0) await sleep(latencyMs);
  response.writeHead(200, {
    'content-type': 'application/xml;charset=UTF-8',
    'content-length': page.length,
    ...(number < pages && { 'x-service-cursor': cursorBehind(number) }),
  });
  if (bodyMs === 0) {
    response.end(page);
    return;
  }
  const middle = page.length >> 1;
  response.write(page.subarray(0, middle));
  await sleep(bodyMs);
  response.end(page.subarray(middle));
}

/** The form of section 2.2; here the digits are the page it follows. */
function cursorBehind(number: number): string {
  return `${String(number).padStart(13, '0')},550e8400-e29b-41d4-a716-446655440000`;
}

function pageOf(bytes: number): Buffer {
  const head = '<?xml version="1.0" encoding="UTF-8"?>\n<reports>\n';
  const foot = '</reports>\n';
  const reports: string[] = [];
  // The last report is filled up, so that the page has the size that was asked for, whatever its reports hold.
  let left = bytes - head.length - foot.length;
  for (let number = 0; left > 0; number += 1) {
    const report = generatedXml(1, number, `R-${number}`, 1_763_000_000_000 + number * 10_000);
    const length = Buffer.byteLength(report);
    if (length > left) break;
    reports.push(report);
    left -= length;
  }
  return Buffer.from(`${head}${reports.join('')}${' '.repeat(Math.max(0, left))}${foot}`);
}

// Whoever started it may be killed.
process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ baseUrl: `http://127.0.0.1:${port}`, pageBytes: page.length });
});
