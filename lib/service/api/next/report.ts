/**
 * The next page begins after the last report:
 *
 *     {"data": [{"id": "ch_1"}, {"id": "ch_2"}], "has_more": true}
 *     {"from": "report", "at": "/id", "to": {"query": "starting_after"}}
 *     with "last": {"at": "/has_more", "is": false}
 *
 * `last` is required, and decides alone: every report has the field, also the last one. Refused: a last report without
 * the field, and a page without reports that is not the last one.
 */

import type * as z from 'zod/mini';
import { field, object } from '../../../core/schema/fields.ts';
import { isFieldOfReport, pathSchema } from '../paths.ts';
import { isLastBy } from './agreement.ts';
import { cursorOf } from './cursor.ts';
import { InvalidPage, lastPage, type NextKind } from './kind.ts';
import { formOfValue, fromField, targetFields, targetRules, writeCursor } from './target.ts';

export const reportSchema = object({
  from: fromField('report'),
  at: field('The path of a field in each report: the cursor is that of the last report of the page.', pathSchema, {
    example: '/id',
  }),
  ...targetFields,
});

export const reportKind: NextKind<z.infer<typeof reportSchema>> = {
  rules(api) {
    const { next, page, last } = api;
    const { format } = page;
    return [
      ...targetRules(api),
      [['next', 'from'], format !== 'json' && format !== 'xml', 'needs the page format json or xml'],
      [['page', 'reports'], page.format === 'xml' && page.reports === undefined, 'is required with next.from: report'],
      [['page', 'single'], 'single' in page && page.single === true, 'has no meaning with next.from: report'],
      [['next', 'at'], !isFieldOfReport(next.at, page), 'must be the path of a field in a report, such as /id'],
      [
        ['next', 'to'],
        next.to === 'url' || (typeof next.to === 'object' && 'query' in next.to && next.to.query === '*'),
        'must be a place for the cursor: there is no URL in a report',
      ],
      [
        ['last'],
        last === undefined,
        'is required with next.from: report, such as {"at": "/has_more", "is": false} or {"reports": 0}: the last report of the last page has the field, too',
      ],
    ];
  },
  paths: () => [],
  read(page, api) {
    const { last, next } = api;
    if (isLastBy(last, page)) return lastPage;
    if (page.isEmpty || page.reports === 0)
      throw new InvalidPage(`it has no reports, but is not the last page by ${JSON.stringify(last)}`);
    const { type } = page.inLastReport;
    if (type !== 'string' && type !== 'number')
      throw new InvalidPage(`the last report has no text or number at ${next.at}, which is the cursor`);
    const what = `value at ${next.at} in the last report`;
    const found = { value: page.inLastReport, what, form: formOfValue(api) };
    return { kind: 'page', cursor: cursorOf(found, page, api) };
  },
  form: formOfValue,
  inReport: ({ at }) => at,
  write: writeCursor,
};
