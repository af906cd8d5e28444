/** Reads the files that settings name, and says why one cannot be read. */

import { readFileSync, statSync } from 'node:fs';
import { codeOf, ExportError } from '../core/errors.ts';

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist: part of its path is a file, not a directory',
  EISDIR: 'is a directory, not a file',
  EACCES: 'may not be read by this user',
  EPERM: 'may not be read by this user',
  ENAMETOOLONG: 'is longer than a path can be',
  ELOOP: 'is a symbolic link that leads to itself',
};

/** The predicate of a sentence whose subject is the file: `does not exist`. */
export function whyUnreadable(error: unknown): string {
  const code = codeOf(error) || 'unknown error';
  return reasons[code] ?? `cannot be read (${code})`;
}

/**
 * The text of a file, without a byte order mark, with which some editors begin it.
 * @throws ConfigurationError whose message begins with `subject`, which names the file. It does not quote the file
 */
export function readTextFile(path: string, subject: string): string {
  try {
    const stats = statSync(path);
    // Opening a pipe waits for its writer and blocks the process, which would not even react to signals.
    if (stats.isFile() || stats.isDirectory()) return readFileSync(path, 'utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    throw new ExportError('ConfigurationError', `${subject} ${whyUnreadable(error)}`);
  }
  const remedy = 'is a pipe or a device, not a regular file. Write its content to a file first';
  throw new ExportError('ConfigurationError', `${subject} ${remedy}`);
}
