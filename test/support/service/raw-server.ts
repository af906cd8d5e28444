/**
 * An HTTP server that sends exactly the bytes that a test specifies and closes connections when the test says so.
 * `node:http` would not send most of the responses that a client must survive.
 */

import { createServer, type Socket } from 'node:net';
import { listen } from './loopback.ts';

interface RawRequest {
  readonly method: string;
  readonly target: string;
  /** With the names as they were sent. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The number of its connection, from 1. */
  readonly connection: number;
}

/** The bytes of a response, or a function that controls the socket. */
export type RawReply = string | Buffer | ((socket: Socket, request: RawRequest) => void | Promise<void>);

export interface RawServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly RawRequest[];
  /** The number of open connections. */
  readonly open: number;
}

/** Sends the nth reply to the nth request, and the last one to all later requests. Does not close connections. */
export async function startRawServer(...replies: readonly [RawReply, ...RawReply[]]): Promise<RawServer> {
  const requests: RawRequest[] = [];
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    const connection = connections;
    socket.on('error', () => {});
    let received = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const request = parse(received, connection);
      if (request === undefined) return;
      received = Buffer.alloc(0);
      requests.push(request);
      const reply = replies[Math.min(requests.length, replies.length) - 1] as RawReply;
      if (typeof reply === 'function') void reply(socket, request);
      else socket.write(reply);
    });
  });
  const { sockets, ...listening } = await listen(server);
  return {
    ...listening,
    requests,
    get open() {
      return sockets.size;
    },
  };
}

/** Parses one request with a content-length: the client under test sends no others, and does not pipeline. */
function parse(received: Buffer, connection: number): RawRequest | undefined {
  const text = received.toString('latin1');
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [requestLine = '', ...lines] = text.slice(0, end).split('\r\n');
  const [method = '', target = ''] = requestLine.split(' ');
  const headers = Object.fromEntries(lines.map((line) => line.split(/: (.*)/s) as [string, string]));
  const length = Number(headers['content-length'] ?? 0);
  const body = received.subarray(end + 4);
  return body.length < length ? undefined : { method, target, headers, body: body.toString(), connection };
}

interface ResponseParts {
  readonly status?: number | string;
  /** In this order and spelling. A list may repeat a header. */
  readonly headers?: Readonly<Record<string, string>> | readonly (readonly [string, string])[];
  readonly body?: string | Buffer;
  /** How the end of the body is marked. With `close`, the test must close the connection. */
  readonly framing?: 'length' | 'chunked' | 'close';
}

/** The bytes of a response: by default a page of two reports in XML (docs/service-contract.md, section 2.3). */
export function rawResponse({
  status = 200,
  headers = {},
  body = twoReports,
  framing = 'length',
}: ResponseParts = {}): Buffer {
  const bytes = Buffer.from(body);
  const given: readonly (readonly [string, string])[] = Array.isArray(headers) ? headers : Object.entries(headers);
  const isGiven = (name: string) => given.some(([header]) => header.toLowerCase() === name);
  const lines = [
    `HTTP/1.1 ${status} Reason`,
    ...(isGiven('content-type') ? [] : ['content-type: application/xml;charset=UTF-8']),
    ...given.map(([name, value]) => `${name}: ${value}`),
    ...{
      length: [`content-length: ${bytes.length}`],
      chunked: ['transfer-encoding: chunked'],
      close: ['connection: close'],
    }[framing],
  ];
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  return Buffer.concat([head, framing === 'chunked' ? Buffer.concat([chunk(bytes), chunk('')]) : bytes]);
}

/** One chunk of a chunked body; an empty one ends it. */
export function chunk(body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

export const twoReports =
  '<?xml version="1.0" encoding="UTF-8"?>\n<reports><report id="1">Grüße</report><report id="2"/></reports>\n';
