/** Handles one request: validates it, selects the page, injects a scripted fault, sends the response, records both. */

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCursorCodec } from './cursor.ts';
import { type Delivery, deliver } from './delivery.ts';
import { applyFault, createFaultInjector } from './fault-injector.ts';
import type { FaultScript } from './faults.ts';
import { Rejection } from './rejection.ts';
import type { ReportSource } from './report-source.ts';
import { bodyForRecord, type ExportRequest, readRequest, type UpperBounds, validateRequest } from './request.ts';
import { type Headers, pageResponse, rejectionResponse, selectPage } from './response.ts';

export interface HandlerOptions {
  /** The vendor part of the header names: `SERVICE` results in `X-SERVICE-API-KEY` and `x-service-cursor`. */
  readonly vendor: string;
  /** The only accepted key. */
  readonly apiKey: string;
  readonly reports: ReportSource;
  /** Signs the cursors: an instance with another seed rejects them. Default 1. */
  readonly seed?: string | number | undefined;
  /** Milliseconds since the epoch. Decides which reports exist, and sets the `date` header. Default: the system clock. */
  readonly now?: (() => number) | undefined;
  /** Default: honoured. */
  readonly upperBounds?: UpperBounds | undefined;
  /** See `faults.ts`. */
  readonly faults?: FaultScript | undefined;
}

/** One request and its response. Never contains the API key. */
export interface Exchange extends Delivery {
  /** Counts the requests to this simulator, from 1. */
  readonly number: number;
  readonly method: string;
  /** Path and query as received, still percent-encoded. */
  readonly target: string;
  /** Without the API key header. */
  readonly requestHeaders: IncomingHttpHeaders;
  /** Parsed if it is JSON, otherwise as text. */
  readonly requestBody: unknown;
  /** The effective cursor: query before body. undefined if none was sent or the request was invalid. */
  readonly cursor: string | undefined;

  /** 0 if the connection was closed before the status line. */
  readonly status: number;
  readonly headers: Headers;
  /** The values of the cursor header as sent: one, none on the last page, or those of a fault. */
  readonly nextCursors: readonly string[];
  /** The IDs of the reports on the page. */
  readonly reportIds: readonly string[];
}

/**
 * Returns the request listener. A request is evaluated as of the moment it has been received completely. `record` is
 * called before the client can see the end of the response.
 */
export function createHandler(options: HandlerOptions, record: (exchange: Exchange) => void, signal: AbortSignal) {
  const { vendor, apiKey, reports, seed = 1, now = Date.now, upperBounds = 'honoured', faults } = options;
  const keyHeader = `x-${vendor}-api-key`.toLowerCase();
  const cursorHeader = `x-${vendor}-cursor`.toLowerCase();
  const cursorCodec = createCursorCodec({ vendor, seed });
  const faultInjector = createFaultInjector(faults);
  let requests = 0;

  function findPage({ cursor, since, pageSize, identity, ...filter }: ExportRequest, at: number, isEmpty: boolean) {
    const { position, emptyPages } =
      cursor === undefined
        ? { position: { date: Math.max(since, reports.oldest), ordinal: 0 }, emptyPages: 0 }
        : cursorCodec.decode(cursor, identity);
    const page = selectPage(reports, filter, { start: position, limit: isEmpty ? 0 : pageSize, at });
    const next = page.next && { position: page.next, emptyPages: isEmpty ? emptyPages + 1 : 0 };
    return { page, nextCursor: next && cursorCodec.encode(next, identity) };
  }

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const received = await readRequest(request);
    const receivedAt = now();
    const number = ++requests;
    const validated = resultOrRejection(() => validateRequest(received, keyHeader, apiKey, upperBounds));
    const exportRequest = validated instanceof Rejection ? undefined : validated;
    const fault = faultInjector.faultFor(number, exportRequest);
    const found =
      validated instanceof Rejection
        ? validated
        : resultOrRejection(() => findPage(validated, receivedAt, fault?.emptyPage === true));

    if (fault?.delayMs !== undefined) await sleep(fault.delayMs, undefined, { signal });
    const regular =
      found instanceof Rejection
        ? rejectionResponse(found, now())
        : pageResponse(found.page, { header: cursorHeader, value: found.nextCursor }, now());
    const prepared = fault === undefined ? regular : await applyFault(regular, fault, cursorHeader);
    const nextCursors = prepared.headers
      .filter(([name]) => name.toLowerCase() === cursorHeader)
      .map(([, value]) => value);
    faultInjector.recordCursors(exportRequest?.cursor, nextCursors);

    const { delivery, finish } = await deliver(response, prepared, fault ?? {}, signal);
    record({
      number,
      method: received.method,
      target: received.target,
      requestHeaders: Object.fromEntries(Object.entries(received.headers).filter(([name]) => name !== keyHeader)),
      requestBody: bodyForRecord(received),
      cursor: exportRequest?.cursor,
      status: fault?.disconnect?.at === 'start' ? 0 : prepared.status,
      headers: prepared.headers,
      nextCursors,
      reportIds: prepared.reportIds,
      ...(found instanceof Rejection && found.code === 'internal_error' && { error: found.cause }),
      ...delivery,
    });
    await finish();
  };
}

/** Unexpected errors become 500 responses, so that the service stays up. */
function resultOrRejection<Result>(compute: () => Result): Result | Rejection {
  try {
    return compute();
  } catch (error) {
    if (error instanceof Rejection) return error;
    return new Rejection('internal_error', error instanceof Error ? error.message : String(error), { cause: error });
  }
}
