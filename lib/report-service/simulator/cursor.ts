/**
 * The service's cursors, of the contract's form (section 2.2): 13 digits, a comma, hyphenated groups of hexadecimal digits.
 *
 *     1763604000000,00000001-0000-5f0c-9d1e-0b7a2c44e913
 *     date          ordinal  empty keyed hash
 *
 * A cursor holds all there is to know, and the service remembers none: it may be restarted between a page and the next.
 * The first two parts are the position behind the last report served. The third counts the empty pages sent since (a
 * scripted fault), so that their cursors differ. The hash covers these, the vendor, the seed and the request, so that a
 * forged cursor, or one sent with another filter, format, container or size (section 4.1, rule 6), is refused.
 */

import { createHmac } from 'node:crypto';
import { Refusal } from './refusal.ts';
import type { Position } from './report-source.ts';

interface CursorContent {
  readonly position: Position;
  readonly emptyPages: number;
}

export interface CursorForm {
  write(content: CursorContent, request: string): string;
  /** @throws Refusal invalid_cursor */
  read(cursor: string, request: string): CursorContent;
}

/** `request`, in both directions, is the canonical form of what the cursor must be sent with. */
export function cursorForm(options: { readonly seed: string | number; readonly vendor: string }): CursorForm {
  function write({ position, emptyPages }: CursorContent, request: string): string {
    const date = String(position.date).padStart(13, '0');
    const ordinal = position.ordinal.toString(16).padStart(8, '0');
    const empty = emptyPages.toString(16).padStart(4, '0');
    const signed = JSON.stringify([options.vendor.toLowerCase(), request, date, ordinal, empty]);
    const hash = createHmac('sha256', `cursor ${options.seed}`).update(signed).digest('hex');
    return `${date},${ordinal}-${empty}-${hash.slice(0, 4)}-${hash.slice(4, 8)}-${hash.slice(8, 20)}`;
  }

  function read(cursor: string, request: string): CursorContent {
    const parts = /^(\d{13}),([\da-f]{8})-([\da-f]{4})-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/.exec(cursor);
    if (parts === null) throw new Refusal('invalid_cursor', 'The cursor is not of the form this service gives out');
    const [, date, ordinal = '', empty = ''] = parts;
    const position = { date: Number(date), ordinal: Number.parseInt(ordinal, 16) };
    const content = { position, emptyPages: Number.parseInt(empty, 16) };
    if (write(content, request) !== cursor) {
      const why = 'or was given out for another filter, format, container or size';
      throw new Refusal('invalid_cursor', `The cursor was not given out by this service, ${why}`);
    }
    return content;
  }

  return { write, read };
}
