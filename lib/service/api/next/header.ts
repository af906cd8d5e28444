/**
 * The next page is in a header:
 *
 *     sforce-locator: Zmlyc3Q
 *     {"from": "header", "at": "Sforce-Locator", "to": {"query": "locator"}}
 *
 * Without `last`, the last page has no such header. Refused: a header that occurs twice.
 */

import type * as z from 'zod/mini';
import { field, object } from '../../../core/schema/fields.ts';
import { responseHeaderName } from '../header-names.ts';
import { readWithLast } from './agreement.ts';
import { InvalidPage, type NextKind } from './kind.ts';
import { alsoOnLast, formOfCursor, fromField, targetFields, targetRules, writeCursor } from './target.ts';

export const headerSchema = object({
  from: fromField('header'),
  at: field('The name of the header.', responseHeaderName, { example: 'X-Cursor' }),
  ...targetFields,
  alsoOnLast,
});

/** A vendor's own header: with another vendor's name in the settings, every page would count as the last one. */
export const isCursorOfVendor = (name: string): boolean => /^x-.+-cursor$/i.test(name);

export const headerKind: NextKind<z.infer<typeof headerSchema>> = {
  rules: targetRules,
  paths: () => [],
  header: ({ at }) => at,
  read(page, api) {
    const { at } = api.next;
    const text = page.header(at);
    if (page.isRepeated(at)) throw new InvalidPage('the cursor header occurs more than once');
    const other = text === undefined && isCursorOfVendor(at) ? page.headerNames.find(isCursorOfVendor) : undefined;
    if (other !== undefined)
      throw new InvalidPage(`it has the header ${page.quote(other, 100)}, but ${at} is expected. Check the vendor`);
    const value = { parent: true, text, ...(text !== undefined && ({ type: 'string' } as const)) };
    const found = { value, what: 'cursor header', place: { header: at }, form: formOfCursor(api.next) };
    return readWithLast(found, page, api);
  },
  write: writeCursor,
};
