/** A service with one page, which notes when the first bytes of a connection arrive. */

import { startServerProcess } from '../harness/server-process.ts';

export interface FirstRequestService extends AsyncDisposable {
  readonly baseUrl: string;
  /** When the first bytes arrive of the next process that sends a request: `process.hrtime`, in nanoseconds. */
  readonly nextArrival: () => Promise<bigint>;
}

/** Sent for each connection. */
export interface ArrivalMessage {
  /** A bigint, which JSON does not have. The clock is that of the machine, the same for all processes. */
  readonly arrivedAt: string;
}

export async function startFirstRequestService(): Promise<FirstRequestService> {
  let onArrival: ((arrivedAt: bigint) => void) | undefined;
  const script = new URL('first-request-process.ts', import.meta.url);
  const server = await startServerProcess<{ readonly baseUrl: string }>(script, [], (message) =>
    // Only the first call settles the promise: a process may open several connections.
    onArrival?.(BigInt((message as ArrivalMessage).arrivedAt)),
  );
  return {
    ...server,
    nextArrival: () =>
      new Promise((resolve) => {
        onArrival = resolve;
      }),
  };
}
