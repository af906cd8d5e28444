/** Translates SQLite's errors into ConfigurationErrors that say what to do. */

import { ExportError, isExportError } from '../../core/errors.ts';

const busy = 5;

const restore =
  'Restore it from a backup, or move it away: published pages stay, and the next run starts at the beginning';

/** What to do, by SQLite's primary result code (sqlite.org/rescode.html). */
const advice: { readonly [code: number]: string } = {
  [busy]: 'Another process has kept it locked for too long. Stop the process that holds the lock, then start again',
  8: 'It is not writable. Make it and its directory writable',
  10: 'The disk, or a network file system, failed to read or write. Check it, then start again',
  11: `The file is damaged. ${restore}`,
  13: 'The disk is full. Free some space, then start again',
  14: 'It cannot be opened. Make sure that its directory exists and that both are readable and writable',
  26: `It is no SQLite file. ${restore}`,
};

/** A ConfigurationError such as `./exports/state.sqlite: database or disk is full. The disk is full. …` */
export function sqliteError(file: string, cause: unknown): ExportError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const remedy = advice[primaryCode(cause)] ?? `It was changed by another program. ${restore}`;
  return new ExportError('ConfigurationError', `${file}: ${reason}. ${remedy}`, { cause });
}

/** The result of `operation` on `file`. @throws ConfigurationError instead of SQLite's errors */
export function withSqliteErrors<Result>(file: string, operation: () => Result): Result {
  try {
    return operation();
  } catch (cause) {
    throw isExportError(cause) ? cause : sqliteError(file, cause);
  }
}

/** Whether another connection kept the file locked beyond the busy timeout. */
export function isBusyError(error: unknown): boolean {
  return primaryCode(error) === busy;
}

/** Whether a file that was opened for reading has a transaction that was not completed (SQLITE_READONLY_ROLLBACK). */
export const isRollbackNeeded = (error: unknown): boolean =>
  error instanceof Error && 'errcode' in error && error.errcode === 776;

/** SQLite's primary result code: the lowest byte of the extended one. NaN if the error is not SQLite's. */
function primaryCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : Number.NaN;
}
