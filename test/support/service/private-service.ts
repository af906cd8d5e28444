/** A service on the loopback interface with a certificate of a private authority. It may demand one of clients. */

import type { RequestListener } from 'node:http';
import { createServer, type ServerOptions } from 'node:https';
import type { TLSSocket } from 'node:tls';
import type { NetworkSource } from '../../../lib/service/network/network.ts';
import { type CertificateAuthority, createAuthority } from './certificates.ts';
import { listen } from './loopback.ts';
import { twoReports } from './raw-server.ts';

/** Only a proxy can resolve it. */
export const privateHost = 'reports.internal.example';

export interface PrivateService extends AsyncDisposable {
  readonly url: string;
  /** The same port, by the name that only a proxy can resolve. */
  readonly namedUrl: string;
  readonly authority: CertificateAuthority;
  /** With which a client trusts it. */
  readonly network: NetworkSource;
  /** The headers of each request, and the common name of the client certificate that it came with. */
  readonly requests: readonly {
    readonly headers: NodeJS.Dict<string | string[]>;
    readonly client: string | undefined;
  }[];
  /** For each connection: whether it resumed an earlier TLS session. */
  readonly resumed: readonly boolean[];
  /** Resets every connection, without a TLS close_notify. */
  reset(): void;
}

interface PrivateServiceOptions {
  readonly tls?: ServerOptions;
  readonly listener?: RequestListener;
  readonly until?: Date;
  readonly hosts?: readonly string[];
}

const onePage: RequestListener = (_request, response) => {
  response.setHeader('content-type', 'application/xml;charset=UTF-8').end(twoReports);
};

export async function startPrivateService(options: PrivateServiceOptions = {}): Promise<PrivateService> {
  const { tls, listener = onePage, until, hosts = ['127.0.0.1', privateHost] } = options;
  const authority = createAuthority({ name: 'Example Private CA' });
  const requests: { headers: NodeJS.Dict<string | string[]>; client: string | undefined }[] = [];
  const resumed: boolean[] = [];
  const issued = authority.issue({ name: 'reports', hosts, ...(until === undefined ? {} : { until }) });
  const server = createServer({ ...issued, ca: authority.cert, ...tls }, (request, response) => {
    const subject = (request.socket as TLSSocket).getPeerCertificate().subject as { CN?: string } | undefined;
    requests.push({ headers: request.headers, client: subject?.CN });
    listener(request, response);
  });
  server.on('secureConnection', (socket: TLSSocket) => resumed.push(socket.isSessionReused()));
  server.on('tlsClientError', () => {});
  const { port, sockets, ...listening } = await listen(server);
  return {
    ...listening,
    url: `https://127.0.0.1:${port}`,
    namedUrl: `https://${privateHost}:${port}`,
    authority,
    network: { get: async () => ({ ca: authority.cert }), refresh: async () => ({ ca: authority.cert }) },
    requests,
    resumed,
    reset() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
  };
}
