/** Checks certificates and keys before use. Errors name the file or secret, and contain no key. */

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { resolve } from 'node:path';
import { ExportError } from '../core/errors.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { instantOf } from '../core/timestamps.ts';
import { isPem } from './network-settings.ts';
import { readTextFile } from './text-file.ts';

/** In the form in which TLS takes it: PEM text. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
  readonly passphrase?: string | undefined;
}

/** Where the parts of a client certificate come from, for messages: `tls.clientKey: certs/client.key`. */
type ClientCertificatePlaces = Readonly<Record<keyof ClientCertificate, string>>;

const configurationError = (message: string) => new ExportError('ConfigurationError', message);

/** The certificates of PEM text that `place` names, whatever else the text has. @throws ConfigurationError */
function parseCertificates(pem: string, place: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) {
    throw configurationError(`${place} contains no certificate. Store it in PEM form: -----BEGIN CERTIFICATE-----`);
  }
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block);
    } catch {
      throw configurationError(`${place}: certificate ${index + 1} cannot be parsed. Store it again in PEM form`);
    }
  });
}

const expiryOf = ({ validTo }: X509Certificate): number => Date.parse(validTo);

/** `Example CA (until 2030-01-01T00:00:00Z)`. */
const describeCertificate = (certificate: X509Certificate): string => {
  const name = /^CN=(.*)$/m.exec(certificate.subject)?.[1] ?? certificate.subject.replaceAll('\n', ', ');
  return `${truncate(toPrintable(name), 100)} (until ${instantOf(expiryOf(certificate))})`;
};

/** One description for each certificate of text that has been checked. */
export const describeCertificates = (pem: string, place: string): readonly string[] =>
  parseCertificates(pem, place).map(describeCertificate);

/** @throws ConfigurationError unless the certificate is valid at `now`, and the key is readable and fits it */
export function assertClientCertificate(
  { cert, key, passphrase }: ClientCertificate,
  places: ClientCertificatePlaces,
  now: number,
): void {
  const [own] = parseCertificates(cert, places.cert) as [X509Certificate];
  if (now < Date.parse(own.validFrom) || now >= expiryOf(own)) {
    const period = `valid from ${instantOf(Date.parse(own.validFrom))} to ${instantOf(expiryOf(own))}`;
    throw configurationError(`${places.cert}: the client certificate is only ${period}. Store a current one`);
  }
  let parsed: KeyObject;
  try {
    parsed = createPrivateKey({ key, passphrase });
  } catch {
    // Without its cause, which may quote the key.
    throw configurationError(
      key.includes('ENCRYPTED')
        ? `${places.key}: the key cannot be decrypted. Set its passphrase: ${places.passphrase}`
        : `${places.key} contains no private key that can be read. Store it in PEM form: -----BEGIN PRIVATE KEY-----`,
    );
  }
  if (own.checkPrivateKey(parsed)) return;
  throw configurationError(
    `${places.key}: the key does not belong to the certificate in ${places.cert}. Store both again`,
  );
}

/** `tls.ca: certs/ca.pem`. */
export const filePlace = (path: string, setting: string): string => `${setting}: ${truncate(toPrintable(path), 200)}`;

const maxCaBytes = 65_536;

/**
 * The certificate authorities that the setting `ca` names: PEM text, or the path of a PEM file, relative to
 * `directory`. Returns only the certificates.
 * @throws ConfigurationError if there is none, one cannot be parsed, or all have expired
 */
export function readCertificateAuthorities(ca: string, now: number, directory = '.'): string {
  const place = isPem(ca) ? 'tls.ca' : filePlace(ca, 'tls.ca');
  const certificates = parseCertificates(isPem(ca) ? ca : readTextFile(resolve(directory, ca), place), place);
  if (certificates.every((each) => expiryOf(each) <= now)) {
    const expired = certificates.map(describeCertificate).join(', ');
    throw configurationError(`${place}: all certificates have expired: ${truncate(expired, 500)}. Store current ones`);
  }
  const pem = certificates.map(String).join('');
  if (pem.length <= maxCaBytes) return pem;
  throw configurationError(
    `${place} has ${pem.length} bytes of certificates, but at most ${maxCaBytes} are allowed. Keep only the authorities of this service`,
  );
}
