/**
 * Creates the connection pools: one, and another whenever certificates or credentials have changed. A connection is reused
 * for later pages, so a warm function needs no second handshake; a new one resumes the TLS session of the last one.
 */

import { isDeepStrictEqual } from 'node:util';
import type { buildConnector, Dispatcher } from 'undici';
import createConnector from 'undici/lib/core/connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import type { ClientCertificate } from '../../settings/certificates.ts';
import type { NetworkSource, ServiceNetwork } from '../network/network.ts';
import { mayRejectCredentials, rejectsCredentials } from '../network/errors.ts';
import { openTunnel } from '../network/tunnel.ts';
import type { Deadline, Timeouts } from './deadline.ts';
import { maxHeaderBytes } from './transport-errors.ts';

/**
 * How long to keep an idle connection if the service does not say: long enough for one iteration of the state machine, a
 * large upload or a short wait. If the service closes it earlier, the pool notices before reusing it.
 */
const keepAliveMs = 60_000;
/** The upper limit on what the service says: AWS NAT gateways drop connections after 350 s without traffic. */
const maxKeepAliveMs = 300_000;

export interface Connections {
  /** For the next request. @throws the errors of the network's source */
  pool(): Promise<Dispatcher>;
  /** For the next request, after reading certificates and credentials again. The same as before if they have not changed. */
  refresh(): Promise<Dispatcher>;
  destroy(): Promise<void>;
}

/** Opens connections to the origin of `base` as they are needed. */
export type CreatePool = (base: URL, timeouts: Timeouts, network: ServiceNetwork) => Dispatcher;

export function createConnections(
  base: URL,
  timeouts: Timeouts,
  source: NetworkSource,
  create: CreatePool = createPool,
): Connections {
  // Requests in progress keep the pool that they began with. Its idle connections time out.
  const pools: Dispatcher[] = [];
  let current: ServiceNetwork | undefined;
  function poolFor(network: ServiceNetwork): Dispatcher {
    const [newest] = pools;
    if (newest !== undefined && isDeepStrictEqual(network, current)) return newest;
    const pool = create(base, timeouts, network);
    pools.unshift(pool);
    current = network;
    return pool;
  }
  return {
    pool: async () => poolFor(await source.get()),
    refresh: async () => poolFor(await source.refresh()),
    async destroy() {
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
}

/** One request, under its deadline. */
export interface Attempt {
  readonly deadline: Deadline;
  /** Turns an error of the connection into the error to throw. `bytesRead` counts those of the body; undefined before the headers. */
  readonly translate: (error: unknown, bytesRead?: number) => unknown;
}

/** The result of `action`, within the deadline. Its own errors are rethrown. */
export async function withinDeadline<Value>(
  { deadline, translate }: Attempt,
  action: () => Promise<Value>,
): Promise<Value> {
  return await deadline.race(action()).catch((error: unknown) => {
    throw deadline.endedBy === undefined ? error : translate(error);
  });
}

/** Sends a request. If a proxy or the TLS handshake rejects the credentials, and there are newer ones, sends it with these. */
export async function sendOver<Response>(
  connections: Connections,
  attempt: Attempt,
  send: (pool: Dispatcher) => Promise<Response>,
): Promise<Response> {
  const { translate } = attempt;
  const pool = await withinDeadline(attempt, () => connections.pool());
  try {
    return await send(pool);
  } catch (error) {
    const areRejected = rejectsCredentials(error);
    if (!areRejected && !mayRejectCredentials(error)) throw translate(error);
    const refreshedPool = await withinDeadline(attempt, () => connections.refresh()).catch((refreshError: unknown) => {
      throw areRejected ? refreshError : translate(error);
    });
    if (refreshedPool === pool) throw translate(error);
    return await send(refreshedPool).catch((secondError: unknown) => {
      throw translate(secondError);
    });
  }
}

function createPool(base: URL, timeouts: Timeouts, network: ServiceNetwork): Pool {
  return new Pool(base.origin, {
    connect: createConnect(base, timeouts.connectTimeout, network),
    headersTimeout: timeouts.headersTimeout,
    bodyTimeout: timeouts.bodyTimeout,
    maxHeaderSize: maxHeaderBytes,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: maxKeepAliveMs,
    pipelining: 1,
    allowH2: false,
  });
}

function createConnect(base: URL, timeout: number, network: ServiceNetwork): buildConnector.connector {
  const { proxy, ca, clientCertificate } = network;
  const connect = createResumingConnector(timeout, { ca, ...clientCertificate });
  if (proxy === undefined) return connect;
  const isTls = base.protocol === 'https:';
  const authority = `${base.hostname}:${base.port || (isTls ? 443 : 80)}`;
  return (options, callback) => {
    openTunnel(proxy, { authority, timeoutMs: timeout, ca }, (...[error, httpSocket]) => {
      if (error !== null) callback(error, null);
      else if (isTls) connect({ ...options, httpSocket }, callback);
      else callback(null, httpSocket);
    });
  };
}

/** For a single origin. undici keeps TLS sessions by weak references only, which garbage collection clears. */
function createResumingConnector(
  timeout: number,
  tls: Partial<ClientCertificate> & { readonly ca?: string },
): buildConnector.connector {
  let session: Buffer | undefined;
  return (options, callback) => {
    const connect = createConnector({ ...tls, timeout, allowH2: false, session });
    connect(options, (...[error, socket]) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
      // As undici does for its own errors: a connection that brought no data may have been rejected for its certificate.
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
  };
}
