/**
 * Exchanges with one server: requests under one deadline, over connections that are reused, with errors of the connection
 * translated. Another pool is created whenever certificates or credentials have changed.
 */

import { callbackify, isDeepStrictEqual } from 'node:util';
import type { buildConnector, Dispatcher } from 'undici';
import sendRequest from 'undici/lib/api/api-request.js';
import createConnector from 'undici/lib/core/connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import type { PageTiming } from '../../core/model.ts';
import type { Clock } from '../../core/ports.ts';
import { instantOf } from '../../core/timestamps.ts';
import type { NetworkSource, ServiceNetwork, Timeouts } from '../network/network.ts';
import { openTunnel } from '../network/tunnel.ts';
import { connectionError, maxHeaderBytes, mayRejectCredentials, rejectsCredentials } from './connection-errors.ts';
import type { ErrorContext, Server } from './errors.ts';
import { withRequestId } from './response/response-headers.ts';

/** Opens connections to the origin of `base` as they are needed. */
export type CreatePool = (base: URL, timeouts: Timeouts, network: ServiceNetwork) => Dispatcher;

export interface ExchangeOptions {
  readonly timeouts: Timeouts;
  readonly network: NetworkSource;
  readonly clock: Clock;
  /** The keys that must not be shown. */
  readonly keys: ReadonlySet<string>;
  /** By default undici's pool. */
  readonly createPool?: CreatePool;
}

export interface Response extends Dispatcher.ResponseData {
  readonly timing: PageTiming;
}

/** Builds a request right before it is sent. */
type BuildRequest = () => Omit<Dispatcher.RequestOptions, 'origin'>;

export type Exchange = ReturnType<ReturnType<typeof createExchanges>['begin']>;

export function createExchanges(
  server: Server,
  { timeouts, network: source, clock, keys, createPool = openPool }: ExchangeOptions,
) {
  const { base } = server;
  // Requests in progress keep the pool that they began with. Its idle connections time out.
  const pools: Dispatcher[] = [];
  let current: ServiceNetwork | undefined;
  function poolFor(network: ServiceNetwork): Dispatcher {
    const [newest] = pools;
    if (newest !== undefined && isDeepStrictEqual(network, current)) return newest;
    const pool = createPool(base, timeouts, network);
    pools.unshift(pool);
    current = network;
    return pool;
  }

  /** Disposing of an exchange stops its timer and closes the connection of a response that has not been read. */
  function begin(label: string, callerSignal?: AbortSignal) {
    const deadline = startDeadline(timeouts.totalTimeout, callerSignal, clock);
    let context: ErrorContext = { label, server, keys };
    let pool: Dispatcher | undefined;
    let response: Response | undefined;

    /** The error to throw for an error of the connection, after so many bytes of the body. */
    const explain = (error: unknown, bytesRead?: number): unknown =>
      deadline.endedBy === 'caller'
        ? callerSignal?.reason
        : connectionError(context, error, { isLate: deadline.endedBy === 'time', timeouts, bytesRead });
    /** The result of `action`, within the deadline. Its own errors are rethrown. */
    const within = <Value>(action: () => Promise<Value>): Promise<Value> =>
      deadline.race(action()).catch((error: unknown) => {
        throw deadline.endedBy === undefined ? error : explain(error);
      });
    /** Reads certificates and credentials again. False: those of the last request are still the same. */
    async function refreshNetwork(): Promise<boolean> {
      const former = pool;
      pool = poolFor(await within(() => source.refresh()));
      return pool !== former;
    }
    async function sendOnce(build: BuildRequest): Promise<Response> {
      const options = { ...build(), origin: base.origin, signal: deadline.signal };
      const requestedAt = instantOf(clock.now());
      const sentAt = clock.monotonicNow();
      const received = await deadline.race(sendRequest.call(pool as Dispatcher, options));
      const timing = { requestedAt, latencyMs: Math.round(clock.monotonicNow() - sentAt) };
      // A body that is destroyed before it is read emits an error, which would end the process without a listener.
      received.body.on('error', () => {});
      response = { ...received, timing };
      context = withRequestId(context, received.headers);
      return response;
    }
    /**
     * Sends what `build` returns. If a proxy or the TLS handshake rejects the credentials, and there are newer ones, sends it
     * with these. The body of the last response is no longer needed.
     */
    async function send(build: BuildRequest): Promise<Response> {
      response?.body.destroy();
      context = { label, server, keys };
      pool ??= poolFor(await within(() => source.get()));
      try {
        return await sendOnce(build);
      } catch (error) {
        const areRejected = rejectsCredentials(error);
        if (!areRejected && !mayRejectCredentials(error)) throw explain(error);
        const areNew = await refreshNetwork().catch((refreshError: unknown) => {
          throw areRejected ? refreshError : explain(error);
        });
        if (!areNew) throw explain(error);
      }
      return await sendOnce(build).catch((error: unknown) => {
        throw explain(error);
      });
    }

    return {
      /** With the request ID of the response, once there is one. */
      get context() {
        return context;
      },
      within,
      refreshNetwork,
      explain,
      send,
      [Symbol.dispose]() {
        response?.body.destroy();
        deadline.release();
      },
    };
  }

  return {
    begin,
    /** Closes every connection. */
    async destroy(): Promise<void> {
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
}

/** Shared, because creating an error costs more than most work for a request. It is never shown. */
const released = new Error('The request is over');

/**
 * Ends a request when its total time is up or its caller aborts, whichever comes first. Each of undici's timeouts covers
 * one phase only, so a body that trickles in steadily would never time out.
 */
function startDeadline(totalMs: number, callerSignal: AbortSignal | undefined, { sleep }: Pick<Clock, 'sleep'>) {
  const controller = new AbortController();
  const timer = new AbortController();
  // One for all races: listeners of a signal cost more than most work for a request.
  const { promise: ended, reject } = Promise.withResolvers<never>();
  ended.catch(() => {});
  let endedBy: 'time' | 'caller' | undefined;
  const end = (by: 'time' | 'caller') => {
    endedBy ??= by;
    // Always an Error, whatever the caller's reason: streams accept nothing else.
    const reason = new Error(by === 'time' ? 'The total time is up' : 'The caller aborted the request');
    controller.abort(reason);
    reject(reason);
  };
  const onAbort = () => end('caller');
  sleep(totalMs, timer.signal).then(
    () => end('time'),
    () => {},
  );
  callerSignal?.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    /** What ended the request; undefined while nothing has. */
    get endedBy() {
      return endedBy;
    },
    /** Settles like `promise`, or rejects when the request ends: undici ignores the signal until it is connected. */
    race: <Value>(promise: Promise<Value>): Promise<Value> => Promise.race([promise, ended]),
    release() {
      timer.abort(released);
      callerSignal?.removeEventListener('abort', onAbort);
    },
  };
}

/**
 * How long to keep an idle connection if the service does not say: long enough for one iteration of the state machine, a
 * large upload or a short wait. If the service closes it earlier, the pool notices before reusing it.
 */
const keepAliveMs = 60_000;
/** The upper limit on what the service says: AWS NAT gateways drop connections after 350 s without traffic. */
const maxKeepAliveMs = 300_000;

function openPool(base: URL, { connectTimeout, headersTimeout, bodyTimeout }: Timeouts, network: ServiceNetwork): Pool {
  return new Pool(base.origin, {
    connect: createConnect(base, connectTimeout, network),
    headersTimeout,
    bodyTimeout,
    maxHeaderSize: maxHeaderBytes,
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
