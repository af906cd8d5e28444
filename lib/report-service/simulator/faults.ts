/**
 * What can be made to go wrong, for tests. A fault changes one answer; each field changes exactly what it says and
 * nothing else, and fields combine. `faults.ts` has the usual ones by name, and says when they strike.
 */

import { gzipSync } from 'node:zlib';
import type { Answer, Headers } from './response.ts';

export interface Fault {
  /** Milliseconds between choosing the page and the first byte of the answer; its date header is of the later moment. */
  readonly delayMs?: number;
  /** The page holds no reports; its cursor, if any report remains, is a new one and loses none of them. */
  readonly emptyPage?: boolean;
  readonly status?: number;
  /** Replaces the body, which is held whole in memory for it; content-length is that of the result. */
  readonly body?: (original: Buffer) => string | Uint8Array;
  /** Headers to put in place of those of the same name (in any case), written as they are here; null leaves them out. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | null>>;
  /** The values of the cursor header, one header line for each, in UTF-8. The genuine one is undefined on the last page. */
  readonly cursor?: (genuine: string | undefined) => readonly string[];
  /** The name of the cursor header, as it goes on the wire. */
  readonly cursorHeader?: string;
  /** Sends no content-length: the body's end is marked by an empty chunk, or by the end of the connection alone. */
  readonly framing?: 'chunked' | 'close';
  /** Sends the body in pieces of so many bytes, with a pause after each. */
  readonly drip?: { readonly bytes: number; readonly everyMs: number };
  /**
   * Ends the connection: `start` before anything is sent, a number after so many bytes of the body (0: after the headers).
   * `end` closes it in good order (FIN), `reset` breaks it (RST). What was promised stays promised.
   */
  readonly cut?: { readonly at: 'start' | number; readonly by: 'end' | 'reset' };
}

/** Makes one fault of several; where two set the same field, the later one does, but `headers` add up. */
export function combined(...faults: readonly Fault[]): Fault {
  return Object.assign({}, ...faults, { headers: Object.assign({}, ...faults.map((fault) => fault.headers)) });
}

/** The answer as `fault` leaves it; `cursorHeader` is the genuine header's name. What concerns the wire is left to delivery. */
export async function withFault(answer: Answer, fault: Fault, cursorHeader: string): Promise<Answer> {
  const { body } = fault;
  const edited = body && Buffer.from(body(await wholeBody(answer)));
  const genuine = answer.headers.find(([name]) => name === cursorHeader)?.[1];
  const cursors = fault.cursor?.(genuine) ?? (genuine === undefined ? [] : [genuine]);
  const headers = replaced(answer.headers, {
    [cursorHeader]: null,
    ...(cursors.length > 0 && { [fault.cursorHeader ?? cursorHeader]: cursors }),
    ...(edited && { 'content-length': String(edited.length) }),
    ...(fault.framing && { 'content-length': null }),
  });
  return {
    ...answer,
    status: fault.status ?? answer.status,
    // The fault's own headers have the last word.
    headers: replaced(headers, fault.headers ?? {}),
    ...(edited && { body: () => [edited] }),
  };
}

function replaced(headers: Headers, changes: NonNullable<Fault['headers']>): Headers {
  const changed = new Set(Object.keys(changes).map((name) => name.toLowerCase()));
  const added = Object.entries(changes).flatMap(([name, values]) =>
    [values ?? []].flat().map((value) => [name, value] as const),
  );
  return [...headers.filter(([name]) => !changed.has(name.toLowerCase())), ...added];
}

async function wholeBody(answer: Answer): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

// MERGED fault-desk.ts: Asks the fault script about each request, and remembers for it what a script goes by: which page of the walk a cursor leads to, and how often it was asked for. Without a script nothing is remembered, however long the service runs.

export interface FaultDesk {
  /** The fault for this request; `asked` is undefined where the request is refused anyway. */
  faultFor(request: number, asked: { readonly cursor?: string | undefined } | undefined): Fault | undefined;
  /** Remembers that the page asked for with `cursor` was answered with these cursors. */
  noteCursors(cursor: string | undefined, sent: readonly string[]): void;
}

export function faultDesk(script: FaultScript | undefined): FaultDesk {
  if (script === undefined) return { faultFor: () => undefined, noteCursors: () => {} };
  const pages = new Map<string, number>();
  const attempts = new Map<string | undefined, number>();
  const pageOf = (cursor: string | undefined) => (cursor === undefined ? 1 : pages.get(cursor));

  return {
    faultFor(request, asked) {
      if (asked === undefined) return script({ request, page: undefined, attempt: 1, cursor: undefined });
      const { cursor } = asked;
      const attempt = (attempts.get(cursor) ?? 0) + 1;
      attempts.set(cursor, attempt);
      return script({ request, page: pageOf(cursor), attempt, cursor });
    },
    noteCursors(cursor, sent) {
      const page = pageOf(cursor);
      if (page === undefined) return;
      // The first page that names a cursor says which page it leads to; in a cycle later ones would say otherwise.
      for (const next of sent) if (!pages.has(next)) pages.set(next, page + 1);
    },
  };
}

// MERGED fault-scripts.ts: When faults strike, and the usual faults by name. A script is asked once for each request, in the order they arrive: startSimulator({ …, faults: together( onRequest(1, refusing(503)), // the very first request onPage(3, truncated(200), { times: 2 }), // the first two attempts at page 3 onPage(5, combined(throttled('2'), delayed(50))), ) })

/** What is asked, as a script sees it. */
interface Asked {
  /** Counts the requests to this simulator from 1. */
  readonly request: number;
  /** Counts the pages of the walk from 1; undefined for a cursor that another instance gave out, and for a refused request. */
  readonly page: number | undefined;
  /** How often this page was asked for with this cursor, this time included. */
  readonly attempt: number;
  readonly cursor: string | undefined;
}

export type FaultScript = (asked: Asked) => Fault | undefined;

export const always =
  (fault: Fault): FaultScript =>
  () =>
    fault;

export const onRequest =
  (request: number, fault: Fault): FaultScript =>
  (asked) =>
    asked.request === request ? fault : undefined;

/** Strikes the first `times` attempts at the page (1 by default; Infinity for each). */
export const onPage =
  (page: number, fault: Fault, { times = 1 } = {}): FaultScript =>
  (asked) =>
    asked.page === page && asked.attempt <= times ? fault : undefined;

/** Asks every script; the faults that strike at once are combined. */
export const together =
  (...scripts: readonly FaultScript[]): FaultScript =>
  (asked) => {
    const faults = scripts.map((script) => script(asked)).filter((fault) => fault !== undefined);
    return faults.length > 0 ? combined(...faults) : undefined;
  };

/**
 * The walk goes round: after `leadIn` cursors that are as they should be come `length` that are then repeated for ever.
 * With `length: 1`, page `leadIn + 2` names the very cursor it was asked with. The walk must have more than
 * `leadIn + length` pages; on a shorter one nothing strikes.
 */
export function cyclingCursor({
  leadIn = 0,
  length,
}: {
  readonly leadIn?: number;
  readonly length: number;
}): FaultScript {
  let first: string | undefined;
  const remember = (genuine: string | undefined) => {
    first = genuine;
    return listOf(genuine);
  };
  return ({ page }) => {
    if (page === leadIn + 1) return { cursor: remember };
    if (page === leadIn + length + 1) return { cursor: () => listOf(first) };
    return undefined;
  };
}

/** Refuses every cursor that is older than `lifetimeMs`, or not of this instance, with 410. */
export function expiringCursors({
  lifetimeMs,
  now = Date.now,
}: {
  lifetimeMs: number;
  now?: () => number;
}): FaultScript {
  const issued = new Map<string, number>();
  const note = (genuine: string | undefined) => {
    if (genuine !== undefined && !issued.has(genuine)) issued.set(genuine, now());
    return listOf(genuine);
  };
  return ({ cursor }) => {
    const age = cursor === undefined ? 0 : now() - (issued.get(cursor) ?? Number.NEGATIVE_INFINITY);
    return age > lifetimeMs ? refusing(410) : { cursor: note };
  };
}

/** An error status with a small JSON body and no cursor. */
export const refusing = (status: number, message = 'This answer is scripted'): Fault => ({
  status,
  body: () => JSON.stringify({ error: 'scripted', message }),
  headers: { 'content-type': 'application/json', 'content-disposition': null },
  cursor: () => [],
});

/** Retry-After goes out as it is given: seconds (`'2'`), or a Date as an HTTP-date. */
export const throttled = (retryAfter: string | Date, status = 429): Fault =>
  combined(refusing(status), {
    headers: { 'retry-after': typeof retryAfter === 'string' ? retryAfter : retryAfter.toUTCString() },
  });

export const redirecting = (location: string, status = 302): Fault =>
  combined(refusing(status), { headers: { location } });

export const delayed = (delayMs: number): Fault => ({ delayMs });
export const dripping = (bytes: number, everyMs: number): Fault => ({ drip: { bytes, everyMs } });

/** Breaks off after so many bytes of the body, whatever the framing has promised. */
export const truncated = (at: number, framing?: Fault['framing']): Fault => ({
  cut: { at, by: 'end' },
  ...(framing && { framing }),
});
export const reset = (at: 'start' | number): Fault => ({ cut: { at, by: 'reset' } });

export const withBody = (body: string | Uint8Array): Fault => ({ body: () => body });
/** The page whole and of the promised length, but its root element is closed by another name. */
export const malformed: Fault = { body: (page) => page.toString().replace(/<\/reports>$/, '</report>') };
export const gzipped: Fault = { body: (page) => gzipSync(page), headers: { 'content-encoding': 'gzip' } };
export const typed = (contentType: string): Fault => ({ headers: { 'content-type': contentType } });
export const withoutDate: Fault = { headers: { date: null } };

export const emptyPage: Fault = { emptyPage: true };
export const cursorHeaderNamed = (cursorHeader: string): Fault => ({ cursorHeader });
/** These values instead of the genuine cursor: `cursors('')` is an empty header, `cursors('é')` is not ASCII. */
export const cursors = (...values: readonly string[]): Fault => ({ cursor: () => values });
/** The genuine cursor on two header lines. */
export const cursorTwice: Fault = { cursor: (genuine) => [...listOf(genuine), ...listOf(genuine)] };

const listOf = (value: string | undefined): readonly string[] => (value === undefined ? [] : [value]);
