/** Turns what SQLite says into what a person can act on. */

import { ExportError } from '../../core/errors.ts';

/** SQLite's primary result codes that a person can do something about (sqlite.org/rescode.html). */
const advice: { readonly [code: number]: string } = {
  5: 'another process has been writing to it for too long; look for one that hangs, then start again',
  8: 'it may not be written to; make it and its directory writable',
  10: 'the disk failed to read or write; look after the disk, then start again',
  11: 'the file is damaged; restore it from a backup, or move it away to begin with an empty one',
  13: 'the disk is full; make room, then start again',
  14: 'it cannot be opened; see that its directory exists and that both may be read and written',
  26: 'the file is no SQLite database; move it away, or choose another directory',
};

const otherwise =
  'it is not as this exporter left it; restore it from a backup, or move it away to begin with an empty one';

export function sqliteError(file: string, cause: unknown): ExportError {
  const why = cause instanceof Error ? cause.message : String(cause);
  const what = advice[resultCode(cause)] ?? otherwise;
  return new ExportError('ConfigurationError', `${file}: ${why} — ${what}`, { cause });
}

/** Whether another connection had the file locked for longer than ours was ready to wait. */
export function isBusy(error: unknown): boolean {
  return resultCode(error) === 5;
}

/** The primary code, without SQLite's finer distinctions; NaN where the error is not SQLite's. */
function resultCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : Number.NaN;
}
