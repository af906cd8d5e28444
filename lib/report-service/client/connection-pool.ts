/**
 * Creates the connection pool. A connection is reused for later pages, so that a warm function pays for no second
 * handshake; a new connection resumes the TLS session of the last one.
 */

import type { buildConnector } from 'undici';
import createConnector from 'undici/lib/core/connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import type { Limits } from './limits.ts';
import { maxHeaderBytes } from './transport-errors.ts';

/**
 * How long to keep an idle connection if the service does not say: long enough for one iteration of the state machine, a
 * large upload or a short wait. If the service closes it earlier, the pool notices before reusing it.
 */
const keepAliveMs = 60_000;
/** The upper limit on what the service says: AWS NAT gateways drop connections after 350 s without traffic. */
const maxKeepAliveMs = 300_000;

export function createPool(base: URL, limits: Limits): Pool {
  return new Pool(base.origin, {
    connect: createResumingConnector(limits.connectTimeoutMs),
    headersTimeout: limits.headersTimeoutMs,
    bodyTimeout: limits.bodyTimeoutMs,
    maxHeaderSize: maxHeaderBytes,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: maxKeepAliveMs,
    pipelining: 1,
    allowH2: false,
  });
}

/** For a single origin. undici keeps TLS sessions by weak references only, which garbage collection clears. */
function createResumingConnector(timeout: number): buildConnector.connector {
  let session: Buffer | undefined;
  return (options, callback) => {
    const connect = createConnector({ timeout, allowH2: false, ...(session === undefined ? {} : { session }) });
    connect(options, (...[error, socket]) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
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
