import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { assertClientCertificate, readCertificateAuthorities } from '../../lib/settings/certificates.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { createAuthority, type IssuedCertificate } from '../support/service/certificates.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const now = Date.now();
const past = { from: new Date(now - 2_000_000), until: new Date(now - 1_000_000) };
const authority = createAuthority({ name: 'Example CA' });
const expired = createAuthority({ name: 'Expired CA', ...past });

describe('certificate authorities', () => {
  it('are the certificates of PEM text or a file, without anything else in it', async () => {
    await using directory = await temporaryDirectory();
    const text = `# Example\n${authority.cert}\nnotes\n${expired.cert}`;
    await writeFile(join(directory.path, 'ca.pem'), text);
    for (const ca of ['ca.pem', text]) {
      expect(readCertificateAuthorities(ca, now, directory.path)).toBe(authority.cert + expired.cert);
    }
  });

  it.each([
    ['missing.pem', undefined, /^tls\.ca: missing\.pem does not exist$/],
    ['empty.pem', '', /^tls\.ca: empty\.pem contains no certificate\. Store it in PEM form/],
    ['key.pem', authority.issue({ name: 'x' }).key, /^tls\.ca: key\.pem contains no certificate/],
    [
      'broken.pem',
      `${authority.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`,
      /^tls\.ca: broken\.pem: certificate 2 cannot be parsed\. Store it again/,
    ],
    [
      'expired.pem',
      expired.cert,
      /^tls\.ca: expired\.pem: all certificates have expired: Expired CA \(until \d{4}-.*Z\)/,
    ],
    [
      'large.pem',
      authority.cert.repeat(200),
      /^tls\.ca: large\.pem has \d+ bytes of certificates, but at most 65536 are allowed/,
    ],
    [expired.cert, undefined, /^tls\.ca: all certificates have expired: Expired CA/],
  ])('are rejected with the file and what to do: %s', async (ca, content, message) => {
    await using directory = await temporaryDirectory();
    if (content !== undefined) await writeFile(join(directory.path, ca), content);
    expect(() => readCertificateAuthorities(ca, now, directory.path)).toThrow(
      expect.objectContaining({ name: 'ConfigurationError', message: expect.stringMatching(message) as unknown }),
    );
  });
});

describe('a client certificate', () => {
  const places = { cert: 'client.pem', key: 'client.key', passphrase: 'PASSPHRASE' };
  const passphrase = 'open sesame 1001';
  const plain = authority.issue({ name: 'exporter' });
  const encrypted = authority.issue({ name: 'exporter', passphrase });

  it.each([
    ['with a key', plain],
    ['with an encrypted key and its passphrase', { ...encrypted, passphrase }],
    ['with its chain', { ...plain, cert: plain.cert + authority.cert }],
  ])('is accepted %s', (_, certificate) => {
    expect(() => assertClientCertificate(certificate, places, now)).not.toThrow();
  });

  const cases: readonly (readonly [string, IssuedCertificate & { readonly passphrase?: string }, RegExp])[] = [
    ['no certificate', { ...plain, cert: plain.key }, /^client\.pem contains no certificate/],
    [
      'an expired certificate',
      authority.issue({ name: 'old', ...past }),
      /^client\.pem: the client certificate is only valid from .*Z to .*Z\. Store a current one/,
    ],
    [
      'a certificate of the future',
      authority.issue({ name: 'new', from: new Date(now + 1_000_000), until: new Date(now + 2_000_000) }),
      /^client\.pem: the client certificate is only valid from/,
    ],
    [
      'a key of another certificate',
      { ...plain, key: authority.issue({ name: 'x' }).key },
      /^client\.key: the key does not belong to the certificate in client\.pem/,
    ],
    ['no key', { ...plain, key: plain.cert }, /^client\.key contains no private key that can be read/],
    [
      'an encrypted key without a passphrase',
      encrypted,
      /^client\.key: the key cannot be decrypted\. Set its passphrase: PASSPHRASE/,
    ],
    [
      'a wrong passphrase',
      { ...encrypted, passphrase: 'hunter2-wrong' },
      /^client\.key: the key cannot be decrypted\. Set its passphrase/,
    ],
  ];

  it.each(cases)('is rejected with its place and what to do, and without secrets: %s', (_, certificate, message) => {
    let thrown: unknown;
    try {
      assertClientCertificate(certificate, places, now);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ name: 'ConfigurationError', message: expect.stringMatching(message) as unknown });
    const secrets = { key: certificate.key.split('\n')[1] ?? '', passphrase: certificate.passphrase ?? passphrase };
    expect(searchForSecrets({ thrown }, secrets)).toEqual([]);
  });
});
