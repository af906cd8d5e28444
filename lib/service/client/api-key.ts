/** Where the API key comes from, and which keys were sent (docs/service-contract.md, section 5). */

import { ExportError } from '../../core/errors.ts';

/** The client calls `refresh` after a 401 or 403, so that a key that is rotated during a run is used without a restart. */
export interface ApiKeySource {
  /** The beginning of a sentence about it: `The secret reports/api-key`. */
  readonly place?: string;
  /** The last known key. Called before every request, so it must be cheap. */
  get(): Promise<string>;
  /** The current key, read from its origin. The same as before if it was not rotated. `rejected` is the one that the service rejected. */
  refresh(rejected?: string): Promise<string>;
  /**
   * For a secret that its use replaces. `change` gets the newest one while no other process changes it, and resolves to what takes its place,
   * which is stored durably before `update` resolves to it. `assertMaySend` throws once another process may have begun a change. Absent:
   * it cannot be stored from here.
   */
  readonly update?: (change: (newest: string, assertMaySend: () => void) => Promise<string>) => Promise<string>;
}

/** The secret with a refresh token. A person stores the first two fields; the others are those of the token response. */
export interface TokenDocument {
  readonly client_secret?: string;
  readonly refresh_token?: string;
  readonly access_token?: string;
  /** In seconds. Some servers write it as text. With 0, a token is used once. */
  readonly expires_in?: number | string | null;
  /** In seconds since the epoch. */
  readonly expires_at?: number;
}

/** @throws ConfigurationError, without any of the secret, if `place` has no refresh token */
export function parseTokenDocument(
  secret: string,
  place = 'The secret',
  remedy = 'Store it, and start again',
): TokenDocument & { readonly refresh_token: string } {
  const problem = problemOfDocument(secret);
  if (problem === undefined) return JSON.parse(secret) as ReturnType<typeof parseTokenDocument>;
  throw new ExportError('ConfigurationError', `${place} contains ${problem}. ${remedy}`);
}

function problemOfDocument(secret: string): string | undefined {
  let document: { readonly [Field in keyof TokenDocument]?: unknown } = {};
  try {
    document = Object(JSON.parse(secret)) as typeof document;
  } catch {
    // The parser's error would quote the secret.
  }
  const { refresh_token: token } = document;
  if (typeof token !== 'string' || token === '') {
    return 'no refresh token: {"client_secret": "…", "refresh_token": "…"}';
  }
  const isText = (part: unknown = ' ') => typeof part === 'string' && /^[\x20-\x7e]+$/.test(part);
  const wrong = (['client_secret', 'access_token'] as const).find((field) => !isText(document[field]));
  return wrong && `a ${wrong} that is empty, or no text in ASCII`;
}

/** A key that does not change during the life of the process. */
export function fixedApiKey(key: string, place?: string): ApiKeySource {
  const get = async () => key;
  return { ...(place !== undefined && { place }), get, refresh: get };
}

/** @throws ConfigurationError, without the key, if an HTTP header cannot carry it unchanged */
export function assertValidApiKey(key: string): void {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(key)) return;
  const message =
    key.trim() === ''
      ? 'The API key is empty. Set it and start again'
      : 'The API key begins or ends with white space, or contains characters that an HTTP header cannot carry. ' +
        'Correct it and start again';
  throw new ExportError('ConfigurationError', message);
}

/** What the secret of each kind of authentication is called, and what it consists of. Passwords and client secrets may contain spaces. */
const secrets = {
  header: { name: 'API key', pattern: /^[\x21-\x7e]+$/, other: 'spaces or characters that an API key cannot have' },
  basic: {
    name: 'user and password, as user:password',
    pattern: /^[\x20-\x7e]+$/,
    other: 'characters that it cannot have',
  },
  bearer: { name: 'token', pattern: /^[\x21-\x7e]+$/, other: 'spaces or characters that it cannot have' },
  oauth2: { name: 'client secret', pattern: /^[\x20-\x7e]+$/, other: 'characters that it cannot have' },
  jwt: {
    name: 'private key',
    pattern: /-----BEGIN PRIVATE KEY-----/,
    other: 'no private key in PEM form: -----BEGIN PRIVATE KEY-----',
  },
  refresh_token: {
    name: 'client secret and refresh token, as JSON',
    pattern: { test: (secret: string) => problemOfDocument(secret) === undefined },
    other: '',
  },
};

/** Why a secret cannot be used, without showing any of it; undefined if it can be. */
export function problemOfSecret(secret: string | undefined, kind: keyof typeof secrets): string | undefined {
  const { name, pattern, other } = secrets[kind];
  if (secret === undefined || secret === '') return `is not set; set it to the service's ${name}`;
  return pattern.test(secret) ? undefined : `contains ${other || problemOfDocument(secret)}`;
}

/** A rotation involves two keys, and that of a refresh token five. The limit is for sources that return a different key for each request. */
const maxRecentKeys = 10;

/** The last keys that were sent, to be recognized in messages: a service may echo an old key long after its rotation. */
export interface RecentKeys {
  readonly keys: ReadonlySet<string>;
  add(key: string): void;
}

export function createRecentKeys(): RecentKeys {
  const keys = new Set<string>();
  return {
    keys,
    add(key) {
      keys.delete(key);
      keys.add(key);
      for (const oldest of keys) if (keys.size > maxRecentKeys) keys.delete(oldest);
    },
  };
}
