/** Translates SQLite's errors into ConfigurationErrors that say what to do. */

import { ExportError } from '../../core/errors.ts';

const busy = 5;
const readOnly = 8;
const cannotOpen = 14;
const notADatabase = 26;

/** What to do, by SQLite's primary result code (sqlite.org/rescode.html). */
const advice: { readonly [code: number]: string } = {
  [busy]: 'Another process has kept it locked for too long. Stop the process that holds the lock, then start again',
  [readOnly]: 'It is not writable. Make it and its directory writable',
  10: 'The disk, or a network file system, failed to read or write. Check it, then start again',
  11: 'The file is damaged. Restore it from a backup, or move it away to begin with an empty one',
  13: 'The disk is full. Free some space, then start again',
  [cannotOpen]: 'It cannot be opened. Make sure that its directory exists and that both are readable and writable',
};

const defaultAdvice =
  'It was changed by another program. Restore it from a backup, or move it away to begin with an empty one';

/**
 * A ConfigurationError such as `./exports/state.sqlite: database or disk is full. The disk is full. …` `whenMovedAway`
 * says what it costs to move the file away.
 */
export function sqliteError(file: string, cause: unknown, whenMovedAway?: string): ExportError {
  const code = primaryCode(cause);
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message =
    code === notADatabase
      ? `${file} is not a SQLite database. Move it away, or choose another directory`
      : `${file}: ${reason}. ${advice[code] ?? defaultAdvice}`;
  const hasCost = whenMovedAway !== undefined && /move it away/i.test(message);
  const cost = hasCost ? `. If you move it away, ${whenMovedAway}` : '';
  return new ExportError('ConfigurationError', `${message}${cost}`, { cause });
}

/** The result of `operation` on `file`. @throws ConfigurationError instead of SQLite's errors */
export function withSqliteErrors<Result>(file: string, operation: () => Result): Result {
  try {
    return operation();
  } catch (cause) {
    throw sqliteError(file, cause);
  }
}

/** Whether another connection kept the file locked beyond the busy timeout. */
export function isBusyError(error: unknown): boolean {
  return primaryCode(error) === busy;
}

/** Whether there is no such file, or SQLite may not create one that it needs beside it. */
export function isUnopenable(error: unknown): boolean {
  return [readOnly, cannotOpen].includes(primaryCode(error));
}

/** SQLite's primary result code: the lowest byte of the extended one. NaN if the error is not SQLite's. */
function primaryCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : Number.NaN;
}
