/** Describes a page without its list of reports: what it has instead, and how to describe it if it is an empty page. */

import type { Description } from '../../api/description.ts';
import { InvalidPage } from '../../api/next/kind.ts';
import type { PathValue } from '../../api/response-facts.ts';
import type { Field, PageContent } from '../../formats/format-check.ts';

interface MissingList {
  /** What stands in the place of the list. undefined: the page has no bytes. */
  readonly list: PathValue | undefined;
  readonly path: string | undefined;
  readonly content: Partial<PageContent>;
  readonly api: Description;
}

export function missingList({ list, path, content, api }: MissingList): InvalidPage {
  if (list === undefined) return new InvalidPage(`it has no bytes. ${blankRemedy}`);
  const { reports } = api.page as { readonly reports?: string };
  if (list.type === 'object' && list.isEmpty === false && path !== '')
    return new InvalidPage(
      `it has an object at ${path}, in the place of a list. If an object there is one report, set page.single to true`,
    );
  if (list.type === 'null') {
    const condition = JSON.stringify({ at: path, is: null });
    const advice = `${remedy(condition)}, and describe when.error`;
    return new InvalidPage(`it has null at ${path}, and no list of reports. ${advice}`);
  }
  const { fields = [] } = content;
  const names = fields.flatMap(({ path: field }) => nameInRoot(field) ?? []);
  const shown = names.slice(0, maxNames).map((name) => JSON.stringify(name));
  const has = shown.length === 0 ? '' : ` It has ${shown.join(', ')}.`;
  return new InvalidPage(`it has nothing that contains reports: ${reports}.${has}${proposal(names, content, api)}`);
}

const maxNames = 10;

/** The name of a field in the root; undefined for one in another object. */
function nameInRoot(path: string): string | undefined {
  const [, name] = /^\/([^/]*)$/.exec(path) ?? [];
  return name?.replaceAll('~1', '/').replaceAll('~0', '~');
}

const remedy = (condition: string): string => `If this is a page without reports, set when.empty to ${condition}`;

/** For a document without anything in it, or without any bytes. */
export const blankRemedy = remedy('{"at": "", "is": null}');

/** The remedy, unless the document looks like an error. Prefers a field that is zero: it probably counts reports. */
function proposal(
  names: readonly string[],
  { fields = [], value }: Partial<PageContent>,
  { page }: Description,
): string {
  if (names.some((name) => /error|exception|fault|message|code|detail/i.test(name))) return '';
  if (value?.('').isEmpty === true) return ` ${blankRemedy}`;
  const texts = fields.filter(({ text = '' }) => text !== '');
  const field = texts.find(({ text }) => text === '0') ?? texts.find(({ path }) => nameInRoot(path) !== undefined);
  const isShown = page.format === 'json' && field !== undefined;
  return ` ${remedy(isShown ? conditionOf(field) : 'a value that only such a page has')}`;
}

const conditionOf = ({ path, text }: Field): string => JSON.stringify({ at: path, is: text === '0' ? 0 : text });
