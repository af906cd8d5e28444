/** Servers of tests, on a free port of the loopback interface. */

import { once } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';

/** Starts the server, of HTTP, TLS or TCP. When it is disposed of, it closes all of its connections. */
export async function listen(server: Server) {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  // By default, HTTP servers close idle connections after five seconds: on a slow machine, between two requests.
  if ('keepAliveTimeout' in server) server.keepAliveTimeout = 0;
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    sockets: sockets as ReadonlySet<Socket>,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
