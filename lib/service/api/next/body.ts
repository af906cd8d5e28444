/**
 * The next page is in the body:
 *
 *     {"data": […], "meta": {"next": "Zmlyc3Q"}}
 *     {"from": "body", "at": "/meta/next", "to": {"query": "cursor"}}
 *
 *     <ListBucketResult>…<NextContinuationToken>1/j</NextContinuationToken></ListBucketResult>
 *     {"from": "body", "at": "/ListBucketResult/NextContinuationToken", "to": {"query": "continuation-token"}}
 *
 *     {"data": {"items": {"nodes": […], "pageInfo": {"hasNextPage": false, "endCursor": "Y3Vyc29y"}}}}
 *     {"from": "body", "at": "/data/items/pageInfo/endCursor", "to": {"body": "/variables/after"}, "alsoOnLast": true}
 *     with "last": {"at": "/data/items/pageInfo/hasNextPage", "is": false}
 *
 * Without `last`, the last page has nothing there, but what would contain it. Refused: a boolean, an object or a list
 * as a text, and a body without a place for the next page.
 */

import type * as z from 'zod/mini';
import { field, object } from '../../../core/schema/fields.ts';
import { isInReport, listPath, pathSchema } from '../paths.ts';
import { reportsIn } from '../page.ts';
import { vendorAdvice } from '../request.ts';
import { readWithLast } from './agreement.ts';
import type { NextKind } from './kind.ts';
import { alsoOnLast, formOfValue, fromField, targetFields, targetRules, writeCursor } from './target.ts';

export const bodySchema = object({
  from: fromField('body'),
  at: field(
    'The path in the body: a JSON Pointer, such as `/meta/next`, or elements of XML, such as `/feed/link[@rel=next]/@href`.',
    pathSchema,
    { example: '/meta/next' },
  ),
  ...targetFields,
  alsoOnLast,
});

export const bodyKind: NextKind<z.infer<typeof bodySchema>> = {
  rules(api) {
    const { next, page } = api;
    const reports = reportsIn(page);
    const isInside = isInReport(next.at, page);
    return [
      ...targetRules(api),
      [
        ['page', 'reports'],
        isInside && reports === undefined,
        'is required: next.at is in a child element of the root, which otherwise counts as a report',
      ],
      [
        ['next', 'at'],
        isInside && reports !== undefined,
        page.format === 'json' && listPath(page) === ''
          ? 'is in a report, as the whole page is their list. Look at the headers of a response: next.from is link or header if one has the next page, otherwise report or count'
          : `is in a report, so that a short page would count as the last one. ${vendorAdvice}`,
      ],
    ];
  },
  paths: ({ at }) => [[['next', 'at'], at]],
  read(page, api) {
    const { at } = api.next;
    const found = { value: page.value(at), what: `value at ${at}`, place: { at }, form: formOfValue(api) };
    return readWithLast(found, page, api);
  },
  form: formOfValue,
  write: writeCursor,
};
