/** A DynamoDB of the test's own, in memory, behind real HTTP. */

import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import dynalite from 'dynalite';

export interface LocalDynamoDb extends AsyncDisposable {
  readonly endpoint: string;
  readonly close: () => Promise<void>;
}

export async function startDynamoDb(): Promise<LocalDynamoDb> {
  const server = dynalite({ createTableMs: 0, deleteTableMs: 0 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const { port } = server.address() as AddressInfo;
  return { endpoint: `http://127.0.0.1:${port}`, close, [Symbol.asyncDispose]: close };
}
