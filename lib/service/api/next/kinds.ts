/** The kinds of `next`, in the only place that knows them all. A new one is a file, and a line in each list. */

import * as z from 'zod/mini';
import { oneKindOf } from '../../../core/schema/fields.ts';
import type { PageSettings } from '../page.ts';
import { countAdvice } from '../request.ts';
import { bodyKind, bodySchema } from './body.ts';
import { countKind, countSchema } from './count.ts';
import { headerKind, headerSchema } from './header.ts';
import type { CursorForm, NextKind } from './kind.ts';
import { linkKind, linkSchema } from './link.ts';
import { noneKind, noneSchema } from './none.ts';
import { reportKind, reportSchema } from './report.ts';
import { formOfCursor, type WithTarget } from './target.ts';

export const nextSchema = oneKindOf(
  'from',
  [headerSchema, linkSchema, bodySchema, reportSchema, countSchema, noneSchema],
  (place) => (/offset|page|number|skip/i.test(place) ? countAdvice : undefined),
).check(z.meta({ id: 'api.next' }));
export type NextSettings = z.infer<typeof nextSchema>;

const kinds: { readonly [From in NextSettings['from']]: NextKind<Extract<NextSettings, { readonly from: From }>> } = {
  header: headerKind,
  link: linkKind,
  body: bodyKind,
  report: reportKind,
  count: countKind,
  none: noneKind,
};

export const kindOf = ({ from }: NextSettings): NextKind<NextSettings> => kinds[from] as NextKind<NextSettings>;

/** Where each report has its ID, if two passes prove the pages; undefined if pages prove themselves. */
export const provedBy = (next: NextSettings): readonly string[] | undefined => kindOf(next).provedBy?.(next);

/** Where the next page is, for people: `body /meta/next`. */
export const placeOfNext = (next: NextSettings): string =>
  kindOf(next).place?.(next) ?? `${next.from} ${'at' in next ? next.at : ''}`.trim();

export const formOfNext = ({ next, page }: { readonly next: NextSettings; readonly page: PageSettings }): CursorForm =>
  kindOf(next).form?.({ next, page }) ?? formOfCursor(next as WithTarget);
