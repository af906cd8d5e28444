/** Where the API key comes from, and which keys were sent (docs/service-contract.md, section 5). */

import { isDeepStrictEqual } from 'node:util';
import { ExportError } from '../../core/errors.ts';
import { SecretProblem } from '../api/auth/secret.ts';

/** The client calls `refresh` after a 401 or 403, so that a rotated key is used without a restart of the run. */
export interface ApiKeySource {
  /** The beginning of a sentence about it: `The secret reports/api-key`. */
  readonly place?: string;
  /** The last known key. Called before every request, so it must be cheap. */
  get(): Promise<string>;
  /** The current key, read from its origin. The same as before if it was not rotated. */
  refresh(): Promise<string>;
  /**
   * Replaces a secret that can be used once. `change` receives the newest secret while no other process changes it, and
   * returns its successor. `update` stores the successor durably, then resolves to it. `assertMaySend` throws once
   * another process may have begun a change. Absent: a successor cannot be stored from here.
   */
  readonly update?: (change: (newest: string, assertMaySend: () => void) => Promise<string>) => Promise<string>;
}

/** A key that does not change during the life of the process. */
export function fixedApiKey(key: string, place?: string): ApiKeySource {
  const get = async () => key;
  return { ...(place !== undefined && { place }), get, refresh: get };
}

/** What `read` makes of the secret. @throws ConfigurationError if it is not what is needed */
export function readAt<Value>(place = 'The secret', read: () => Value, remedy = 'Correct it, and start again'): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SecretProblem)) throw error;
    throw new ExportError('ConfigurationError', `${place} ${error.message}. ${remedy}`);
  }
}

/** A rotation involves two secrets, or five with a refresh token. A source may return another one for each request. */
const maxRecentKeys = 10;

/** The last secrets that were sent, to be recognized in messages: a service may echo an old key after its rotation. */
export interface RecentKeys {
  readonly keys: ReadonlySet<string>;
  /** The parts of a secret that are used together. */
  add(...parts: readonly string[]): void;
}

export function createRecentKeys(): RecentKeys {
  const keys = new Set<string>();
  let recent: readonly (readonly string[])[] = [];
  return {
    keys,
    add(...parts) {
      const others = recent.filter((each) => !isDeepStrictEqual(each, parts));
      recent = [...others, parts].slice(-maxRecentKeys);
      keys.clear();
      for (const part of recent.flat()) keys.add(part);
    },
  };
}
