/**
 * Describes a page without its list of reports: what it has instead, and how to describe it if it is an empty page.
 */

import type { Description } from '../../api/description.ts';
import { InvalidPage, type PageFacts } from '../../api/next/kind.ts';
import { isBelowRoot } from '../../api/paths.ts';
import { kindOf } from '../../api/next/kinds.ts';
import type { PathValue } from '../../api/response-facts.ts';
import type { PageContent } from '../../formats/format-check.ts';
import { isTotalName } from './page-hints.ts';

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
  const isMissingInXml = api.page.format === 'xml' && list.parent && isBelowRoot(path ?? '');
  if (list.type === 'null' || isMissingInXml) {
    const condition = JSON.stringify({ at: path, is: null });
    const found = isMissingInXml ? 'nothing' : 'null';
    return invalid(
      `it has ${found} at ${path}, and no list of reports.`,
      `${remedy(condition)}, and describe when.error`,
    );
  }
  const { fields = [] } = content;
  const shown = fields.slice(0, maxFields).map(({ path: at, text }) => {
    const value = typeof text === 'string' && /^(\d{1,6}|[a-z]{1,12})$/.test(text) ? ` (${text})` : '';
    return `${facts.quote(at, 60)}${value}`;
  });
  const has = shown.length === 0 ? '' : ` It has ${shown.join(', ')}.`;
  return invalid(`it has nothing that contains reports: ${reports}.${has}`, proposal(content, api));
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

/** Only values that are hardly personal are quoted. */
const maxFields = 10;

const remedy = (condition: string): string => ` If this is a page without reports, set when.empty to ${condition}`;

/** For a document without anything in it, or without any bytes. */
const blankRemedy = remedy('{"at": "", "is": null}');

/** The remedy, unless the document looks like an error. Only a total proves that there are no reports. */
function proposal({ fields = [], value }: Partial<PageContent>, { page }: Description): string {
  if (fields.some(({ path }) => /^\/[^/]*(error|exception|fault|message|code|detail)[^/]*$/i.test(path))) return '';
  if (value?.('').isEmpty === true) return blankRemedy;
  const total = fields.find(({ path, text }) => text === '0' && isTotalName(path));
  const isShown = page.format === 'json' && total !== undefined;
  return remedy(isShown ? JSON.stringify({ at: total.path, is: 0 }) : 'a value that only such a page has');
}
