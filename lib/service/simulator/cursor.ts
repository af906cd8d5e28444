/**
 * Encodes and decodes cursors in the form of docs/service-contract.md, section 2.2: 13 digits, a comma, hyphenated
 * groups of hexadecimal digits.
 *
 *     1763604000000,00000001-2b0d-5f0c-9d1e-0b7a2c44e913
 *     date          ordinal  HMAC
 *
 * A cursor is self-contained, so the service can restart between two pages. Date and ordinal are the position after the
 * last report sent. The HMAC covers these, the vendor, the seed and the request: a forged cursor, or one sent with
 * another filter, format, container or size (section 4.1, rule 6), is rejected.
 */

import { createHmac } from 'node:crypto';
import type { Position } from './report-source.ts';
import { Rejection } from './request.ts';

/** `request` is the canonical form of what the cursor must be sent with (`ExportRequest.identity`). */
export interface CursorCodec {
  encode(position: Position, request: string): string;
  /** @throws Rejection invalid_cursor */
  decode(cursor: string, request: string): Position;
}

export function createCursorCodec(options: { readonly seed: string | number; readonly vendor: string }): CursorCodec {
  function encode(position: Position, request: string): string {
    const date = String(position.date).padStart(13, '0');
    const ordinal = position.ordinal.toString(16).padStart(8, '0');
    const signed = JSON.stringify([options.vendor.toLowerCase(), request, date, ordinal]);
    const hmac = createHmac('sha256', `cursor ${options.seed}`).update(signed).digest('hex');
    return `${date},${ordinal}-${hmac.slice(0, 4)}-${hmac.slice(4, 8)}-${hmac.slice(8, 12)}-${hmac.slice(12, 24)}`;
  }

  function decode(cursor: string, request: string): Position {
    const parts = /^(\d{13}),([\da-f]{8})-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/.exec(cursor);
    if (parts === null) throw new Rejection('invalid_cursor', 'The cursor is malformed');
    const [, date, ordinal = ''] = parts;
    const position = { date: Number(date), ordinal: Number.parseInt(ordinal, 16) };
    if (encode(position, request) !== cursor) {
      const expected = 'for a request with this filter, format, container and size';
      throw new Rejection('invalid_cursor', `This service did not issue the cursor ${expected}`);
    }
    return position;
  }

  return { encode, decode };
}
