/** Handles one request: validates it, selects the page and sends the response. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { compressed } from './compression.ts';
import { createCursorCodec } from './cursor.ts';
import { Rejection } from './rejection.ts';
import type { ReportSource } from './report-source.ts';
import { type ExportRequest, type ReceivedRequest, readRequest, type UpperBounds, validateRequest } from './request.ts';
import { pageResponse, type PreparedResponse, rejectionResponse, selectPage } from './response.ts';

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
  /** Default: what the client accepts. */
  readonly compression?: boolean | undefined;
  /** Tests record what is sent, and inject faults. Default: sends the response as it is. */
  readonly send?: Send | undefined;
}

type Send = (response: ServerResponse, reply: Reply, signal: AbortSignal) => Promise<void>;

/** What a request is answered with. */
export interface Reply {
  readonly received: ReceivedRequest;
  /** Whether the request itself is valid. Its cursor need not be. */
  readonly isValid: boolean;
  /** The effective cursor: query before body. undefined if none was sent or the request is invalid. */
  readonly cursor: string | undefined;
  readonly rejection: Rejection | undefined;
  /** The response, dated now. */
  readonly prepare: () => PreparedResponse;
}

/** Returns the request listener. A request is evaluated as of the moment it has been received completely. */
export function createHandler(options: HandlerOptions, signal: AbortSignal) {
  const { vendor, apiKey, reports, seed = 1, now = Date.now, upperBounds = 'honoured' } = options;
  const { compression = true, send = sendUnchanged } = options;
  const keyHeader = `x-${vendor}-api-key`.toLowerCase();
  const cursorHeader = `x-${vendor}-cursor`.toLowerCase();
  const cursorCodec = createCursorCodec({ vendor, seed });

  function findPage({ cursor, since, pageSize, identity, ...filter }: ExportRequest, at: number) {
    const start =
      cursor === undefined
        ? { date: Math.max(since, reports.oldest), ordinal: 0 }
        : cursorCodec.decode(cursor, identity);
    const page = selectPage(reports, filter, { start, limit: pageSize, at });
    return { page, nextCursor: page.next && cursorCodec.encode(page.next, identity) };
  }

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const received = await readRequest(request);
    const receivedAt = now();
    const valid = resultOrRejection(() => validateRequest(received, keyHeader, apiKey, upperBounds));
    const found = valid instanceof Rejection ? valid : resultOrRejection(() => findPage(valid, receivedAt));
    const acceptEncoding = compression ? request.headers['accept-encoding'] : undefined;
    const reply = {
      received,
      isValid: !(valid instanceof Rejection),
      cursor: valid instanceof Rejection ? undefined : valid.cursor,
      rejection: found instanceof Rejection ? found : undefined,
      prepare: () =>
        compressed(
          found instanceof Rejection
            ? rejectionResponse(found, now())
            : pageResponse(found.page, { header: cursorHeader, value: found.nextCursor }, now()),
          acceptEncoding,
        ),
    };
    await send(response, reply, signal);
  };
}

/** A report that cannot be read truncates the response. */
async function sendUnchanged(response: ServerResponse, { prepare }: Reply): Promise<void> {
  const { status, headers, body } = prepare();
  // The headers have a date already.
  response.sendDate = false;
  response.writeHead(status, headers.flat());
  await pipeline(body(), response).catch(() => response.destroy());
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
