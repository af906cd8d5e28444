/**
 * A Report Export Service on loopback, implemented from docs/service-contract.md independently of the client, so that
 * tests hold the client to the contract and not to itself.
 *
 * It follows sections 2 to 5 and 8 of the contract rule by rule. Where the contract is silent, it behaves as a careful
 * service would, and the code documents the assumption: status codes and error bodies in `rejection.ts`, accepted
 * request fields in `request.ts`, the order of reports in `report-source.ts`.
 *
 * The simulator keeps no state between requests. A cursor contains its own position, so a new instance with the same
 * vendor, seed and reports accepts the cursors of the previous one.
 */

import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ExportError } from '../../core/errors.ts';
import { createHandler, type HandlerOptions } from './handler.ts';

// An import of node:http would load all that it normally loads on demand: 30 ms of the start.
const { createServer } = process.getBuiltinModule('node:http');

export interface SimulatorOptions extends HandlerOptions {
  /** Default 0: any free port. */
  readonly port?: number | undefined;
}

export interface Simulator extends AsyncDisposable {
  /** For example `http://127.0.0.1:41234`, without a trailing slash. */
  readonly baseUrl: string;
  readonly port: number;
  /** Stops immediately: closes open connections and cancels responses in flight. */
  close(): Promise<void>;
}

/**
 * Starts the service on 127.0.0.1.
 * @throws ConfigurationError if the vendor cannot be part of a header name, the API key is empty, or the port is in use
 */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  assertValid(options);
  const closing = new AbortController();
  const handle = createHandler(options, closing.signal);
  const inFlight = new Set<Promise<void>>();
  const server = createServer((request, response) => {
    const handled = handle(request, response)
      .catch((error: unknown) => {
        response.destroy();
        // Expected if the client has disconnected or the simulator is closing. Anything else is a bug: fail loudly.
        if (!request.errored && !closing.signal.aborted) throw error;
      })
      .finally(() => inFlight.delete(handled));
    inFlight.add(handled);
  });
  const boundPort = await listen(server, options.port ?? 0);

  let closed: Promise<unknown> | undefined;
  async function close() {
    closed ??= once(server.close(), 'close');
    closing.abort();
    server.closeAllConnections();
    await Promise.allSettled([closed, ...inFlight]);
  }
  return {
    baseUrl: `http://127.0.0.1:${boundPort}`,
    port: boundPort,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function assertValid({ vendor, apiKey }: SimulatorOptions): void {
  if (!/^[\w-]+$/.test(vendor)) {
    const message = `Invalid vendor ${JSON.stringify(vendor)}: use letters, digits, "-" and "_" only`;
    throw new ExportError('ConfigurationError', message);
  }
  if (apiKey === '') throw new ExportError('ConfigurationError', 'The API key of the simulator must not be empty');
}

/** Resolves to the bound port. */
async function listen(server: Server, port: number): Promise<number> {
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    const isInUse = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
    const reason = isInUse ? 'the port is in use' : message;
    throw new ExportError(
      'ConfigurationError',
      `The simulator cannot listen on 127.0.0.1:${port}: ${reason}. Choose another --port`,
      { cause },
    );
  }
  return (server.address() as AddressInfo).port;
}
