/** Consults the fault script for each request and applies the fault to the response. `delivery.ts` applies the rest. */

import type { Fault, FaultScript } from './faults.ts';
import type { Headers, PreparedResponse } from './response.ts';

export interface FaultInjector {
  /** `request` is undefined if it was rejected. */
  faultFor(number: number, request: { readonly cursor?: string | undefined } | undefined): Fault | undefined;
  /** Records the cursors that were sent with the page that `cursor` selects. */
  recordCursors(cursor: string | undefined, nextCursors: readonly string[]): void;
}

/**
 * Tracks the page number that each cursor leads to, and the attempts at each page, because scripts refer to them.
 * Without a script it records nothing, so the memory of a long-running service stays constant.
 */
export function createFaultInjector(script: FaultScript | undefined): FaultInjector {
  if (script === undefined) return { faultFor: () => undefined, recordCursors: () => {} };
  const pageNumbers = new Map<string, number>();
  const attempts = new Map<string | undefined, number>();
  const pageOf = (cursor: string | undefined) => (cursor === undefined ? 1 : pageNumbers.get(cursor));

  return {
    faultFor(number, request) {
      if (request === undefined) return script({ request: number, page: undefined, attempt: 1, cursor: undefined });
      const { cursor } = request;
      const attempt = (attempts.get(cursor) ?? 0) + 1;
      attempts.set(cursor, attempt);
      return script({ request: number, page: pageOf(cursor), attempt, cursor });
    },
    recordCursors(cursor, nextCursors) {
      const page = pageOf(cursor);
      if (page === undefined) return;
      // The first page that sends a cursor determines its page number; in a cycle, later pages send it again.
      for (const next of nextCursors) if (!pageNumbers.has(next)) pageNumbers.set(next, page + 1);
    },
  };
}

/** Applies the parts of `fault` that concern status, headers and body. `cursorHeader` is the regular header's name. */
export async function applyFault(
  response: PreparedResponse,
  fault: Fault,
  cursorHeader: string,
): Promise<PreparedResponse> {
  const body = fault.body && Buffer.from(fault.body(await readBody(response)));
  const regularCursor = response.headers.find(([name]) => name === cursorHeader)?.[1];
  const cursors = fault.cursor?.(regularCursor) ?? (regularCursor === undefined ? [] : [regularCursor]);
  const headers = replaceHeaders(response.headers, {
    [cursorHeader]: null,
    ...(cursors.length > 0 && { [fault.cursorHeader ?? cursorHeader]: cursors }),
    ...(body && { 'content-length': String(body.length) }),
    ...(fault.framing && { 'content-length': null }),
  });
  return {
    ...response,
    status: fault.status ?? response.status,
    // Headers that the fault sets explicitly take precedence.
    headers: replaceHeaders(headers, fault.headers ?? {}),
    ...(body && { body: () => [body] }),
  };
}

async function readBody(response: PreparedResponse): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of response.body()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function replaceHeaders(headers: Headers, changes: NonNullable<Fault['headers']>): Headers {
  const changed = new Set(Object.keys(changes).map((name) => name.toLowerCase()));
  const added = Object.entries(changes).flatMap(([name, values]) =>
    [values ?? []].flat().map((value) => [name, value] as const),
  );
  return [...headers.filter(([name]) => !changed.has(name.toLowerCase())), ...added];
}
