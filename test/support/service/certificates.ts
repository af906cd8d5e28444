/** Creates certificates for tests: an authority, and certificates that it issues, with keys on the curve P-256. */

import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

/** One element of DER (X.690): tag, length, content. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts);
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'));
const oids = {
  ecdsaWithSha256: oid('2a8648ce3d040302'),
  commonName: oid('550403'),
  subjectAltName: oid('551d11'),
  basicConstraints: oid('551d13'),
};

const nameOf = (commonName: string) =>
  sequence(der(0x31, sequence(oids.commonName, der(0x0c, Buffer.from(commonName)))));
const time = (date: Date) => der(0x18, Buffer.from(`${date.toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)}Z`));

const pem = (label: string, content: Buffer) =>
  `-----BEGIN ${label}-----\n${(content.toString('base64').match(/.{1,64}/g) ?? []).join('\n')}\n-----END ${label}-----\n`;

export interface IssuedCertificate {
  /** PEM text. */
  readonly cert: string;
  readonly key: string;
}

interface CertificateOptions {
  readonly name: string;
  /** Host names and IPv4 addresses. */
  readonly hosts?: readonly string[];
  readonly from?: Date;
  readonly until?: Date;
  /** Encrypts the key. */
  readonly passphrase?: string;
}

interface Issuer {
  readonly name: string;
  readonly key: KeyObject;
}

const dayMs = 86_400_000;

function issue(
  options: CertificateOptions,
  issuer: Issuer | undefined,
): IssuedCertificate & { readonly signer: Issuer } {
  const { name, hosts = [], passphrase } = options;
  const { from = new Date(Date.now() - dayMs), until = new Date(Date.now() + dayMs) } = options;
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = sequence(oids.ecdsaWithSha256);
  const isAuthority = issuer === undefined;
  const constraints = sequence(
    oids.basicConstraints,
    der(0x01, Buffer.from([0xff])),
    der(0x04, sequence(...(isAuthority ? [der(0x01, Buffer.from([0xff]))] : []))),
  );
  const alternatives = hosts.map((host) =>
    /^\d+(\.\d+){3}$/.test(host) ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host)),
  );
  const names = sequence(oids.subjectAltName, der(0x04, sequence(...alternatives)));
  const content = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    nameOf(issuer?.name ?? name),
    sequence(time(from), time(until)),
    nameOf(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(constraints, ...(alternatives.length === 0 ? [] : [names]))),
  );
  const signature = sign('sha256', content, issuer?.key ?? privateKey);
  const exported = passphrase === undefined ? {} : { cipher: 'aes-256-cbc', passphrase };
  return {
    cert: pem('CERTIFICATE', sequence(content, algorithm, der(0x03, Buffer.from([0]), signature))),
    key: privateKey.export({ type: 'pkcs8', format: 'pem', ...exported }) as string,
    signer: { name, key: privateKey },
  };
}

export interface CertificateAuthority {
  /** PEM text. */
  readonly cert: string;
  issue(options: CertificateOptions): IssuedCertificate;
}

export function createAuthority(options: CertificateOptions): CertificateAuthority {
  const { cert, signer } = issue(options, undefined);
  return {
    cert,
    issue(issued) {
      const { signer: _signer, ...certificate } = issue(issued, signer);
      return certificate;
    },
  };
}
