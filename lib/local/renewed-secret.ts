/**
 * A secret whose refresh token each use replaces, on this machine. The environment has the refresh token of a consent, and a file in the
 * directory what followed from it. The name of the file is the digest of the first one: after another consent, another file is used.
 */

import { createHash } from 'node:crypto';
import { join, parse, resolve } from 'node:path';
import { ExportError } from '../core/errors.ts';
import type { Runtime } from '../core/ports.ts';
import { type ApiKeySource, parseTokenDocument } from '../service/client/api-key.ts';
import { createDirectoryDurably, readFileIfPresent, writePrivateFile } from './durable-fs.ts';
import { acquireExportLock, type FileLock, isExportLocked } from './lock.ts';

/** How long to wait for another process, whose exchange of a token takes half a minute at most. */
const maxWaitMs = 30_000;

/** `secret` is that of the environment. @throws ConfigurationError if it has no refresh token */
export function createRenewedSecret(out: string, secret: string, runtime: Runtime): ApiKeySource {
  const consent = parseTokenDocument(secret);
  const digest = createHash('sha256').update(consent.refresh_token).digest('hex');
  const directory = resolve(out, '.tokens');
  const file = join(directory, `${digest}.json`);
  // The client secret stays in the environment, where it may be replaced.
  const read = async (): Promise<string> => {
    const text = readFileIfPresent(file);
    if (text === undefined) return secret;
    return JSON.stringify({ ...parseTokenDocument(text), client_secret: consent.client_secret });
  };
  const write = (text: string) =>
    writePrivateFile(file, JSON.stringify({ ...parseTokenDocument(text), client_secret: undefined }));
  return {
    get: read,
    refresh: read,
    async update(change) {
      using _lock = await acquire();
      createDirectoryDurably(parse(directory).root, directory);
      const newest = await read();
      // Shows that it can be written, before the refresh token is replaced.
      write(newest);
      const next = await change(newest, () => {});
      if (next !== newest) write(next);
      return next;
    },
  };

  async function acquire(): Promise<FileLock> {
    const name = `tokens/${digest}`;
    for (const until = runtime.monotonicNow() + maxWaitMs; ;) {
      // Unlike an attempt to take it, a look does not wait for the lock.
      const lock = isExportLocked(out, name) ? undefined : acquireExportLock(out, name);
      if (lock !== undefined) return lock;
      if (runtime.monotonicNow() > until) {
        const message = `Another process is using the refresh token in ${directory}. The attempt is retried`;
        throw new ExportError('ServiceUnavailableError', message);
      }
      await runtime.sleep(50);
    }
  }
}
