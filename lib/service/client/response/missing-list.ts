/** The problem of a page without its list of reports: what it has instead, and what to write if it is a page without reports. */

import type { Description } from '../../api/description.ts';
import { InvalidPage } from '../../api/next/kind.ts';
import type { PathValue } from '../../api/response-facts.ts';
import type { PageContent, RootField } from '../../formats/format-check.ts';

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
  const { rootFields = [] } = content;
  const names = rootFields.map(({ name }) => JSON.stringify(name)).join(', ');
  const has = names === '' ? '' : ` It has ${names}.`;
  return new InvalidPage(
    `it has nothing that contains reports: ${reports}.${has}${proposal(rootFields, content, api)}`,
  );
}

const remedy = (line: string): string => `If this is a page without reports, set when.empty to ${line}`;

/** Of a document without anything in it, or without any bytes. */
export const blankRemedy = remedy('{"at": "", "is": null}');

/** The line to add, for a document that looks like no error. */
function proposal(fields: readonly RootField[], content: Partial<PageContent>, { page }: Description): string {
  if (fields.some(({ name }) => /error|exception|fault|message|code|detail/i.test(name))) return '';
  if (content.value?.('').isEmpty === true) return ` ${blankRemedy}`;
  if (page.format !== 'json') return ` ${remedy('a value that only such a page has')}`;
  const field = fields.find(({ text }) => text === '0') ?? fields.find(({ text = '' }) => text !== '');
  if (field?.text === undefined) return ` ${remedy('a value that only such a page has')}`;
  const pointer = `/${field.name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  return ` ${remedy(JSON.stringify({ at: pointer, is: field.text === '0' ? 0 : field.text }))}`;
}
