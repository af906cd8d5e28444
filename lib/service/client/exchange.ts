/** Exchanges with one server: requests under one deadline, over shared connections, with translated errors. */

import type { Dispatcher } from 'undici';
import sendRequest from 'undici/lib/api/api-request.js';
import type { PageTiming } from '../../core/model.ts';
import type { Clock } from '../../core/ports.ts';
import { instantOf } from '../../core/timestamps.ts';
import type { NetworkSource, Timeouts } from '../network/network.ts';
import { connectionError, mayRejectCredentials, rejectsCredentials } from './connection-errors.ts';
import { startDeadline } from './deadline.ts';
import type { ErrorContext, Server } from './errors.ts';
import { type CreatePool, createPools } from './pools.ts';
import { withRequestId } from './response/response-headers.ts';

export interface ExchangeOptions {
  readonly timeouts: Timeouts;
  readonly network: NetworkSource;
  readonly clock: Clock;
  /** The keys that must not be shown. */
  readonly keys: ReadonlySet<string>;
  /** By default undici's pool. */
  readonly createPool?: CreatePool | undefined;
}

export interface Response extends Dispatcher.ResponseData {
  readonly timing: PageTiming;
}

type Request = Omit<Dispatcher.RequestOptions, 'origin'>;

export type Exchange = ReturnType<typeof beginExchange>;

export function createExchanges(server: Server, options: ExchangeOptions) {
  const pools = createPools(server.base, options.timeouts, options.createPool);
  return {
    /** @throws the reason of the signal, if it is aborted */
    begin: (label: string, callerSignal?: AbortSignal): Exchange =>
      beginExchange({ server, pools, ...options }, label, callerSignal),
    destroy: () => pools.destroy(),
  };
}

interface ExchangeDependencies extends ExchangeOptions {
  readonly server: Server;
  readonly pools: ReturnType<typeof createPools>;
}

/** Disposing of an exchange stops its timer and closes the connection of a response that has not been read. */
function beginExchange(deps: ExchangeDependencies, label: string, callerSignal: AbortSignal | undefined) {
  const { server, pools, timeouts, network, clock, keys } = deps;
  callerSignal?.throwIfAborted();
  const deadline = startDeadline(timeouts.totalTimeout, callerSignal, clock);
  let context: ErrorContext = { label, server, keys };
  let pool: Dispatcher | undefined;
  let response: Response | undefined;

  /** The error to throw for an error of the connection, after `bytesRead` bytes of the body. */
  const explain = (error: unknown, bytesRead?: number): unknown =>
    deadline.endedBy === 'caller'
      ? callerSignal?.reason
      : connectionError(context, error, { isLate: deadline.endedBy === 'time', timeouts, bytesRead });
  /** The result of `action`, within the deadline. Errors of `action` are rethrown. */
  const within = <Value>(action: () => Promise<Value>): Promise<Value> =>
    deadline.race(action()).catch((error: unknown) => {
      throw deadline.endedBy === undefined ? error : explain(error);
    });
  /** Reads certificates and credentials again. Resolves to whether they differ from those of the last request. */
  async function refreshNetwork(): Promise<boolean> {
    const previous = pool;
    pool = pools.poolFor(await within(() => network.refresh()));
    return pool !== previous;
  }
  async function sendOnce(request: Request): Promise<Response> {
    const options = { ...request, origin: server.base.origin, signal: deadline.signal };
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
  /** Reads new credentials after a proxy or the TLS handshake has rejected those sent. @throws if there are none */
  async function refreshNetworkAfter(error: unknown): Promise<void> {
    const areRejected = rejectsCredentials(error);
    if (!areRejected && !mayRejectCredentials(error)) throw explain(error);
    const areNew = await refreshNetwork().catch((refreshError: unknown) => {
      throw areRejected ? refreshError : explain(error);
    });
    if (!areNew) throw explain(error);
  }

  return {
    /** With the request ID of the response, once there is one. */
    get context() {
      return context;
    },
    within,
    refreshNetwork,
    explain,
    /**
     * Sends the request, and once more if a proxy or the TLS handshake rejects the credentials and there are newer
     * ones. Discards the previous response. If `beforeSend` rejects, nothing is sent, and its error is rethrown
     * unchanged.
     */
    async send(request: Request, beforeSend?: () => Promise<void>): Promise<Response> {
      response?.body.destroy();
      context = { label, server, keys };
      pool ??= pools.poolFor(await within(() => network.get()));
      for (let isRepeated = false; ; isRepeated = true) {
        if (beforeSend !== undefined) await deadline.restartAfter(beforeSend);
        try {
          return await sendOnce(request);
        } catch (error) {
          if (isRepeated) throw explain(error);
          await refreshNetworkAfter(error);
        }
      }
    },
    [Symbol.dispose]() {
      response?.body.destroy();
      deadline.release();
    },
  };
}
