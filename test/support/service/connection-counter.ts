/** Counts the connections that a server is sent, by standing in front of it. */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface CountedConnections extends AsyncDisposable {
  /** Leads to the server, by way of the counter. */
  readonly url: string;
  /** How many connections were made so far. */
  readonly made: number;
  /** How many are open. */
  readonly open: number;
  /** Ends the connections that are open, as a server does with those that have been idle for long. */
  endAll(): Promise<void>;
}

/** In front of the server at `url`; with `host` for a name instead of an address. */
export async function countedConnections(url: string, host = '127.0.0.1'): Promise<CountedConnections> {
  const target = Number(new URL(url).port);
  const sockets = new Set<Socket>();
  let made = 0;
  const server = createServer((socket) => {
    made += 1;
    sockets.add(socket);
    const onward = connect(target, '127.0.0.1');
    socket.pipe(onward).pipe(socket);
    socket.on('error', () => onward.destroy());
    onward.on('error', () => socket.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      onward.destroy();
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${port}`,
    get made() {
      return made;
    },
    get open() {
      return sockets.size;
    },
    async endAll() {
      await Promise.all([...sockets].map((socket) => once(socket.end(), 'close')));
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await once(server.close(), 'close');
    },
  };
}
