/**
 * When faults strike, and the usual faults by name. A script is asked once for each request, in the order they arrive:
 *
 *     startSimulator({ …, faults: together(
 *       onRequest(1, refusing(503)),                                  // the very first request
 *       onPage(3, truncated(200), { times: 2 }),                      // the first two attempts at page 3
 *       onPage(5, combined(throttled('2'), delayed(50))),
 *     ) })
 */

import { gzipSync } from 'node:zlib';
import { combined, type Fault } from './faults.ts';

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
