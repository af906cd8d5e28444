/** Shared connections to one server. New certificates or credentials get another pool. */

import { callbackify, isDeepStrictEqual } from 'node:util';
import type { buildConnector, Dispatcher } from 'undici';
import createConnector from 'undici/lib/core/connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import type { ServiceNetwork, Timeouts } from '../network/network.ts';
import { openTunnel } from '../network/tunnel.ts';
import { maxResponseHeaderBytes } from './connection-errors.ts';

/** Opens connections to the origin of `base` as they are needed. */
export type CreatePool = (base: URL, timeouts: Timeouts, network: ServiceNetwork) => Dispatcher;

export function createPools(base: URL, timeouts: Timeouts, createPool: CreatePool = openPool) {
  // Requests in progress keep the pool that they began with. Its idle connections time out.
  const pools: Dispatcher[] = [];
  let current: ServiceNetwork | undefined;
  return {
    /** The newest pool, unless `network` is another one than it was opened with. */
    poolFor(network: ServiceNetwork): Dispatcher {
      const [newest] = pools;
      if (newest !== undefined && isDeepStrictEqual(network, current)) return newest;
      const pool = createPool(base, timeouts, network);
      pools.unshift(pool);
      current = network;
      return pool;
    },
    async destroy(): Promise<void> {
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
}

/**
 * How long to keep an idle connection if the service does not say: long enough for one iteration of the state machine,
 * a large upload or a short wait. If the service closes it earlier, the pool notices before reusing it.
 */
const keepAliveMs = 60_000;
/** The upper limit on what the service says: AWS NAT gateways drop connections after 350 s without traffic. */
const maxKeepAliveMs = 300_000;

function openPool(base: URL, { connectTimeout, headersTimeout, bodyTimeout }: Timeouts, network: ServiceNetwork): Pool {
  return new Pool(base.origin, {
    connect: createConnect(base, connectTimeout, network),
    headersTimeout,
    bodyTimeout,
    maxHeaderSize: maxResponseHeaderBytes,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: maxKeepAliveMs,
    pipelining: 1,
    allowH2: false,
  });
}

/** For a single origin. undici keeps TLS sessions by weak references only, which garbage collection clears. */
function createConnect(
  base: URL,
  timeout: number,
  { proxy, ca, clientCertificate }: ServiceNetwork,
): buildConnector.connector {
  let session: Buffer | undefined;
  const connect: buildConnector.connector = (options, callback) =>
    createConnector({ ca, ...clientCertificate, timeout, allowH2: false, session })(options, (...[error, socket]) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
      // As undici does for its own errors: a connection that brought no data may have been rejected for its
      // certificate.
      socket.on('error', (cause: Error) => Object.assign(cause, { socket: { bytesRead: socket.bytesRead } }));
      // In TLS 1.3, session tickets arrive after the handshake, new ones for each connection.
      if ('getSession' in socket) {
        session = socket.getSession() ?? session;
        socket.on('session', (newSession: Buffer) => {
          session = newSession;
        });
      }
      callback(null, socket);
    });
  if (proxy === undefined) return connect;
  const isTls = base.protocol === 'https:';
  const authority = `${base.hostname}:${base.port || (isTls ? 443 : 80)}`;
  const open = callbackify(() => openTunnel(proxy, { authority, timeout, ca }));
  return (options, callback) =>
    open((error, httpSocket) => {
      if (error !== null) callback(error, null);
      else if (isTls) connect({ ...options, httpSocket }, callback);
      else callback(null, httpSocket);
    });
}
