/** The process of first-request-service.ts. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ArrivalMessage } from './first-request-service.ts';

const page = '<?xml version="1.0" encoding="UTF-8"?>\n<reports><report id="R-1"/></reports>\n';

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.writeHead(200, { 'content-type': 'application/xml', 'content-length': page.length });
    response.end(page);
  });
});
server.on('connection', (socket) => {
  socket.once('data', () => {
    process.send?.({ arrivedAt: `${process.hrtime.bigint()}` } satisfies ArrivalMessage);
  });
});

// The parent may be killed.
process.on('disconnect', () => process.exit());

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ baseUrl: `http://127.0.0.1:${port}` });
});
