/** An HTTP proxy on the loopback interface that opens tunnels (CONNECT), all of them to the same server. */

import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import { connect, type Socket } from 'node:net';
import { listen } from './loopback.ts';

interface ConnectRequest {
  /** Host and port, as the client sent them. */
  readonly authority: string;
  readonly headers: IncomingMessage['headers'];
}

export interface ProxyServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly ConnectRequest[];
  /** What the clients sent through tunnels. */
  readonly bytes: () => Buffer;
  /** Closes every tunnel, without a TLS close_notify. */
  cut(): void;
}

interface ProxyOptions {
  /** The server that every tunnel leads to, whatever its authority: a proxy resolves names that its clients cannot. */
  readonly target: { readonly url: string };
  /** `user:password`, without which the response is 407. */
  readonly credentials?: () => string;
  /** Instead of opening a tunnel: the status of the response, or what to do with the socket. */
  readonly reject?: number | ((socket: Socket) => void);
  /** Serve over TLS. */
  readonly tls?: ServerOptions;
}

export async function startProxy({ target, credentials, reject, tls }: ProxyOptions): Promise<ProxyServer> {
  const requests: ConnectRequest[] = [];
  const sent: Buffer[] = [];
  const upstreams = new Set<Socket>();
  const server = tls === undefined ? createServer() : createTlsServer(tls);
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    socket.on('error', () => {});
    requests.push({ authority: request.url ?? '', headers: request.headers });
    if (typeof reject === 'function') {
      reject(socket);
      return;
    }
    const expected = credentials === undefined ? undefined : `Basic ${Buffer.from(credentials()).toString('base64')}`;
    const isAllowed = expected === undefined || request.headers['proxy-authorization'] === expected;
    const status = isAllowed ? reject : 407;
    if (status !== undefined) {
      // A careless proxy repeats the credentials.
      const body = String(request.headers['proxy-authorization']);
      socket.end(`HTTP/1.1 ${status} ${body}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      return;
    }
    const { hostname, port } = new URL(target.url);
    const upstream = connect(Number(port), hostname);
    upstreams.add(upstream);
    upstream.on('error', () => socket.destroy());
    upstream.once('connect', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.on('data', (chunk: Buffer) => sent.push(chunk));
      socket.pipe(upstream).pipe(socket);
    });
    socket.on('close', () => upstream.destroy());
  });
  const { url, sockets, ...listening } = await listen(server);
  const cut = () => {
    for (const socket of [...sockets, ...upstreams]) socket.destroy();
  };
  return {
    url: tls === undefined ? url : url.replace('http:', 'https:'),
    requests,
    bytes: () => Buffer.concat(sent),
    cut,
    async [Symbol.asyncDispose]() {
      cut();
      await listening[Symbol.asyncDispose]();
    },
  };
}
