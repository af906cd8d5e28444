/**
 * A Report Export Service on loopback, implemented from docs/service-contract.md independently of the client, so that
 * tests hold the client to the contract and not to itself.
 *
 * It follows sections 2 to 5 and 8 of the contract rule by rule. Where the contract is silent, it behaves as a careful
 * service would, and the code documents the assumption: accepted request fields, status codes and
 * error bodies in `request.ts`, the order of reports in `report-source.ts`.
 *
 * The simulator keeps no state between requests. A cursor contains its own position, so a new instance with the same
 * vendor, seed and reports accepts the cursors of the previous one.
 */

import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { codeOf, ExportError } from '../../core/errors.ts';
import { createCursorCodec } from './cursor.ts';
import type { ReportSource } from './report-source.ts';
import { type ReceivedRequest, readRequest, Rejection, validateRequest } from './request.ts';
import {
  commonHeaders,
  inGzip,
  pageResponse,
  type PreparedResponse,
  rejectionResponse,
  selectPage,
  type Validate,
} from './response.ts';

// An import of node:http would load all that it normally loads on demand: 30 ms of the start.
const { createServer } = process.getBuiltinModule('node:http');

export interface SimulatorOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  /** The vendor part of the header names: `SERVICE` results in `X-SERVICE-API-KEY` and `x-service-cursor`. */
  readonly vendor: string;
  /** The only accepted key. */
  readonly apiKey: string;
  readonly reports: ReportSource;
  /** Signs the cursors: an instance with another seed rejects them. Default 1. */
  readonly seed?: string | number;
  /** Milliseconds since the epoch. Decides which reports exist, and sets `date`. Default: the system clock. */
  readonly now?: () => number;
  /** Tests serve other APIs. Default: the Report Export Service. */
  readonly validate?: Validate;
  /** Whether to send gzip to a client that accepts it. Default: true. */
  readonly compression?: boolean;
  /** Tests record what is sent, and inject faults. Default: sends the response as it is. */
  readonly send?: Send;
}

type Send = (response: ServerResponse, reply: Reply, signal: AbortSignal) => Promise<void>;

/** The answer to a request. */
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

export interface Simulator extends AsyncDisposable {
  /** For example `http://127.0.0.1:41234`, without a trailing slash. */
  readonly baseUrl: string;
  readonly port: number;
  /** Stops immediately: closes open connections and cancels responses in flight. */
  close(): Promise<void>;
}

/**
 * Starts the service on 127.0.0.1.
 * @throws ConfigurationError if the port cannot be used
 */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const closing = new AbortController();
  const handle = createHandler(options, closing.signal);
  const inFlight = new Set<Promise<void>>();
  const server = createServer((request, response) => {
    const handled = handle(request, response)
      .catch((error: unknown) => {
        response.destroy();
        // Expected if the client has disconnected or the simulator is closing. Anything else is a bug: fail loudly.
        if (!request.errored && !closing.signal.aborted) throw error;
      })
      .finally(() => inFlight.delete(handled));
    inFlight.add(handled);
  });
  const boundPort = await listen(server, options.port ?? 0);

  let closed: Promise<unknown> | undefined;
  async function close() {
    closed ??= once(server.close(), 'close');
    closing.abort();
    server.closeAllConnections();
    await Promise.allSettled([closed, ...inFlight]);
  }
  return {
    baseUrl: `http://127.0.0.1:${boundPort}`,
    port: boundPort,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Resolves to the bound port. */
async function listen(server: Server, port: number): Promise<number> {
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    const reason = codeOf(cause) === 'EADDRINUSE' ? 'the port is in use' : message;
    throw new ExportError(
      'ConfigurationError',
      `The simulator cannot listen on 127.0.0.1:${port}: ${reason}. Choose another --port`,
      { cause },
    );
  }
  return (server.address() as AddressInfo).port;
}

/** Returns the request listener. A request is evaluated as of the moment it has been received completely. */
function createHandler(options: SimulatorOptions, signal: AbortSignal) {
  const { validate = reportExportService(options), now = Date.now, compression = true, send = sendUnchanged } = options;

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const received = await readRequest(request);
    const valid = resultOrRejection(() => validate(received, now()));
    const answer = valid instanceof Rejection ? valid : resultOrRejection(valid.answer);
    const rejection = answer instanceof Rejection ? answer : undefined;
    const prepared = answer instanceof Rejection ? rejectionResponse(answer) : answer;
    const isGzip = compression && acceptsGzip.test(request.headers['accept-encoding'] ?? '');
    const isAccepted = !(valid instanceof Rejection);
    await send(
      response,
      {
        received,
        isValid: isAccepted && valid.isForPage,
        cursor: isAccepted ? valid.cursor : undefined,
        rejection,
        prepare() {
          const dated = { ...prepared, headers: [...commonHeaders(now()), ...prepared.headers] };
          return isGzip ? inGzip(dated) : dated;
        },
      },
      signal,
    );
  };
}

const acceptsGzip = /(^|,)\s*gzip\s*(,|$)/i;

function reportExportService({ vendor, apiKey, reports, seed = 1 }: SimulatorOptions): Validate {
  const keyHeader = `x-${vendor}-api-key`.toLowerCase();
  const cursorHeader = `x-${vendor}-cursor`.toLowerCase();
  const cursorCodec = createCursorCodec({ vendor, seed });

  return (received, at) => {
    const { cursor, since, pageSize, identity, ...filter } = validateRequest(received, keyHeader, apiKey);
    return {
      cursor,
      isForPage: true,
      answer() {
        const start =
          cursor === undefined
            ? { date: Math.max(since, reports.oldest), ordinal: 0 }
            : cursorCodec.decode(cursor, identity);
        const page = selectPage(reports, filter, { start, limit: pageSize, at });
        return pageResponse(page, cursorHeader, page.next && cursorCodec.encode(page.next, identity));
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
