/** Reads the files that settings name, and says why one cannot be read. */

import { readFileSync, statSync } from 'node:fs';
import { codeOf } from '../core/errors.ts';

const notRegular = 'ENOTREG';

/** @throws the file system's own error; {@link whyUnreadable} describes it */
export function readTextFile(path: string): string {
  const stats = statSync(path);
  // Opening a pipe waits for its writer and blocks the process, which would not even react to signals.
  if (!stats.isFile() && !stats.isDirectory()) {
    throw Object.assign(new Error(`${path} is not a regular file`), { code: notRegular });
  }
  return readFileSync(path, 'utf8');
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist: part of its path is a file, not a directory',
  EISDIR: 'is a directory, not a file',
  [notRegular]: 'is a pipe or a device, not a regular file. Write its content to a file first',
  EACCES: 'may not be read by this user',
  EPERM: 'may not be read by this user',
  ENAMETOOLONG: 'is longer than a path can be',
  ELOOP: 'is a symbolic link that leads to itself',
};

/** The predicate of a sentence whose subject is the file: `does not exist`. It does not quote the file. */
export function whyUnreadable(error: unknown): string {
  const code = codeOf(error) || 'unknown error';
  return reasons[code] ?? `cannot be read (${code})`;
}
