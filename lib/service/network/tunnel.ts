/**
 * Opens a tunnel to the service through an HTTP proxy (CONNECT, RFC 9110, section 9.3.6). The proxy sees host name and
 * port of the service, but neither requests nor the API key, because TLS begins within the tunnel.
 *
 * Not with undici's ProxyAgent: it needs undici's index, loads SOCKS, opens the TLS connections itself, so that
 * sessions are not resumed, and reports the status of a rejected CONNECT only as part of a message.
 */

import { once } from 'node:events';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import tls from 'node:tls';
import { codeOf } from '../../core/errors.ts';
import type { Proxy } from './network.ts';

/** The proxy could not be reached (`status` is undefined), or rejected the tunnel. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  readonly code: string;
  readonly origin: string;
  readonly status: number | undefined;
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
  /** Until the proxy has responded. */
  readonly timeout: number;
  /** Trusted for a proxy with https, in addition to the public certificate authorities. */
  readonly ca: string | undefined;
}

/** @throws ProxyError */
export async function openTunnel(proxy: Proxy, { authority, timeout, ca }: TunnelOptions): Promise<Socket> {
  // As a list, so that TLS does not expect a certificate for the host header.
  const headers = ['host', authority, ...authorizationOf(proxy)];
  const signal = AbortSignal.timeout(timeout);
  const options = { method: 'CONNECT', path: authority, headers, signal, agent: false };
  const trusted = ca === undefined ? undefined : [...tls.getCACertificates('default'), ca];
  const request = proxy.origin.startsWith('https:')
    ? https.request(proxy.origin, { ...options, ca: trusted })
    : http.request(proxy.origin, options);
  request.end();
  const [{ statusCode: status = 0 }, socket] = (await once(request, 'connect').catch((cause: unknown) => {
    // HPE_…: of the parser.
    const code = codeOf(cause)
      .replace(/^HPE_.*/, 'NOT_HTTP')
      .replace('ABORT_ERR', 'ETIMEDOUT');
    throw new ProxyError(proxy, code, undefined, cause);
  })) as [IncomingMessage, Socket];
  // The connection may fail while nothing reads from it.
  socket.on('error', () => {});
  if (status >= 200 && status < 300) return socket;
  socket.destroy();
  throw new ProxyError(proxy, `PROXY_RESPONDED_${status}`, status);
}

function authorizationOf({ credentials }: Proxy): readonly string[] {
  if (credentials === undefined) return [];
  const { username, password } = credentials;
  return ['proxy-authorization', `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`];
}
