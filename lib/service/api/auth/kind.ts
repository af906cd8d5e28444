/** The interface of a kind of authentication. A kind is a file; only the table in `kinds.ts` knows all of them. */

import * as z from 'zod/mini';
import type { JsonObject } from '../../../core/model.ts';
import { field, type Rule, text } from '../../../core/schema/fields.ts';
import type { PathValue } from '../response-facts.ts';
import type { Secret } from './secret.ts';
import type { Send } from './send.ts';

/** The parts of the secret that a kind reads, by the names of its own fields. */
export type SecretParts = Readonly<Record<string, string>>;

export interface AuthKind<Auth> {
  /** The problems of settings that are valid by themselves. */
  readonly rules?: (auth: Auth) => readonly Rule[];
  /** The headers of requests unless settings have `send`. Absent: there are none. */
  readonly send?: Send;
  /** Requests have no credentials, so nothing needs a secret. */
  readonly hasNoSecret?: true;
  readonly renewsSecret?: (auth: Auth) => boolean;
  /** The usual name of the secret: `client secret`. `isJson`: other fields of it are sent, too. */
  readonly secretName: (auth: Auth, isJson: boolean) => string;
  /** What it needs of the secret besides what `send` names. @throws SecretProblem */
  readonly read?: (auth: Auth, secret: Secret) => SecretParts;
  /** `{token}`, if it is made of the secret. */
  readonly derive?: (parts: SecretParts) => string;
  /** `{token}`, if it is obtained and expires. */
  readonly token?: TokenKind<Auth>;
  /** Why the service rejects requests with these credentials, for a person. */
  readonly rejected: string;
}

/** How a token is obtained. The client sends the request, signs, and shares the token. */
export interface TokenKind<Auth> {
  /** Where it is requested: an address of its own, or a path of the service. undefined: the assertion is the token. */
  readonly server: (auth: Auth) => TokenServer | undefined;
  readonly request: (auth: Auth, parts: SecretParts) => TokenRequest;
  /** Where the response has what `read` asks for. */
  readonly paths: (auth: Auth) => readonly string[];
  readonly read: (auth: Auth, response: TokenResponse) => IssuedToken | TokenProblem;
  /** Why the server rejects the request, for a person, and what may be wrong if it does not understand it. */
  readonly rejected: (auth: Auth) => string;
  readonly misunderstood: string;
}

type TokenServer = {
  readonly setting: string;
} & ({ readonly url: string } | { readonly path: string });

export interface TokenRequest {
  /** Absent: it is a GET. */
  readonly fields?: JsonObject | undefined;
  readonly encoding: 'form' | 'json';
  readonly headers?: Send;
  /** Is signed, and sent in the field `as`. */
  readonly assertion?: Assertion;
}

export interface Assertion {
  readonly as: string;
  readonly privateKey: string;
  readonly algorithm: string;
  readonly keyId: string | undefined;
  readonly claims: Readonly<Record<string, string | undefined>>;
}

export interface TokenResponse {
  readonly value: (path: string) => PathValue;
  /** The seconds until the instant at the path, which may be a number of seconds; undefined if it is neither. */
  readonly seconds: (path: string) => number | undefined;
}

export interface IssuedToken {
  readonly token: string;
  /** undefined: it is used until the service rejects it. */
  readonly seconds: number | undefined;
  /** The refresh token that replaces the one that was sent. */
  readonly successor?: string | undefined;
}

/** A response that is no token: the field that is wrong. */
export interface TokenProblem {
  readonly problem: string;
  readonly code?: string | undefined;
  readonly successor?: string | undefined;
}

export const kindField = <Kind extends string>(kind: Kind) =>
  field(
    '`key`, `bearer` and `basic` send the secret itself; `oauth2`, `jwt` and `login` exchange it for tokens.',
    z.literal(kind),
    { page: 'apis.md#authentication' },
  );

export const printable = (max: number) => text(new RegExp(`^[\\x20-\\x7e]{1,${max}}$`), 'must be printable ASCII');
