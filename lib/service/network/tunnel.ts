/**
 * Opens a tunnel to the service through an HTTP proxy (CONNECT, RFC 9110, section 9.3.6). The proxy sees host name and port
 * of the service, but neither requests nor the API key, because TLS begins within the tunnel.
 *
 * Not with undici's ProxyAgent: it needs undici's index, loads SOCKS, opens the TLS connections itself, so that sessions are not
 * resumed, and reports the status of a rejected CONNECT only as part of a message.
 */

import type { Socket } from 'node:net';
import tls from 'node:tls';
import connect from 'undici/lib/api/api-connect.js';
import createConnector from 'undici/lib/core/connect.js';
import Client from 'undici/lib/dispatcher/client.js';
import { codeOf } from '../../core/errors.ts';
import type { Proxy } from './network.ts';

/** The proxy could not be reached (`status` is undefined), or rejected the tunnel. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  readonly code: string;
  readonly origin: string;
  readonly status: number | undefined;
  /** Whether the CONNECT had credentials. */
  readonly hadCredentials: boolean;

  constructor({ origin, credentials }: Proxy, code: string, status?: number, cause?: unknown) {
    const problem = status === undefined ? `cannot be reached (${code})` : `responded with ${status} to CONNECT`;
    super(`Proxy ${origin} ${problem}`, { cause });
    this.code = code;
    this.origin = origin;
    this.status = status;
    this.hadCredentials = credentials !== undefined;
  }
}

export interface TunnelOptions {
  /** Host and port of the service. */
  readonly authority: string;
  /** To connect to the proxy, and until it has responded. */
  readonly timeout: number;
  /** Trusted for a proxy with https, in addition to the public certificate authorities. */
  readonly ca: string | undefined;
}

/** @throws ProxyError */
export async function openTunnel(proxy: Proxy, { authority, timeout, ca }: TunnelOptions): Promise<Socket> {
  const trusted = ca === undefined ? undefined : [...tls.getCACertificates('default'), ca];
  const connector = createConnector({ ca: trusted, timeout, allowH2: false });
  const client = new Client(proxy.origin, {
    // Without this, the proxy would need a certificate for the host header.
    connect: (options, callback) => connector({ ...options, servername: undefined }, callback),
    headersTimeout: timeout,
  });
  const headers = { host: authority, ...authorizationOf(proxy) };
  const { statusCode: status, socket } = await connect
    .call(client, { origin: proxy.origin, path: authority, headers })
    .catch((cause: unknown) => {
      void client.destroy();
      // With undici's own code, the pool would try again without end.
      const code = isNotHttp(cause) ? 'NOT_HTTP' : codeOf(cause).replace(/^(UND_ERR_SOCKET)?$/, 'ECONNRESET');
      throw new ProxyError(proxy, code, undefined, cause);
    });
  // The connection may fail while nothing reads from it.
  socket.on('error', () => {});
  if (status >= 200 && status < 300) return socket as Socket;
  socket.destroy();
  throw new ProxyError(proxy, `PROXY_RESPONDED_${status}`, status);
}

const isNotHttp = (error: unknown): boolean => error instanceof Error && error.name === 'HTTPParserError';

function authorizationOf({ credentials }: Proxy): Readonly<Record<string, string>> {
  if (credentials === undefined) return {};
  const { username, password } = credentials;
  return { 'proxy-authorization': `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` };
}
