/** How a client reaches the service, with everything that settings, files, variables and secrets say about it. */

import { type ClientCertificate, describeCertificates } from '../../settings/certificates.ts';
import type { ServiceSettings } from '../../settings/settings.ts';

/** In milliseconds. */
export type Timeouts = Pick<ServiceSettings, 'connectTimeout' | 'headersTimeout' | 'bodyTimeout' | 'totalTimeout'>;

export interface ServiceNetwork {
  /** Absent: a direct connection. */
  readonly proxy?: Proxy;
  /** PEM text with the only certificate authorities that are trusted. Absent: the public ones. */
  readonly ca?: string;
  readonly clientCertificate?: ClientCertificate;
}

export interface Proxy {
  /** Scheme, host and port only: it is part of messages. */
  readonly origin: string;
  readonly credentials?: ProxyCredentials;
}

export interface ProxyCredentials {
  readonly username: string;
  readonly password: string;
}

/** The client calls `refresh` when credentials are rejected, so that rotated ones are used without a restart. */
export interface NetworkSource {
  /** Called before every request, so it must be cheap. */
  get(): Promise<ServiceNetwork>;
  /** Read from its origin. Equal to the one before if nothing has changed. */
  refresh(): Promise<ServiceNetwork>;
}

/** A direct connection that trusts the public certificate authorities. */
export const directNetwork: NetworkSource = { get: async () => ({}), refresh: async () => ({}) };

/** `through proxy http://proxy.example.com:3128; client certificate exporter (until …)`; empty without either. */
export function describeNetwork({ proxy, ca, clientCertificate }: ServiceNetwork): string {
  const parts = [
    proxy && `through proxy ${proxy.origin}${proxy.credentials === undefined ? '' : ' with credentials'}`,
    ca === undefined ? undefined : `trusts ${describeCertificates(ca, 'tls.ca').join(', ')}`,
    clientCertificate && `client certificate ${describeCertificates(clientCertificate.cert, 'clientCertificate')[0]}`,
  ];
  return parts.filter((part) => part !== undefined).join('; ');
}
