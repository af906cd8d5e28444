/** Serves the Report Export Service on loopback: for `npm start`, `--simulate` and tests. */

import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import {
  type Answer,
  type AnswerRequest,
  commonHeaders,
  type Headers,
  type ReceivedRequest,
  rejectionOf,
  reportExportService,
  type ReportExportServiceOptions,
} from './report-export-service.ts';

// An import of node:http would load all that it normally loads on demand: 30 ms of the start.
const { createServer } = process.getBuiltinModule('node:http');

export interface SimulatorOptions extends ReportExportServiceOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  /** Milliseconds since the epoch. Decides which reports exist, and sets `date`. Default: the system clock. */
  readonly now?: () => number;
  /** Whether to send gzip to a client that accepts it. Default: true. */
  readonly compression?: boolean;
  /** Tests serve other APIs. Default: the Report Export Service. */
  readonly answer?: AnswerRequest | undefined;
  /** Tests record what is sent, and inject faults. Default: sends the response as it is. */
  readonly send?: (response: ServerResponse, reply: Reply, signal: AbortSignal) => Promise<void>;
}

export interface Reply {
  readonly received: ReceivedRequest;
  readonly answer: Answer;
  /** The whole response, dated now. */
  readonly prepare: () => PreparedResponse;
}

export interface PreparedResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

export interface Simulator extends AsyncDisposable {
  /** For example `http://127.0.0.1:41234`, without a trailing slash. */
  readonly baseUrl: string;
  readonly port: number;
  /** Stops immediately: closes open connections and cancels responses in flight. */
  close(): Promise<void>;
}

/** Starts the service on 127.0.0.1. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const { port = 0, now = Date.now, compression = true } = options;
  const { answer = reportExportService(options), send = sendUnchanged } = options;
  const closing = new AbortController();
  const inFlight = new Set<Promise<void>>();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const received = await readRequest(request);
    const isGzip = compression && acceptsGzip.test(request.headers['accept-encoding'] ?? '');
    const answered = answerOrRejection(answer, received, now());
    const prepare = () => prepared(answered, { at: now(), isGzip });
    await send(response, { received, answer: answered, prepare }, closing.signal);
  }
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
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const { port: boundPort } = server.address() as AddressInfo;

  let closed: Promise<unknown> | undefined;
  async function close() {
    closed ??= once(server.close(), 'close');
    closing.abort();
    server.closeAllConnections();
    await Promise.allSettled([closed, ...inFlight]);
  }
  return { baseUrl: `http://127.0.0.1:${boundPort}`, port: boundPort, close, [Symbol.asyncDispose]: close };
}

const acceptsGzip = /(^|,)\s*gzip\s*(,|$)/i;
const maxBodyBytes = 64 * 1_024;

/** A body that is too long is read to its end and discarded, so that the client gets its response. */
async function readRequest(request: IncomingMessage): Promise<ReceivedRequest> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= maxBodyBytes) chunks.push(chunk);
  }
  const { method = '', url = '', headers } = request;
  return { method, target: url, headers, body: size > maxBodyBytes ? undefined : Buffer.concat(chunks) };
}

function answerOrRejection(answer: AnswerRequest, received: ReceivedRequest, at: number): Answer {
  try {
    return answer(received, at);
  } catch (error) {
    return rejectionOf(error);
  }
}

function prepared(
  { status, headers, body }: Answer,
  { at, isGzip }: { readonly at: number; readonly isGzip: boolean },
): PreparedResponse {
  const sent = isGzip && status !== 204 ? gzipSync(body) : body;
  const ofEncoding: Headers = [
    ['vary', 'Accept-Encoding'],
    ['content-encoding', 'gzip'],
  ];
  const ofBody: Headers = [...(isGzip ? ofEncoding : []), ['content-length', String(sent.length)]];
  return { status, headers: [...commonHeaders(at), ...headers, ...(status === 204 ? [] : ofBody)], body: sent };
}

async function sendUnchanged(response: ServerResponse, { prepare }: Reply): Promise<void> {
  const { status, headers, body } = prepare();
  // The headers have a date already.
  response.sendDate = false;
  response.writeHead(status, headers.flat()).end(body);
}
