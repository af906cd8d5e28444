/**
 * There is no next page: the response is the whole export.
 *
 *     {"from": "none"}
 *
 * If `last` is described, it must hold. Refused: a page with as many reports as the request asked for, as it may be
 * cut.
 */

import type * as z from 'zod/mini';
import { object } from '../../../core/schema/fields.ts';
import { isLastBy } from './agreement.ts';
import { InvalidPage, lastPage, type NextKind } from './kind.ts';
import { fromField } from './target.ts';

export const noneSchema = object({ from: fromField('none') });

export const noneKind: NextKind<z.infer<typeof noneSchema>> = {
  sends: 'nothing',
  rules: () => [],
  paths: () => [],
  read(page, { last }) {
    if (last !== undefined && !isLastBy(last, page))
      throw new InvalidPage(
        `it is not the last page by ${JSON.stringify(last)}, but there is no next page (next.from: none)`,
      );
    if (page.size !== undefined && Number(page.reports) >= page.size)
      throw new InvalidPage(
        `it has ${page.reports} reports, as many as the export's size, so that others may be missing. Raise size, or describe the next page`,
      );
    return lastPage;
  },
  write: (parts) => parts,
};
