/**
 * An assertion that the secret, a private key, signs. It is exchanged for a token (RFC 7523, section 2.1):
 * `grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJh…`; or, without `tokenUrl`, it is the token
 * itself.
 */

import type * as z from 'zod/mini';
import { field, object, optionalField } from '../../../core/schema/fields.ts';
import { type AuthKind, kindField, printable } from './kind.ts';
import { readPrivateKey, signatureFields } from './private-key.ts';
import { optionalSend } from './send.ts';
import { bearerToken, readToken, tokenFields, tokenPaths, tokenUrlSchema } from './token-endpoint.ts';

export const jwtSchema = object({
  kind: kindField('jwt'),
  tokenUrl: optionalField(
    'Where tokens are requested. Without it, the assertion itself is the token.',
    tokenUrlSchema,
    { example: 'https://login.example.com/oauth2/token' },
  ),
  issuer: field('The claim `iss`: who signs.', printable(500), {
    example: 'exporter@project.iam.gserviceaccount.com',
  }),
  subject: optionalField('The claim `sub`: the user in whose name. Without it, none.', printable(500)),
  audience: optionalField('The claim `aud`. Without it, `tokenUrl`.', printable(500)),
  ...signatureFields,
  ...tokenFields,
  send: optionalSend(bearerToken),
});

export const jwtKind: AuthKind<z.infer<typeof jwtSchema>> = {
  send: bearerToken,
  rules: ({ tokenUrl, parameters }) => [
    [['parameters'], parameters !== undefined && tokenUrl === undefined, 'has no meaning without tokenUrl'],
  ],
  secretName: () => 'private key',
  read: (_, secret) => ({ private_key: readPrivateKey(secret) }),
  rejected:
    'the token was rejected, and so was a new one. Check auth.scope, auth.subject, auth.send, and what the issuer may do',
  token: {
    server: ({ tokenUrl: url }) => (url === undefined ? undefined : { url, setting: 'auth.tokenUrl' }),
    request: ({ issuer, subject, audience, scope, algorithm = 'RS256', keyId, tokenUrl, parameters }, parts) => ({
      fields: { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', ...parameters },
      encoding: 'form',
      assertion: {
        as: 'assertion',
        privateKey: parts.private_key ?? '',
        algorithm,
        keyId,
        claims: { iss: issuer, sub: subject, aud: audience ?? tokenUrl, scope },
      },
    }),
    paths: () => tokenPaths,
    read: (_, response) => readToken(response, false),
    misunderstood: 'auth.tokenUrl and auth.parameters',
    rejected: () =>
      'it rejects the assertion. Check auth.issuer, auth.subject, auth.audience, auth.scope and the private key',
  },
};
