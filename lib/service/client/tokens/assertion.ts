/** Signs assertions (RFC 7523). */

import { ExportError } from '../../../core/errors.ts';
import type { Assertion } from '../../api/auth/kind.ts';

/** Some servers accept assertions of five minutes at most. */
export const assertionSeconds = 180;

/** RFC 7523, signed as RFC 7515 says. @throws ConfigurationError if the key is not one of the algorithm */
export async function signAssertion(assertion: Assertion, now: number, place = 'The secret'): Promise<string> {
  const { privateKey, algorithm, keyId, claims } = assertion;
  // Only a function that needs it loads it.
  const [{ importPKCS8 }, { SignJWT }] = await Promise.all([import('jose/key/import'), import('jose/jwt/sign')]);
  const key = await importPKCS8(privateKey, algorithm).catch(() => {
    const message = `${place} contains no private key for ${algorithm}. Store it in PEM form: -----BEGIN PRIVATE KEY-----`;
    throw new ExportError('ConfigurationError', message);
  });
  const seconds = Math.floor(now / 1_000);
  return await new SignJWT(claims)
    .setProtectedHeader({ alg: algorithm, typ: 'JWT', ...(keyId !== undefined && { kid: keyId }) })
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + assertionSeconds)
    .sign(key);
}
