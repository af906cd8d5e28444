/** The problem of a page without its list of reports: what it has instead, and how to describe an empty page. */

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
    const line = JSON.stringify({ at: path, is: null });
    return new InvalidPage(`it has null at ${path}, and no list of reports. ${remedy(line)}, and describe when.error`);
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

const remedy = (line: string): string => `If this is a page without reports, set when.empty to ${line}`;

/** For a document without anything in it, or without any bytes. */
export const blankRemedy = remedy('{"at": "", "is": null}');

/** The line to add, for a document that looks like no error: zero is what a count says that has a name of its own. */
function proposal(
  names: readonly string[],
  { fields = [], value }: Partial<PageContent>,
  { page }: Description,
): string {
  if (names.some((name) => /error|exception|fault|message|code|detail/i.test(name))) return '';
  if (value?.('').isEmpty === true) return ` ${blankRemedy}`;
  const texts = fields.filter(({ text = '' }) => text !== '');
  const field = texts.find(({ text }) => text === '0') ?? texts.find(({ path }) => nameInRoot(path) !== undefined);
  return ` ${remedy(page.format === 'json' && field !== undefined ? lineOf(field) : 'a value that only such a page has')}`;
}

const lineOf = ({ path, text }: Field): string => JSON.stringify({ at: path, is: text === '0' ? 0 : text });
