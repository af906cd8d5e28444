/**
 * Where the API key comes from (contract, section 5). Kept behind two verbs so that a key rotated while a run walks is
 * picked up without a restart, and so that the client alone decides when a second look is worth it: after a 401 or 403.
 */

import { ExportError } from '../../core/errors.ts';

export interface ApiKeySource {
  /** The key as last known; cheap, as it is asked for before every request. */
  get(): Promise<string>;
  /** The key as it stands now at its origin. Equal to the old one where nothing has changed. */
  refresh(): Promise<string>;
}

/** A key that cannot change while the process lives. */
export function fixedApiKey(key: string): ApiKeySource {
  const get = async () => key;
  return { get, refresh: get };
}

/** Rotations overlap by one; a source that gives out a key for each request must not make us remember them all. */
const maxRemembered = 5;

/** The newest keys that were sent: a service may echo a former one long after it was renewed. */
export function keysSent(): { readonly keys: ReadonlySet<string>; add(key: string): void } {
  const keys = new Set<string>();
  return {
    keys,
    add(key) {
      keys.delete(key);
      keys.add(key);
      for (const oldest of keys) if (keys.size > maxRemembered) keys.delete(oldest);
    },
  };
}

/**
 * The key, if a header can carry it unchanged.
 * @throws ConfigurationError, which does not hold the key
 */
export function usableApiKey(key: string): string {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(key)) return key;
  throw new ExportError(
    'ConfigurationError',
    key.trim() === ''
      ? 'The API key is empty; set it and start again'
      : 'The API key begins or ends with a blank or line break, or holds characters that a header cannot carry; ' +
          'store it without them and start again',
  );
}
