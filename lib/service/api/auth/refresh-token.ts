/** The secret with a refresh token: JSON, to which what a use of the token returns is added before it is stored. */

import { parseSecret, SecretProblem } from './secret.ts';

/** A person stores the first two fields, and others that are sent; the last ones are those of the token response. */
export interface TokenDocument {
  readonly client_secret?: string;
  readonly private_key?: string;
  readonly refresh_token?: string;
  readonly access_token?: string;
  /** In seconds. With 0, a token is used once. */
  readonly expires_in?: number | null;
  /** In seconds since the epoch. */
  readonly expires_at?: number;
}

/** What uses of the refresh token have added or replaced. */
export const usedFields = ['refresh_token', 'access_token', 'expires_in', 'expires_at'] as const;

/** @throws SecretProblem, without any of the secret, if it has no refresh token */
export function parseTokenDocument(secret: string): TokenDocument & { readonly refresh_token: string } {
  const { fields = {} } = parseSecret(secret);
  const { refresh_token: token } = fields;
  if (typeof token !== 'string' || token === '')
    throw new SecretProblem('contains no refresh token: {"client_secret": "…", "refresh_token": "…"}');
  const isText = (part: unknown = ' ') => typeof part === 'string' && /^[\x20-\x7e]+$/.test(part);
  const wrong = (['client_secret', 'access_token'] as const).find((name) => !isText(fields[name]));
  if (wrong !== undefined) throw new SecretProblem(`contains a ${wrong} that is empty, or no text in ASCII`);
  return { ...(fields as TokenDocument), refresh_token: token };
}
