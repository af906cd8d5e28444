/** Pages that follow from their numbers: the number determines the bytes and the cursors. */

import { asCursor, type Cursor } from '../../lib/core/model.ts';

/** The cursor of `page`, in the contract's form: 13 digits, a comma, hyphenated hexadecimal groups. */
export function cursorTo(page: number): Cursor {
  return asCursor(`1588888888888,550e8400-e29b-41d4-a716-${page.toString(16).padStart(12, '0')}`);
}

/** The page of a cursor of {@link cursorTo}; the first page for null. */
export function pageOf(cursor: Cursor | null): number {
  return cursor === null ? 1 : Number.parseInt(cursor.slice(-12), 16);
}

/** The number of reports on a page: 1 to 5. */
export const reportsOn = (page: number): number => 1 + ((page * 7) % 5);

export function bodyOf(page: number): Buffer {
  const reports = Array.from({ length: reportsOn(page) }, (_, index) => `<report id="${page}-${index}"/>`);
  return Buffer.from(`<reports>${reports.join('')}</reports>\n`);
}
