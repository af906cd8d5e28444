/** What may be wrong with the description of the end: a `next` that names a wrong place, or a flag and no `last`. */

import { needsSomething, partsOf } from '../../api/condition.ts';
import type { PageHints } from '../../../core/ports.ts';
import type { Description } from '../../api/description.ts';
import type { PageFacts } from '../../api/next/kind.ts';
import { kindOf } from '../../api/next/kinds.ts';
import type { Field } from '../../formats/format-check.ts';

const moreName =
  /^((has|is)?(more|next)(pages?|results|items|records|data|available|itemsincollection)?|(is)?truncated)$/;
const endName =
  /^((is)?(last|final)(page|batch)?|(is)?(done|finished|completed?)|end|eof|endof(stream|data|results|list))$/;
const cursorName =
  /^(odata)?(next|after|cursor|scroll|continuation|marker|bookmark)(page|cursor|token|url|uri|link|href|id|key|offset|marker)*$|^pag(e|ing|ination)(token|cursor)$/;
const cursorHeader = /^(?!.*prev)(.*-)?(next|cursor|continuation)(-.*)?$/;
const totalName =
  /^(total|count|num)(count|items|results|records|reports|elements|hits|found|size|available)?$|total$|^(result|record|item|report)s?(count|found|perpage)$|^currentpagesize$/;

/** The last name in a path, as the patterns have it. */
const plainName = (path: string): string =>
  path
    .slice(path.lastIndexOf('/') + 1)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '');

/** The value that a flag of this name has on the last page; undefined: it is no such name. */
function flagOnLastPage(path: string): boolean | undefined {
  const name = plainName(path);
  return moreName.test(name) ? false : endName.test(name) ? true : undefined;
}

export const isTotalName = (path: string): boolean => totalName.test(plainName(path));

/** `isLast`: nothing is at the place of the next page. */
export function pageHints(
  facts: PageFacts,
  api: Description,
  { fields = [], isLast }: { readonly fields?: readonly Field[] | undefined; readonly isLast: boolean },
): PageHints {
  const { next, last, pagination } = api;
  const isProved = partsOf(last).some(needsSomething) || kindOf(next).sends === 'count';
  if (isProved || pagination === undefined || facts.reports === 0) return {};
  const signs = isLast ? [...signsInFields(facts, fields), ...signsInHead(facts)] : [];
  if (signs.length > 0) {
    const at = 'at' in next ? `next.at (${next.at})` : 'next';
    const found = next.from === 'none' ? 'with next.from: none, every page is the last one' : `nothing is at ${at}`;
    return {
      doubtfulEnd: `${found}, so the run would end here. But the page has ${signs.join(', ')}. Check ${at}`,
    };
  }
  const flag = fields.find(({ path, text }) => /^(true|false)$/.test(text ?? '') && flagOnLastPage(path) !== undefined);
  return flag === undefined ? {} : { flag: { at: flag.path, is: flagOnLastPage(flag.path) === true } };
}

function signsInHead({ header, headerNames, isFirst, reports, size, quote }: PageFacts): readonly string[] {
  const names = headerNames.filter((name) => cursorHeader.test(name) && header(name) !== '');
  return [
    ...(/\brel\s*=\s*"?next\b/i.test(header('link') ?? '') ? ['a Link with rel="next"'] : []),
    ...names.map((name) => `the header ${quote(name, 100)}`),
    ...(isFirst && size !== undefined && reports === size ? [`exactly as many reports as size (${size})`] : []),
  ];
}

function signsInFields({ isFirst, reports, quote }: PageFacts, fields: readonly Field[]): readonly string[] {
  return fields.flatMap(({ path, text }) => {
    const flag = flagOnLastPage(path);
    if (flag !== undefined && text === String(!flag)) return [`${text} at ${quote(path, 100)}`];
    if (!isFirst) return [];
    const isLarger = /^\d+$/.test(text ?? '') && Number(text) > (reports ?? Number.POSITIVE_INFINITY);
    if (isTotalName(path) && isLarger) return [`a total of ${text} at ${quote(path, 100)}`];
    const isCursor = cursorName.test(plainName(path)) && ![null, '', '0', '-1', 'null', 'false'].includes(text ?? 'x');
    return isCursor && text !== null ? [`a value at ${quote(path, 100)}`] : [];
  });
}
