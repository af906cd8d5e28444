/** A TCP proxy that counts the connections to a server. */

import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { listen } from './loopback.ts';

export interface ConnectionCounter extends AsyncDisposable {
  /** The proxy's URL. */
  readonly url: string;
  /** The number of connections so far. */
  readonly made: number;
  /** The number of open connections. */
  readonly open: number;
  /** Ends the open connections, as a server does with idle ones. */
  endAll(): Promise<void>;
}

/** Starts a proxy for the server at `url`. Its own URL has `host`, which may be a name. */
export async function countConnections(url: string, host = '127.0.0.1'): Promise<ConnectionCounter> {
  const target = Number(new URL(url).port);
  let made = 0;
  const server = createServer((socket) => {
    made += 1;
    const upstream = connect(target, '127.0.0.1');
    socket.pipe(upstream).pipe(socket);
    socket.on('error', () => upstream.destroy());
    upstream.on('error', () => socket.destroy());
    socket.on('close', () => upstream.destroy());
  });
  const { port, sockets, ...listening } = await listen(server);
  return {
    ...listening,
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
  };
}
