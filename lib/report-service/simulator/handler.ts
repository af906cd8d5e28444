/**
 * One request, one answer: admit it, find the page, let a scripted fault at it, send it, note the exchange.
 */

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { cursorForm } from './cursor.ts';
import { deliver } from './delivery.ts';
import { faultDesk, withFault } from './faults.ts';
import { Refusal } from './refusal.ts';
import { admit, type ExportRequest, receive, shownBody } from './request.ts';
import { choosePage, type Headers, pageAnswer, refusalAnswer } from './response.ts';
import type { SimulatorOptions } from './simulator.ts';

/**
 * The function that answers requests. Each is judged as of the moment it has arrived whole. `note` hears of each exchange
 * before the client can know that its answer is complete.
 */
export function answering(options: SimulatorOptions, note: (exchange: Exchange) => void, signal: AbortSignal) {
  const { vendor, apiKey, reports, seed = 1, now = Date.now, faults } = options;
  const keyHeader = `x-${vendor}-api-key`.toLowerCase();
  const cursorHeader = `x-${vendor}-cursor`.toLowerCase();
  const form = cursorForm({ vendor, seed });
  const desk = faultDesk(faults);
  let requests = 0;

  function find(asked: ExportRequest, at: number, empty: boolean) {
    const beginning = { position: { date: Math.max(asked.since, reports.oldest), ordinal: 0 }, emptyPages: 0 };
    const { position, emptyPages } = asked.cursor === undefined ? beginning : form.read(asked.cursor, asked.identity);
    const page = choosePage(reports, asked, { start: position, limit: empty ? 0 : asked.pageSize, at });
    const next = page.next && { position: page.next, emptyPages: empty ? emptyPages + 1 : 0 };
    return { page, cursor: next && form.write(next, asked.identity) };
  }

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const incoming = await receive(request);
    const at = now();
    const number = ++requests;
    const asked = attempt(() => admit(incoming, keyHeader, apiKey));
    const admitted = asked instanceof Refusal ? undefined : asked;
    const fault = desk.faultFor(number, admitted);
    const found = asked instanceof Refusal ? asked : attempt(() => find(asked, at, fault?.emptyPage === true));

    if (fault?.delayMs !== undefined) await sleep(fault.delayMs, undefined, { signal });
    const genuine =
      found instanceof Refusal
        ? refusalAnswer(found, now())
        : pageAnswer(found.page, { header: cursorHeader, value: found.cursor }, now());
    const answer = fault === undefined ? genuine : await withFault(genuine, fault, cursorHeader);
    const nextCursors = answer.headers
      .filter(([name]) => name.toLowerCase() === cursorHeader)
      .map(([, value]) => value);
    desk.noteCursors(admitted?.cursor, nextCursors);

    const delivered = await deliver(response, answer, fault ?? {}, signal);
    note({
      number,
      method: incoming.method,
      target: incoming.target,
      requestHeaders: Object.fromEntries(Object.entries(incoming.headers).filter(([name]) => name !== keyHeader)),
      requestBody: shownBody(incoming),
      cursor: admitted?.cursor,
      status: fault?.cut?.at === 'start' ? 0 : answer.status,
      headers: answer.headers,
      nextCursors,
      reports: answer.reports,
      ...(found instanceof Refusal && found.code === 'internal_error' && { problem: found.cause }),
      ...delivered.facts,
    });
    await delivered.finish();
  };
}

/** What `act` yields, or why it is refused. Anything unforeseen is a refusal too: the service stays up and says so. */
function attempt<Result>(act: () => Result): Result | Refusal {
  try {
    return act();
  } catch (error) {
    if (error instanceof Refusal) return error;
    return new Refusal('internal_error', error instanceof Error ? error.message : String(error), { cause: error });
  }
}

// MERGED exchange.ts: What was asked and what was answered, for tests and for the curious. The API key is never in it.

export interface Exchange {
  /** Counts the requests to this simulator from 1. */
  readonly number: number;
  readonly method: string;
  /** Path and query as they came, percent-encoding and all. */
  readonly target: string;
  /** Without the key's header. */
  readonly requestHeaders: IncomingHttpHeaders;
  /** Parsed where it is JSON, otherwise as text. */
  readonly requestBody: unknown;
  /** The cursor in force, query before body; undefined where none was sent, or where the request could not be read. */
  readonly cursor: string | undefined;

  /** 0 where the connection was cut before the status line. */
  readonly status: number;
  readonly headers: Headers;
  /** The values of the cursor header as sent: one, or none on the last page, or whatever a fault made of it. */
  readonly nextCursors: readonly string[];
  /** The identifiers of the page's reports. */
  readonly reports: readonly string[];
  /** Bytes of the body that were handed to the connection, and their SHA-256 in lower-case hexadecimal. */
  readonly bytes: number;
  readonly sha256: string;
  /** False where a fault, the client or a report that could not be read ended the answer early. */
  readonly whole: boolean;
  /** Why the answer is not whole, where no fault was scripted; or what lies behind a 500. */
  readonly problem?: unknown;
}
