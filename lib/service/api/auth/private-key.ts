/** A private key that signs assertions. */

import * as z from 'zod/mini';
import { optionalField } from '../../../core/schema/fields.ts';
import { printable } from './kind.ts';
import { type Secret, secretField, SecretProblem, wholeSecret } from './secret.ts';

export const signatureFields = {
  algorithm: optionalField(
    'How the assertion is signed. Without it, `RS256`.',
    z.enum(['RS256', 'PS256', 'ES256'], 'must be RS256, PS256 or ES256'),
  ),
  keyId: optionalField('The ID of the key (`kid`). Without it, none.', printable(500)),
};

/** In PEM form. In an environment variable and in JSON, its line breaks are often written as `\n`. */
export function readPrivateKey(secret: Secret): string {
  const key = secret.fields === undefined ? wholeSecret(secret, 'private key') : secretField(secret, 'private_key');
  if (!key.includes('-----BEGIN PRIVATE KEY-----'))
    throw new SecretProblem('contains no private key in PEM form: -----BEGIN PRIVATE KEY-----');
  return key.replaceAll(String.raw`\n`, '\n');
}
