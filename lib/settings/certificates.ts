/** Checks certificates and keys before anything is sent or deployed. Errors name the file or secret, and contain no key. */

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { ExportError } from '../core/errors.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { instantOf } from '../core/timestamps.ts';
import { isPem } from './network-settings.ts';
import { whyUnreadable } from './text-file.ts';

/** In the form in which TLS takes it: PEM text. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
  /** Of an encrypted key. */
  readonly passphrase?: string | undefined;
}

/** Where the parts of a client certificate come from, for messages: `tls.clientKey: certs/client.key`. */
interface ClientCertificatePlaces {
  readonly cert: string;
  readonly key: string;
  readonly passphrase: string;
}

const certificateBlocks = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Only the certificates in `pem`: comments and anything else in the file are not needed. */
const certificatesIn = (pem: string): string =>
  (pem.match(certificateBlocks) ?? []).map((block) => `${block}\n`).join('');

/** The certificates of PEM text that `place` names. @throws ConfigurationError if there is none, or one cannot be parsed */
function parseCertificates(pem: string, place: string): X509Certificate[] {
  const blocks = pem.match(certificateBlocks) ?? [];
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

const configurationError = (message: string) => new ExportError('ConfigurationError', message);

const expiryOf = ({ validTo }: X509Certificate): number => Date.parse(validTo);
const nameOf = ({ subject }: X509Certificate): string => {
  const [, commonName] = /^CN=(.*)$/m.exec(subject) ?? [];
  return truncate(toPrintable(commonName ?? subject.replaceAll('\n', ', ')), 100);
};

/** @throws ConfigurationError unless `pem` has certificates, of which at least one has not expired */
function assertCertificateAuthorities(pem: string, place: string, now: number): void {
  const certificates = parseCertificates(pem, place);
  const newest = certificates.reduce((one, other) => (expiryOf(one) >= expiryOf(other) ? one : other));
  if (expiryOf(newest) > now) return;
  throw configurationError(
    `${place}: the certificate of ${nameOf(newest)} expired on ${instantOf(expiryOf(newest))}. Replace it with a current one`,
  );
}

/** @throws ConfigurationError unless the certificate is valid at `now`, and the key is readable and fits it */
export function assertClientCertificate(
  certificate: ClientCertificate,
  places: ClientCertificatePlaces,
  now: number,
): void {
  const [own] = parseCertificates(certificate.cert, places.cert);
  if (own === undefined) return;
  const from = Date.parse(own.validFrom);
  if (expiryOf(own) <= now) {
    throw configurationError(
      `${places.cert}: the client certificate ${nameOf(own)} expired on ${instantOf(expiryOf(own))}. Store a current one`,
    );
  }
  if (from > now) {
    throw configurationError(
      `${places.cert}: the client certificate ${nameOf(own)} is valid from ${instantOf(from)} only. Check the clock, or store a current one`,
    );
  }
  if (own.checkPrivateKey(readKey(certificate, places))) return;
  throw configurationError(
    `${places.key}: the key does not belong to the certificate ${nameOf(own)} in ${places.cert}. Store the certificate and its key together`,
  );
}

/** Drops the error of the parser, which may quote its input. */
function readKey({ key, passphrase }: ClientCertificate, places: ClientCertificatePlaces): KeyObject {
  try {
    return createPrivateKey({ key, ...(passphrase === undefined ? {} : { passphrase }) });
  } catch {
    if (!key.includes('ENCRYPTED')) {
      throw configurationError(
        `${places.key} contains no private key that can be read. Store it in PEM form: -----BEGIN PRIVATE KEY-----`,
      );
    }
    throw configurationError(
      passphrase === undefined
        ? `${places.key}: the key is encrypted. Set its passphrase: ${places.passphrase}`
        : `${places.key}: the key cannot be decrypted. Check its passphrase: ${places.passphrase}`,
    );
  }
}

/** `Example CA (until 2030-01-01T00:00:00Z)`, for each certificate of text that has been checked. */
export function describeCertificates(pem: string, place: string): readonly string[] {
  return parseCertificates(pem, place).map(
    (certificate) => `${nameOf(certificate)} (until ${instantOf(expiryOf(certificate))})`,
  );
}

/** The text of a file, which `setting` names. @throws ConfigurationError */
export function readPemFile(path: string, setting: string, read: (path: string) => string): string {
  try {
    return read(path);
  } catch (error) {
    throw configurationError(`${filePlace(path, setting)} ${whyUnreadable(error)}`);
  }
}

/** `tls.ca: certs/ca.pem`. */
export const filePlace = (path: string, setting: string): string => `${setting}: ${truncate(toPrintable(path), 200)}`;

const maxCaBytes = 65_536;

/**
 * The certificate authorities that the setting `ca` names: PEM text, or the path of a PEM file. Returns only the certificates.
 * @throws ConfigurationError
 */
export function readCertificateAuthorities(ca: string, read: (path: string) => string, now: number): string {
  const setting = 'tls.ca';
  const isText = isPem(ca);
  const place = isText ? setting : filePlace(ca, setting);
  const pem = certificatesIn(isText ? ca : readPemFile(ca, setting, read));
  if (pem.length > maxCaBytes) {
    throw configurationError(
      `${place} has ${pem.length} bytes of certificates, but at most ${maxCaBytes} are allowed. Keep only the authorities of this service`,
    );
  }
  assertCertificateAuthorities(pem, place, now);
  return pem;
}
