/** Handles one request: validates it, selects the page and sends the response. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { Api } from '../../settings/api-settings.ts';
import { compressed } from './compression.ts';
import { createCursorCodec } from './cursor.ts';
import { describedApi } from './described-api.ts';
import { Rejection } from './rejection.ts';
import type { ReportSource } from './report-source.ts';
import { type ReceivedRequest, readRequest, type UpperBounds, validateRequest } from './request.ts';
import { pageResponse, type PreparedResponse, rejectionResponse, selectPage, type Validate } from './response.ts';

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
  /** The API to serve. Default: the Report Export Service. */
  readonly api?: Api | undefined;
  /** Default: what the client accepts. */
  readonly compression?: boolean | undefined;
  /** Tests record what is sent, and inject faults. Default: sends the response as it is. */
  readonly send?: Send | undefined;
}

type Send = (response: ServerResponse, reply: Reply, signal: AbortSignal) => Promise<void>;

/** What a request is answered with. */
export interface Reply {
  readonly received: ReceivedRequest;
  /** Whether it is a valid request for a page. Its cursor need not be. */
  readonly isValid: boolean;
  /** The effective cursor: query before body. undefined if none was sent or the request is invalid. */
  readonly cursor: string | undefined;
  readonly rejection: Rejection | undefined;
  /** The response, dated now. */
  readonly prepare: () => PreparedResponse;
}

/** Returns the request listener. A request is evaluated as of the moment it has been received completely. */
export function createHandler(options: HandlerOptions, signal: AbortSignal) {
  const { api, now = Date.now, compression = true, send = sendUnchanged } = options;
  const validate = api === undefined ? reportExportService(options) : describedApi(api, options);

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const received = await readRequest(request);
    const receivedAt = now();
    const valid = resultOrRejection(() => validate(received, receivedAt));
    const answer = valid instanceof Rejection ? valid : resultOrRejection(() => valid.answer(receivedAt));
    const acceptEncoding = compression ? request.headers['accept-encoding'] : undefined;
    const reply = {
      received,
      isValid: !(valid instanceof Rejection) && valid.isForPage,
      cursor: valid instanceof Rejection ? undefined : valid.cursor,
      rejection: answer instanceof Rejection ? answer : undefined,
      prepare: () =>
        compressed(answer instanceof Rejection ? rejectionResponse(answer, now()) : answer(now()), acceptEncoding),
    };
    await send(response, reply, signal);
  };
}

function reportExportService({
  vendor,
  apiKey,
  reports,
  seed = 1,
  upperBounds = 'honoured',
}: HandlerOptions): Validate {
  const keyHeader = `x-${vendor}-api-key`.toLowerCase();
  const cursorHeader = `x-${vendor}-cursor`.toLowerCase();
  const cursorCodec = createCursorCodec({ vendor, seed });

  return (received) => {
    const valid = validateRequest(received, keyHeader, apiKey, upperBounds);
    const { cursor, since, pageSize, identity, ...filter } = valid;
    return {
      cursor,
      isForPage: true,
      answer(at) {
        const start =
          cursor === undefined
            ? { date: Math.max(since, reports.oldest), ordinal: 0 }
            : cursorCodec.decode(cursor, identity);
        const page = selectPage(reports, filter, { start, limit: pageSize, at });
        const nextCursor = page.next && cursorCodec.encode(page.next, identity);
        return (now) => pageResponse(page, { header: cursorHeader, value: nextCursor }, now);
      },
    };
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
