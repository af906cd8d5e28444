/**
 * Opens a tunnel to the service through an HTTP proxy (CONNECT, RFC 9110, section 9.3.6). The proxy sees host name and port
 * of the service, but neither requests nor the API key, because TLS begins within the tunnel.
 *
 * With node:http instead of undici's ProxyAgent: the agent needs undici's index, loads SOCKS, opens the TLS connections
 * itself, so that sessions are not resumed, and reports the status of a rejected CONNECT only as part of a message.
 */

import { isIP, type Socket } from 'node:net';
import tls from 'node:tls';
import type { Proxy } from './network.ts';

// Imports would load all that these normally load on demand: 30 ms of the start, with or without a proxy.
const { request: requestOverHttp } = process.getBuiltinModule('node:http');
const { request: requestOverHttps } = process.getBuiltinModule('node:https');

/** The proxy could not be reached (`status` is undefined), or rejected the tunnel. */
export class ProxyError extends Error {
  readonly code: string;
  readonly origin: string;
  readonly status: number | undefined;
  /** Whether the CONNECT had credentials. */
  readonly hadCredentials: boolean;

  constructor(
    { origin, credentials }: Proxy,
    { code, status, cause }: { readonly code: string; readonly status?: number; readonly cause?: unknown },
  ) {
    const problem = status === undefined ? `cannot be reached (${code})` : `responded with ${status} to CONNECT`;
    super(`Proxy ${origin} ${problem}`, cause === undefined ? undefined : { cause });
    this.name = 'ProxyError';
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
  readonly timeoutMs: number;
  /** Trusted for a proxy with https, in addition to the public certificate authorities. */
  readonly ca: string | undefined;
}

type TunnelResult = [error: null, socket: Socket] | [error: ProxyError, socket: null];

/** Calls `callback` once, with the connected socket or with what went wrong. */
export function openTunnel(
  proxy: Proxy,
  { authority, timeoutMs, ca }: TunnelOptions,
  callback: (...result: TunnelResult) => void,
): void {
  const { protocol, hostname, port } = new URL(proxy.origin);
  const host = hostname.replace(/^\[(.+)\]$/, '$1');
  const isTls = protocol === 'https:';
  const request = (isTls ? requestOverHttps : requestOverHttp)({
    host,
    // Otherwise node:https would expect a certificate for the host header.
    servername: isIP(host) === 0 ? host : '',
    port: port === '' ? (isTls ? 443 : 80) : Number(port),
    method: 'CONNECT',
    path: authority,
    headers: { host: authority, connection: 'keep-alive', ...authorizationOf(proxy) },
    agent: false,
    ca: isTls && ca !== undefined ? [...tls.getCACertificates('default'), ca] : undefined,
  });
  const timer = setTimeout(
    () => request.destroy(Object.assign(new Error('Timeout'), { code: 'ETIMEDOUT' })),
    timeoutMs,
  );
  let isSettled = false;
  const settle = (...result: TunnelResult) => {
    clearTimeout(timer);
    if (!isSettled) callback(...result);
    isSettled = true;
  };
  request.once('connect', ({ statusCode: status = 0 }, socket: Socket, head: Buffer) => {
    // The connection may fail while nothing reads from it.
    socket.on('error', () => {});
    if (status >= 200 && status < 300) {
      if (head.length > 0) socket.unshift(head);
      settle(null, socket);
      return;
    }
    socket.destroy();
    settle(new ProxyError(proxy, { code: `PROXY_RESPONDED_${status}`, status }), null);
  });
  request.on('error', (cause: Error & { readonly code?: string }) => {
    settle(new ProxyError(proxy, { code: cause.code ?? 'ECONNRESET', cause }), null);
  });
  request.end();
}

function authorizationOf({ credentials }: Proxy): Readonly<Record<string, string>> {
  if (credentials === undefined) return {};
  const { username, password } = credentials;
  return { 'proxy-authorization': `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` };
}
