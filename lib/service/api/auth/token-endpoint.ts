/** The token endpoint of an authorization server (RFC 6749), which `oauth2` and `jwt` request tokens from. */

import * as z from 'zod/mini';
import { checkedText, field, httpsUrl, optionalField, validEntries } from '../../../core/schema/fields.ts';
import type { PathValue } from '../response-facts.ts';
import { type IssuedToken, printable, type TokenProblem, type TokenResponse } from './kind.ts';

export const bearerToken = { Authorization: 'Bearer {token}' };

export const tokenUrlSchema = checkedText((address) =>
  httpsUrl(address, 'https://login.example.com/oauth2/token', ['hash']),
);

/** Names of fields that hold secrets. */
const secretField = /secret|password|token$|assertion/i;

export const tokenFields = {
  scope: optionalField(
    'The scopes of the tokens, separated by spaces. Without it, those that the server chooses.',
    printable(2000),
    { example: 'reports.read' },
  ),
  parameters: optionalField(
    'Further fields of the request for a token. They must not be secret.',
    z
      .record(z.string(), printable(2000))
      .check(
        validEntries((name) =>
          secretField.test(name) ? 'must not be set: it is a secret, which settings do not contain' : undefined,
        ),
      ),
    { example: { audience: 'https://api.example.com' } },
  ),
};

export const tokenUrlField = (schema: z.ZodMiniType<string, string>) =>
  field('Where tokens are requested.', schema, { example: 'https://login.example.com/oauth2/token' });

export const tokenPaths = ['/access_token', '/token_type', '/expires_in', '/refresh_token', '/error'];

/** Section 5.1. `isRenewed`: a refresh token was sent, and there may be another one. */
export function readToken({ value }: TokenResponse, isRenewed: boolean): IssuedToken | TokenProblem {
  const refreshToken = value('/refresh_token');
  const successor = isRenewed && refreshToken.text !== '' ? refreshToken.text : undefined;
  const token = value('/access_token');
  const seconds = value('/expires_in');
  const problem =
    problemOfToken(token, 'access_token') ?? problemOfType(value('/token_type')) ?? problemOfSeconds(seconds);
  if (problem !== undefined) return { problem, code: value('/error').text, successor };
  return {
    token: token.text ?? '',
    seconds: seconds.text === undefined ? undefined : Number(seconds.text),
    successor,
  };
}

export function problemOfToken({ type, text = '' }: PathValue, name: string): string | undefined {
  if (type === undefined || type === 'null') return `it has no ${name}`;
  return /^[\x21-\x7e]+$/.test(text) ? undefined : `its ${name} is no text that a header can carry`;
}

/** Many servers leave it out. */
const problemOfType = ({ type, text }: PathValue): string | undefined =>
  type === undefined || type === 'null' || /^bearer$/i.test(text ?? '') ? undefined : 'its token_type is not Bearer';

const problemOfSeconds = ({ type, text = '' }: PathValue): string | undefined =>
  type === undefined || type === 'null' || /^\d+(\.\d+)?$/.test(text)
    ? undefined
    : 'its expires_in is no number of seconds';
