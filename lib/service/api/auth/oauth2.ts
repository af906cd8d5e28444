/**
 * OAuth 2: the client secret, or a refresh token, is exchanged for an access token.
 *
 *     POST /oauth2/token with grant_type=client_credentials&scope=reports.read            RFC 6749, section 4.4
 *     {"access_token": "eyJh…", "expires_in": 3600}
 *
 * A response to `grant_type=refresh_token&refresh_token=8xLO…` may have another refresh token (section 6).
 */

import { randomUUID } from 'node:crypto';
import * as z from 'zod/mini';
import { field, object, optionalField } from '../../../core/schema/fields.ts';
import { type AuthKind, kindField, printable, type SecretParts, type TokenRequest } from './kind.ts';
import { parseTokenDocument } from './refresh-token.ts';
import { readPrivateKey, signatureFields } from './private-key.ts';
import { type Secret, secretField, SecretProblem, wholeSecret } from './secret.ts';
import { optionalSend } from './send.ts';
import { bearerToken, readToken, tokenFields, tokenPaths, tokenUrlField, tokenUrlSchema } from './token-endpoint.ts';

const clientAuthentications = ['basic', 'body', 'private_key_jwt', 'none'] as const;

export const oauth2Schema = object({
  kind: kindField('oauth2'),
  tokenUrl: tokenUrlField(tokenUrlSchema),
  clientId: field('The ID of the client.', printable(500), { example: 'report-exporter' }),
  grant: optionalField(
    'What is exchanged for a token. Without it, `client_credentials`.',
    z.enum(['client_credentials', 'refresh_token'], 'must be client_credentials or refresh_token'),
    { page: 'procedures.md#refresh-tokens' },
  ),
  clientAuthentication: optionalField(
    'How the client proves who it is: by HTTP Basic, in the body, by a signed assertion, or not at all. Without it, `basic`.',
    z.enum(clientAuthentications, `must be ${clientAuthentications.slice(0, -1).join(', ')} or none`),
  ),
  ...signatureFields,
  encoding: optionalField(
    'How the request for a token is sent. Without it, as a `form`.',
    z.enum(['form', 'json'], 'must be form or json'),
  ),
  ...tokenFields,
  send: optionalSend(bearerToken),
});
type OAuth2 = z.infer<typeof oauth2Schema>;

const isRefreshToken = ({ grant }: OAuth2): boolean => grant === 'refresh_token';

export const oauth2Kind: AuthKind<OAuth2> = {
  send: bearerToken,
  renewsSecret: isRefreshToken,
  rules: (auth) => [
    [
      ['clientAuthentication'],
      auth.clientAuthentication === 'none' && !isRefreshToken(auth),
      'none requires "grant": "refresh_token"',
    ],
    ...(['algorithm', 'keyId'] as const).map(
      (name) =>
        [
          [name],
          auth[name] !== undefined && auth.clientAuthentication !== 'private_key_jwt',
          'needs "clientAuthentication": "private_key_jwt"',
        ] as const,
    ),
  ],
  secretName: (auth, isJson) => {
    const ofClient = auth.clientAuthentication === 'private_key_jwt' ? 'private key' : 'client secret';
    return isRefreshToken(auth) ? `${ofClient} and refresh token${isJson ? '' : ', as JSON'}` : ofClient;
  },
  read: (auth, secret) => ({
    ...(isRefreshToken(auth) && { refresh_token: parseTokenDocument(secret.text).refresh_token }),
    ...readClient(auth, secret),
  }),
  rejected:
    'the access token was rejected, and so was a new one. Check auth.scope, auth.send, and what the client may do',
  token: {
    server: ({ tokenUrl: url }) => ({ url, setting: 'auth.tokenUrl' }),
    request: requestOf,
    paths: () => tokenPaths,
    read: (auth, response) => readToken(response, isRefreshToken(auth)),
    misunderstood: 'auth.tokenUrl, auth.encoding and auth.parameters',
    rejected: (auth) => {
      const client =
        'auth.clientId, auth.scope, the client secret and auth.clientAuthentication, as some servers read the client only from the body, or ' +
        'from HTTP Basic without decoding it';
      return isRefreshToken(auth)
        ? `it rejects the refresh token or the client. If it says invalid_grant, consent again, and store the new refresh token. Otherwise check ${client}`
        : `it rejects the client. Check ${client}`;
    },
  },
};

function readClient({ clientAuthentication, grant }: OAuth2, secret: Secret): SecretParts {
  if (clientAuthentication === 'none') return {};
  if (clientAuthentication === 'private_key_jwt') return { private_key: readPrivateKey(secret) };
  if (grant === 'refresh_token' && secret.fields?.client_secret === undefined) {
    const remedy = 'Store it, or set "clientAuthentication": "none" if the client has none';
    throw new SecretProblem(`contains no client_secret. ${remedy}`);
  }
  const text =
    secret.fields === undefined ? wholeSecret(secret, 'client secret') : secretField(secret, 'client_secret');
  if (!/^[\x20-\x7e]+$/.test(text)) throw new SecretProblem('contains characters that a client secret cannot have');
  return { client_secret: text };
}

function requestOf(auth: OAuth2, parts: SecretParts): TokenRequest {
  const { clientId, clientAuthentication = 'basic', scope, parameters, encoding = 'form', tokenUrl } = auth;
  const { client_secret: clientSecret = '', private_key: privateKey = '', refresh_token } = parts;
  const fields = {
    grant_type: auth.grant ?? 'client_credentials',
    ...(scope !== undefined && { scope }),
    ...(refresh_token !== undefined && { refresh_token }),
  };
  const withFields = (more: Readonly<Record<string, string>>) => ({ ...fields, ...more, ...parameters });
  switch (clientAuthentication) {
    case 'basic': {
      const client = Buffer.from([clientId, clientSecret].map(formEncoded).join(':')).toString('base64');
      return { fields: withFields({}), encoding, headers: { authorization: `Basic ${client}` } };
    }
    case 'body':
      return { fields: withFields({ client_id: clientId, client_secret: clientSecret }), encoding };
    case 'none':
      return { fields: withFields({ client_id: clientId }), encoding };
    case 'private_key_jwt': {
      // RFC 7523, section 2.2.
      const client_assertion_type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
      const { algorithm = 'RS256', keyId } = auth;
      const claims = { iss: clientId, sub: clientId, aud: tokenUrl, jti: randomUUID() };
      const assertion = { as: 'client_assertion', privateKey, algorithm, keyId, claims };
      return { fields: withFields({ client_id: clientId, client_assertion_type }), encoding, assertion };
    }
  }
}

/** RFC 6749, section 2.3.1. */
const formEncoded = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1);
