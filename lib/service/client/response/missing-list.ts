/**
 * Describes a page without its list of reports: what it has instead, and how to describe it if it is an empty page.
 */

import type { Description } from '../../api/description.ts';
import { InvalidPage, type PageFacts } from '../../api/next/kind.ts';
import { isBelowRoot } from '../../api/paths.ts';
import { kindOf } from '../../api/next/kinds.ts';
import type { PathValue } from '../../api/response-facts.ts';
import type { PageContent } from '../../formats/format-check.ts';
import { isTotalName } from './doubtful-end.ts';

interface MissingList {
  /** What stands in the place of the list. undefined: the page has no bytes. */
  readonly list: PathValue | undefined;
  readonly path: string | undefined;
  readonly content: Partial<PageContent>;
  readonly api: Description;
  readonly facts: PageFacts;
}

export function missingList({ list, path, content, api, facts }: MissingList): InvalidPage {
  const { reports } = api.page as { readonly reports?: string };
  if (list?.type === 'object' && list.isEmpty === false && path !== '')
    return new InvalidPage(
      `it has an object at ${path}, in the place of a list. If an object there is one report, set page.single to true`,
    );
  const invalid = (problem: string, advice: string) =>
    new InvalidPage(`${problem}${advice}${advice === '' ? '' : furtherProblem(facts, api)}`);
  if (list === undefined) return invalid('it has no bytes.', blankRemedy);
  if (list.type === 'null') {
    const condition = JSON.stringify({ at: path, is: null });
    return invalid(`it has null at ${path}, and no list of reports.`, `${remedy(condition)}, and describe when.error`);
  }
  if (api.page.format === 'xml' && list.parent && path !== undefined && isBelowRoot(path)) {
    const problem = `it has no element ${path}, which contains the reports.`;
    return invalid(problem, `${remedy(JSON.stringify({ at: path, is: null }))}, and describe when.error`);
  }
  const { fields = [] } = content;
  const names = fields.flatMap(({ path: field }) => nameInRoot(field) ?? []);
  const shown = names.slice(0, maxNames).map((name) => JSON.stringify(name));
  const has = shown.length === 0 ? '' : ` It has ${shown.join(', ')}.`;
  return invalid(`it has nothing that contains reports: ${reports}.${has}`, proposal(names, content, api));
}

/** What prevents the page from being an empty one, once `when.empty` holds: it must also say what follows. */
function furtherProblem(facts: PageFacts, api: Description): string {
  try {
    kindOf(api.next).read({ ...facts, isEmpty: true, reports: 0, mayBeSilent: facts.isFirst }, api);
    return '';
  } catch (error) {
    if (!(error instanceof InvalidPage)) throw error;
    return `. Also, ${error.message}`;
  }
}

const maxNames = 10;

/** The name of a field in the root; undefined for one in another object. */
function nameInRoot(path: string): string | undefined {
  const [, name] = /^\/([^/]*)$/.exec(path) ?? [];
  return name?.replaceAll('~1', '/').replaceAll('~0', '~');
}

const remedy = (condition: string): string => ` If this is a page without reports, set when.empty to ${condition}`;

/** For a document without anything in it, or without any bytes. */
const blankRemedy = remedy('{"at": "", "is": null}');

/** The remedy, unless the document looks like an error. Only a total proves that there are no reports. */
function proposal(
  names: readonly string[],
  { fields = [], value }: Partial<PageContent>,
  { page }: Description,
): string {
  if (names.some((name) => /error|exception|fault|message|code|detail/i.test(name))) return '';
  if (value?.('').isEmpty === true) return blankRemedy;
  const total = fields.find(({ path, text }) => text === '0' && isTotalName(path));
  const isShown = page.format === 'json' && total !== undefined;
  return remedy(isShown ? JSON.stringify({ at: total.path, is: 0 }) : 'a value that only such a page has');
}
