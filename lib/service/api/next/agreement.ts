/** Whether a page is the last one: `last` and the next page must agree. */

import { isSomething } from '../response-facts.ts';
import { type Condition, type ConditionPart, evaluate, partsOf } from '../condition.ts';
import { cursorOf, type Found, hasNextPage } from './cursor.ts';
import { type Described, InvalidPage, lastPage, type Next, type PageFacts } from './kind.ts';
import type { WithTarget } from './target.ts';

/** Whether `last` makes the page the last one: it holds, or is silent where it may be (`mayBeSilent`). */
export function isLastBy(last: Condition | undefined, page: PageFacts): boolean {
  const { answer } = evaluate(last, page);
  return answer === 'holds' || (answer === 'silent' && page.mayBeSilent);
}

type WithEnd = WithTarget & { readonly alsoOnLast?: boolean | undefined };

/**
 * A page at which `last` holds has no next page, and every other page has one.
 * @throws InvalidPage if they contradict each other, or if nothing says whether there is a next page
 */
export function readWithLast(found: Found, page: PageFacts, api: Described<WithEnd>): Next {
  const { next } = api;
  const hasNext = hasNextPage(found);
  const last = lastOf(found, api);
  const { answer, part } = answerOf(last, found, page);
  if (answer === 'holds') {
    if (!hasNext || next.alsoOnLast === true || isAbout(part, found)) return lastPage;
    const remedy = 'If the last page may have one, set alsoOnLast in next';
    throw new InvalidPage(`it has a ${found.what}, but is the last page (${describe(last)}). ${remedy}`);
  }
  if (hasNext) return { kind: 'page', cursor: cursorOf(found, page, api) };
  if (found.value.type !== undefined && last === undefined) throw new InvalidPage(`the ${found.what} is empty`);
  if (answer === 'silent' && page.mayBeSilent) return lastPage;
  throw new InvalidPage(
    answer === 'silent'
      ? `it has no ${found.what}, and nothing says whether it is the last page (${describe(last)})${remedyFor(found, page, api)}`
      : `it has no ${found.what}, but is not the last page (${describe(last)}). Check next.at and last`,
  );
}

/** Without `last`, that the place of the next page in the body has nothing. */
const lastOf = ({ place }: Found, { last }: Described<WithEnd>): Condition | undefined =>
  last ?? (place?.at === undefined ? undefined : { at: place.at, is: null });

function answerOf(last: Condition | undefined, { value }: Found, page: PageFacts): ReturnType<typeof evaluate> {
  if (last !== undefined) return evaluate(last, page);
  return { answer: value.type === undefined ? 'holds' : 'does not' };
}

const describe = (last: Condition | undefined): string => `last: ${JSON.stringify(last)}`;

/** Whether the condition that holds is about the next page: a certain text there, or the cursor of the request. */
const isAbout = (part: ConditionPart | undefined, { place }: Found): boolean =>
  // The mere presence of a value would make every page the last one.
  part?.is !== undefined &&
  place !== undefined &&
  part.at === place.at &&
  part.header?.toLowerCase() === place.header?.toLowerCase();

/** The line to add if only the last page lacks what contains the next page, or has nothing at all. */
function remedyFor(found: Found, page: PageFacts, api: Described<WithEnd>): string {
  const { value, place: { at } = {} } = found;
  const { format } = api.page;
  if (at === undefined || value.parent) return '';
  if (page.isEmpty && !isSomething(page.value(''))) {
    const isPage = page.statuses.includes(page.status);
    const lines = [...partsOf(lastOf(found, api)), isPage ? { at: '', is: null } : { status: page.status }];
    return `. If such a response ends the pages, set last to ${JSON.stringify(lines)}`;
  }
  if (api.last !== undefined) return '';
  const parents = at.split('/').map((_, index, parts) => parts.slice(0, index).join('/'));
  // The topmost one that is missing. In XML, only the paths of the description are known.
  const missing = parents.slice(2).find((parent) => page.value(parent).type === undefined);
  const place = format === 'json' && missing !== undefined ? missing : 'the path of what it lacks';
  return `. If the last page, and no other, is like this, set api.last to {"at": "${place}", "is": null}`;
}
