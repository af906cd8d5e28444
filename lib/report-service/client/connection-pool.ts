/**
 * The connections to the service: what one page has set up serves the next, so that a warm function pays for no second
 * handshake. Where a connection has to be made anew, its TLS session is resumed.
 */

import type { buildConnector } from 'undici';
import connectorOf from 'undici/lib/core/connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import type { Limits } from './limits.ts';
import { maxHeaderBytes } from './transport-errors.ts';

/**
 * How long an idle connection is kept where the service does not say. Long enough for the turn of a loop, a large upload or
 * a short wait; if the service ends it before, that is noticed before it is used again.
 */
const idleMs = 60_000;
/** However long the service says: what stands between forgets a connection after 350 s of silence (AWS's NAT gateways). */
const maxIdleMs = 300_000;

export function poolTo(base: URL, limits: Limits): Pool {
  return new Pool(base.origin, {
    connect: resuming(limits.connectTimeoutMs),
    headersTimeout: limits.headersTimeoutMs,
    bodyTimeout: limits.bodyTimeoutMs,
    maxHeaderSize: maxHeaderBytes,
    keepAliveTimeout: idleMs,
    keepAliveMaxTimeout: maxIdleMs,
    pipelining: 1,
    allowH2: false,
  });
}

/** Connects to one origin. undici remembers sessions itself, but only until the next garbage collection. */
function resuming(timeout: number): buildConnector.connector {
  let session: Buffer | undefined;
  return (options, callback) => {
    const connect = connectorOf({ timeout, allowH2: false, ...(session === undefined ? {} : { session }) });
    connect(options, (...[error, socket]) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
      // With TLS 1.3 the service sends what a session is resumed by only after the handshake, and anew each time.
      if ('getSession' in socket) {
        session = socket.getSession() ?? session;
        socket.on('session', (newer: Buffer) => {
          session = newer;
        });
      }
      callback(null, socket);
    });
  };
}
