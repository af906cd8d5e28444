/**
 * A Report Export Service on loopback that obeys the contract: a second reading of it, to hold the client to.
 *
 * Sections 2 to 5 and 8 are kept rule by rule; what the contract leaves open is answered as a careful service would, and
 * each such choice is named as our assumption where it is made: statuses and error bodies in `refusal.ts`, the open ends
 * of a request in `request.ts`, the order of reports in `report-source.ts`.
 *
 * No walk is remembered: a cursor holds its own position, so an instance started anew with the same vendor, seed and
 * reports goes on with the cursors of the former one.
 */

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ExportError } from '../../core/errors.ts';
import type { FaultScript } from './faults.ts';
import { answering, type Exchange } from './handler.ts';
import type { ReportSource } from './report-source.ts';

export interface Simulator extends AsyncDisposable {
  /** `http://127.0.0.1:41234`, without a slash at its end. */
  readonly baseUrl: string;
  readonly port: number;
  /** The newest exchanges, at most 10,000, oldest first. */
  readonly exchanges: readonly Exchange[];
  /** Ends at once, open connections and answers under way included. */
  close(): Promise<void>;
}

/**
 * Starts the service on 127.0.0.1.
 * @throws ConfigurationError for a vendor that makes no header name, an empty key, or a port that cannot be had
 */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const { vendor, apiKey, port = 0, onExchange } = options;
  if (!/^[\w-]+$/.test(vendor)) {
    throw new ExportError(
      'ConfigurationError',
      `The vendor must be letters, digits, - and _, not ${JSON.stringify(vendor)}`,
    );
  }
  if (apiKey === '') throw new ExportError('ConfigurationError', 'The simulator needs an API key that is not empty');

  const exchanges: Exchange[] = [];
  const note = (exchange: Exchange) => {
    if (exchanges.push(exchange) > 10_000) exchanges.shift();
    onExchange?.(exchange);
  };
  const stopping = new AbortController();
  const answer = answering(options, note, stopping.signal);
  const atWork = new Set<Promise<void>>();
  const server = createServer((request, response) => {
    const work = answer(request, response)
      .catch((error: unknown) => {
        response.destroy();
        // Where the client is gone or the simulator is closing there is nobody to answer. Anything else is a bug: be loud.
        if (!request.errored && !stopping.signal.aborted) throw error;
      })
      .finally(() => atWork.delete(work));
    atWork.add(work);
  });
  const taken = await listening(server, port);

  let closed: Promise<unknown> | undefined;
  async function close() {
    closed ??= once(server.close(), 'close');
    stopping.abort();
    server.closeAllConnections();
    await Promise.allSettled([closed, ...atWork]);
  }
  return {
    baseUrl: `http://127.0.0.1:${taken}`,
    port: taken,
    exchanges,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Resolves to the port. */
async function listening(server: Server, port: number): Promise<number> {
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch (cause) {
    throw new ExportError('ConfigurationError', `The simulator cannot listen on port ${port} of 127.0.0.1`, { cause });
  }
  return (server.address() as AddressInfo).port;
}

// MERGED simulator-options.ts: What a simulator is told when it is started.

export interface SimulatorOptions {
  /** The vendor's part of the header names: `SERVICE` makes `X-SERVICE-API-KEY` and `x-service-cursor`. */
  readonly vendor: string;
  /** The only key that is let in. */
  readonly apiKey: string;
  readonly reports: ReportSource;
  /** 0, the default, takes a free one. */
  readonly port?: number | undefined;
  /** Signs the cursors; an instance with another seed refuses them. 1 by default. */
  readonly seed?: string | number | undefined;
  /** Milliseconds since the epoch: decides which reports exist yet, and becomes the date header. */
  readonly now?: (() => number) | undefined;
  /** See `faults.ts`. */
  readonly faults?: FaultScript | undefined;
  /** Told of each exchange before the last of its answer is sent: a client that has its answer finds it noted. */
  readonly onExchange?: ((exchange: Exchange) => void) | undefined;
}
