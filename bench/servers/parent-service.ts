/**
 * A process: a service with a list of parents at /parents, and the children of each at /children/ID, as fast as Node
 * can. Children are reports of 2026, dated January 1. After POST /update, each parent has one more, dated by the clock,
 * on a page of its own. POST /delete deletes every hundredth parent, POST /restore brings half of these back. GET
 * /times says how many requests for children came since the last GET, and when the first and the last one.
 */

import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** The argument of the process, as JSON. */
export interface ParentServiceOptions {
  readonly parents: number;
  /** The number of pages of each parent. */
  readonly pages: number;
  readonly pageBytes: number;
  /** From the request to the first byte of the response, and from that to the last. */
  readonly latencyMs: number;
  readonly bodyMs: number;
}

const { parents, pages, pageBytes, latencyMs, bodyMs } = JSON.parse(process.argv[2] ?? '{}') as ParentServiceOptions;

const parentsPerPage = 1_000;
const firstUpdate = '2026-01-01T00:00:00Z';
const padding = 'x'.repeat(pageBytes);

let isDeleted = (_parent: number): boolean => false;
let updatedAt: string | undefined;
let times: { first?: number; last?: number; requests: number } = { requests: 0 };

const commands: Record<string, () => void> = {
  '/delete': () => {
    isDeleted = (parent) => parent % 100 === 0;
  },
  '/restore': () => {
    isDeleted = (parent) => parent % 200 === 0;
  },
  '/update': () => {
    updatedAt = new Date().toISOString();
  },
};

export const parentId = (parent: number): string => `p-${String(parent).padStart(6, '0')}`;

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
  if (pathname === '/times') {
    response.end(JSON.stringify(times));
    times = { requests: 0 };
    return;
  }
  if (request.method === 'POST') {
    commands[pathname]?.();
    response.end();
    return;
  }
  const page = Number((searchParams.get('cursor') ?? 'page-1').replace('page-', ''));
  if (pathname === '/parents') void respond(response, pageOfParents(page));
  else {
    times = { first: times.first ?? Date.now(), last: Date.now(), requests: times.requests + 1 };
    void respond(response, pageOfChildren(Number(pathname.slice(-6)), page, searchParams.get('since')));
  }
});

function pageOfParents(page: number) {
  const first = (page - 1) * parentsPerPage;
  const last = Math.min(parents, first + parentsPerPage);
  const numbers = Array.from({ length: last - first }, (_, index) => first + index + 1);
  const items = numbers.filter((number) => !isDeleted(number)).map((number) => ({ id: parentId(number) }));
  return { items, next: last < parents ? `page-${page + 1}` : null };
}

function pageOfChildren(parent: number, page: number, since: string | null) {
  if (isDeleted(parent)) return undefined;
  const isFull = since === null || Date.parse(since) <= Date.parse(firstUpdate);
  const old = isFull ? pages : 0;
  const hasUpdate = updatedAt !== undefined && (since === null || since < updatedAt);
  const last = old + (hasUpdate ? 1 : 0);
  const id = `${parentId(parent)}/${page <= old ? page : 'updated'}`;
  return { items: page > last ? [] : [{ id, padding }], next: page < last ? `page-${page + 1}` : null };
}

/** Without content, the parent does not exist. */
async function respond(response: ServerResponse, content: object | undefined): Promise<void> {
  if (latencyMs > 0) await sleep(latencyMs);
  response.writeHead(content === undefined ? 404 : 200, { 'content-type': 'application/json' });
  if (bodyMs > 0) {
    response.flushHeaders();
    await sleep(bodyMs);
  }
  response.end(JSON.stringify(content ?? { error: 'not found' }));
}

// The parent process may be killed.
process.on('disconnect', () => process.exit());

server.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
