/** A report set whose every page follows from its number: whoever knows the number knows the bytes and the cursor. */

import { asCursor, type Cursor } from '../../lib/core/model.ts';

/** Of the contract's form (section 2.2): 13 digits, a comma, hyphenated hexadecimal groups. */
export function cursorTo(page: number): Cursor {
  return asCursor(`1588888888888,550e8400-e29b-41d4-a716-${page.toString(16).padStart(12, '0')}`);
}

/** The page that a cursor of {@link cursorTo} leads to; null leads to the first. */
export function pageBehind(cursor: Cursor | null): number {
  return cursor === null ? 1 : Number.parseInt(cursor.slice(-12), 16);
}

/** A few. */
export const reportsOn = (page: number): number => 1 + ((page * 7) % 5);

export function bodyOf(page: number): Buffer {
  const reports = Array.from({ length: reportsOn(page) }, (_, index) => `<report id="${page}-${index}"/>`);
  return Buffer.from(`<reports>${reports.join('')}</reports>\n`);
}
