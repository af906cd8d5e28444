/** The kinds of authentication, in the only place that knows them all. A new one is a file, and a line in each list. */

import type * as z from 'zod/mini';
import { findBroken, oneKindOf, type SettingsProblem } from '../../../core/schema/fields.ts';
import { basicKind, basicSchema } from './basic.ts';
import { jwtKind, jwtSchema } from './jwt.ts';
import { bearerKind, bearerSchema, keyKind, keySchema } from './key.ts';
import type { AuthKind, SecretParts } from './kind.ts';
import { loginKind, loginSchema } from './login.ts';
import { noneKind, noneSchema } from './none.ts';
import { oauth2Kind, oauth2Schema } from './oauth2.ts';
import {
  fieldsNamed,
  fillText,
  parseSecret,
  searchedValues,
  secretField,
  SecretProblem,
  wholeSecret,
} from './secret.ts';
import { type Send, sentValues, usesToken } from './send.ts';

export const authSchema = oneKindOf(
  'kind',
  [noneSchema, keySchema, basicSchema, bearerSchema, oauth2Schema, jwtSchema, loginSchema],
  (kind) =>
    /query|url|param/i.test(kind)
      ? 'a key in the query of the URL is described by "kind": "key", with query in place of send'
      : /sigv4|signature|oci|hmac/i.test(kind)
        ? 'signatures of requests cannot be described'
        : undefined,
);
export type Auth = z.infer<typeof authSchema>;

const kinds: { readonly [Kind in Auth['kind']]: AuthKind<Extract<Auth, { readonly kind: Kind }>> } = {
  none: noneKind,
  key: keyKind,
  basic: basicKind,
  bearer: bearerKind,
  oauth2: oauth2Kind,
  jwt: jwtKind,
  login: loginKind,
};

export const authKindOf = ({ kind }: Auth): AuthKind<Auth> => kinds[kind] as AuthKind<Auth>;

export const sendOf = (auth: Auth): Send => ('send' in auth ? auth.send : undefined) ?? authKindOf(auth).send ?? {};

/** The parameters of the URL that carry credentials. */
export const queryOf = (auth: Auth): Send => ('query' in auth ? auth.query : undefined) ?? {};

/** Where tokens are requested, if that is not the service itself. */
export function tokenUrlOf(auth: Auth): string | undefined {
  const server = authKindOf(auth).token?.server(auth);
  return server !== undefined && 'url' in server ? server.url : undefined;
}

export function findAuthProblems(auth: Auth): readonly SettingsProblem[] {
  const { rules, token, derive } = authKindOf(auth);
  const hasToken = token !== undefined || derive !== undefined;
  const isUsed = usesToken(sendOf(auth));
  return findBroken([
    ...(rules?.(auth) ?? []),
    [['send'], isUsed && !hasToken, `has {token}, but "kind": "${auth.kind}" has none. Use {secret}`],
    [['send'], !isUsed && hasToken, 'must have {token}: otherwise the kind has no effect, and key is enough'],
  ]);
}

/** Whether requests to the service are authenticated: otherwise nothing needs its secret. */
export const needsSecret = ({ auth }: { readonly auth: Auth }): boolean => authKindOf(auth).hasNoSecret !== true;

/** Whether the secret has a refresh token: a use may replace it, and the new one is stored. */
export const renewsSecret = ({ auth }: { readonly auth: Auth }): boolean =>
  authKindOf(auth).renewsSecret?.(auth) ?? false;

function nameOfSecret(auth: Auth): string {
  const fields = [sendOf(auth), queryOf(auth)].flatMap((each) => Object.values(each)).flatMap(fieldsNamed);
  const name = authKindOf(auth).secretName(auth, fields.length > 0);
  return fields.length === 0 ? name : `${name}, as JSON with ${fields.join(', ')}`;
}

export interface Credentials {
  /** The headers of requests. Those with a token that must be obtained only if it is given. */
  readonly headers: Send;
  /** The parameters of the URL, before they are encoded. */
  readonly query: Send;
  readonly parts: SecretParts;
  /** What no message may show. */
  readonly secrets: readonly string[];
}

/** @throws SecretProblem, without any of the secret, if it is not what `auth` needs */
export function credentialsOf(auth: Auth, text: string, obtained?: string): Credentials {
  const { read, derive } = authKindOf(auth);
  const secret = parseSecret(text);
  const parts = read?.(auth, secret) ?? {};
  const sent: string[] = [];
  const valueOf = (field: string | undefined): string => {
    const value = field === undefined ? wholeSecret(secret, nameOfSecret(auth)) : secretField(secret, field);
    sent.push(value);
    return value;
  };
  const token = derive?.(parts) ?? obtained;
  const known = Object.entries(sendOf(auth)).filter(
    ([, template]) => token !== undefined || !template.includes('{token}'),
  );
  const headers = sentValues(Object.fromEntries(known), valueOf, token);
  const query = sentValues(queryOf(auth), valueOf);
  return { headers, query, parts, secrets: searchedValues([...Object.values(parts), ...sent]) };
}

/** Why a secret cannot be used, without showing any of it, for a sentence about its place; undefined if it can be. */
export function problemOfSecret(secret: string | undefined, auth: Auth): string | undefined {
  if (secret === undefined || secret === '') return `is not set; set it to the service's ${nameOfSecret(auth)}`;
  try {
    const { headers, query, parts } = credentialsOf(auth, secret);
    const sent = [...Object.values(headers), ...Object.values(query)];
    const isWhole = Object.keys(parts).length === 0 && sent.some((value) => value.includes(secret));
    return isWhole && / /.test(secret) ? 'contains spaces or characters that it cannot have' : undefined;
  } catch (error) {
    if (error instanceof SecretProblem) return error.message;
    throw error;
  }
}

/** Headers and parameters for a person, with `source` in place of the secret. */
export function shownCredentials(auth: Auth, source: string): Pick<Credentials, 'headers' | 'query'> {
  const { token } = authKindOf(auth);
  const url = tokenUrlOf(auth);
  const shownToken = token === undefined ? source : url === undefined ? `a token by ${source}` : `a token from ${url}`;
  const shownPart = (field: string | undefined) => (field === undefined ? source : `field ${field} of ${source}`);
  const shown = (templates: Send) =>
    Object.fromEntries(
      Object.entries(templates).map(([name, template]) => [
        name,
        fillText(template, (field) => `(${shownPart(field)})`, `(${shownToken})`),
      ]),
    );
  return { headers: shown(sendOf(auth)), query: shown(queryOf(auth)) };
}
