/**
 * An HTTPS server on the loopback interface that this process trusts. Its key is public and protects nothing. The
 * certificate is valid from 2020 to 2120.
 */

import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { createServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';

const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgKAeB3ISQcZR0lIj2
MeN7Cv56Da2EMOdtbEkHuORIn1qhRANCAARhO/go7pid7sZotg04yUBJU9+66nF7
y0JFogNvjdYI31ioY0TYbMu2p/LGyht9G8s6DlHKGzUQV3+P+2Sr9S9w
-----END PRIVATE KEY-----`;

const cert = `-----BEGIN CERTIFICATE-----
MIIBWzCCAQKgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAkxMjcuMC4w
LjEwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CTEyNy4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGE7+CjumJ3uxmi2
DTjJQElT37rqcXvLQkWiA2+N1gjfWKhjRNhsy7an8sbKG30byzoOUcobNRBXf4/7
ZKv1L3CjQzBBMA8GA1UdEQQIMAaHBH8AAAEwDwYDVR0TAQH/BAUwAwEB/zAdBgNV
HQ4EFgQUlCplP7As+eojnrhM0mxCEZYT33kwCgYIKoZIzj0EAwIDRwAwRAIgXXFF
0sPybNlhRyHvNe8Q9hGlDB9JAt5huxNKdZJOxSoCIAfiLBCykwYU6I8cl7bRGfN2
6Uzk6blnBPAzT3Qd5qiJ
-----END CERTIFICATE-----`;

interface TlsServer extends AsyncDisposable {
  readonly url: string;
  /** For each connection, in order: whether it resumed the TLS session of an earlier one. */
  readonly resumed: readonly boolean[];
}

/** The process trusts the server until it is disposed. */
export async function startTlsServer(listener: RequestListener, options: ServerOptions = {}): Promise<TlsServer> {
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, cert]);
  const resumed: boolean[] = [];
  const server = createServer({ ...options, key, cert }, listener);
  server.on('secureConnection', (socket: TLSSocket) => resumed.push(socket.isSessionReused()));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    resumed,
    async [Symbol.asyncDispose]() {
      setDefaultCACertificates(trusted);
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}
