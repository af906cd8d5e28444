/**
 * A secret whose refresh token each use replaces, on this machine. The environment has the refresh token of a consent,
 * and a file in the directory what followed from it. The name of the file is the digest of the first one: after another
 * consent, another file is used.
 */

import { createHash } from 'node:crypto';
import { join, parse, resolve } from 'node:path';
import { ExportError, isExportError } from '../core/errors.ts';
import type { Runtime } from '../core/ports.ts';
import { parseTokenDocument, type TokenDocument, usedFields } from '../service/api/auth/refresh-token.ts';
import { type ApiKeySource, readAt } from '../service/client/api-key.ts';
import { createDirectoryDurably, readFileIfPresent, reservePrivateFile, writePrivateFile } from './durable-fs.ts';
import { acquireExportLock, type FileLock, isExportLocked } from './lock.ts';

/** How long to wait for another process, whose exchange of a token takes half a minute at most. */
const maxWaitMs = 30_000;
/** More than a token response can have, escaped in JSON. */
const maxBytes = 256 * 1024;

const changes = new Set<Promise<string>>();

/** Whether this process exchanges a refresh token: if it ended now, it would lose what the server returns. */
export const isExchanging = (): boolean => changes.size > 0;

/** Resolves once this process exchanges no refresh token. To exit before that would lose what the server returns. */
export async function finishedChanges(): Promise<void> {
  await Promise.allSettled(changes);
}

export interface Waiting {
  /** Ends a wait for another process. An exchange of this process continues. */
  readonly signal?: AbortSignal | undefined;
  /** Receives a line before a wait. */
  readonly notify?: (text: string) => void;
}

/** `secret` is that of the environment. @throws ConfigurationError if it has no refresh token */
export function createRenewedSecret(
  out: string,
  secret: string,
  runtime: Runtime,
  { signal, notify = () => {} }: Waiting = {},
): ApiKeySource {
  const consent = readAt(undefined, () => parseTokenDocument(secret));
  const digest = createHash('sha256').update(consent.refresh_token).digest('hex');
  const directory = resolve(out, '.tokens');
  const file = join(directory, `${digest}.json`);
  // All others stay in the environment, where they may be replaced.
  const read = async (): Promise<string> => {
    const text = readFileIfPresent(file);
    if (text === undefined) return secret;
    const remedy = 'Delete it, consent again, and set the new one';
    const stored = readAt(`The file ${file}`, () => parseTokenDocument(text), remedy);
    return JSON.stringify({ ...consent, ...ofUses(stored) });
  };
  return {
    get: read,
    refresh: read,
    async update(change) {
      using _lock = await acquire();
      createDirectoryDurably(parse(directory).root, directory);
      const newest = await read();
      using _reserved = reservePrivateFile(file, maxBytes);
      const changed = replace(newest, change);
      changes.add(changed);
      return await changed.finally(() => changes.delete(changed));
    },
  };

  async function replace(newest: string, change: Parameters<NonNullable<ApiKeySource['update']>>[0]): Promise<string> {
    const next = await change(newest, () => {}).catch((error: unknown) => {
      if (!isExportError(error, 'ConfigurationError') || readFileIfPresent(file) !== undefined) throw error;
      const advice = `This is the refresh token of the environment. If it was used with another directory than ${out}, specify that one`;
      throw new ExportError('ConfigurationError', `${error.message}. ${advice}`, { cause: error });
    });
    if (next === newest) return next;
    try {
      writePrivateFile(file, JSON.stringify(ofUses(parseTokenDocument(next))));
    } catch (error) {
      const lost =
        'The server has replaced the refresh token, and the new one is not stored. Unless another attempt stores it, consent again';
      throw new ExportError('ConfigurationError', `${(error as Error).message}. ${lost}`, { cause: error });
    }
    return next;
  }

  async function acquire(): Promise<FileLock> {
    const name = `tokens/${digest}`;
    let isTold = false;
    for (const until = runtime.monotonicNow() + maxWaitMs; ;) {
      signal?.throwIfAborted();
      // Unlike an attempt to take it, a look does not wait for the lock.
      const lock = isExportLocked(out, name) ? undefined : acquireExportLock(out, name);
      if (lock !== undefined) return lock;
      if (runtime.monotonicNow() > until) {
        const message = `Another process is using the refresh token in ${directory}. The attempt is retried`;
        throw new ExportError('ServiceUnavailableError', message);
      }
      if (!isTold)
        notify(`Waiting up to ${maxWaitMs / 1_000} s for another process, which is exchanging the refresh token`);
      isTold = true;
      await runtime.sleep(50, signal);
    }
  }
}

const ofUses = (document: TokenDocument): TokenDocument =>
  Object.fromEntries(usedFields.map((name) => [name, document[name]]));
