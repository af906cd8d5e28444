/** Paths in documents: which are valid in a format, and what they lead to. `formats` reads them. */

import * as z from 'zod/mini';
import { exactlyOne, field, oneTypeOf } from '../../core/schema/fields.ts';
import { responseHeaderName } from './header-names.ts';
import type { ResponseFacts } from './response-facts.ts';

export const pathSchema = z
  .string()
  .check(z.minLength(1, 'must not be empty'), z.maxLength(1_000, 'must have at most 1,000 characters'));

/** A place in a response: a path in the body, or a header, such as `example`. */
export const placeSchema = (example: string) =>
  oneTypeOf(
    [pathSchema, exactlyOne({ header: field('The name of the header.', responseHeaderName, { example }) })],
    'must be a path, or have header',
  );

export const textAt = (
  place: z.infer<ReturnType<typeof placeSchema>>,
  facts: Pick<ResponseFacts, 'value' | 'header'>,
) => (typeof place === 'string' ? facts.value(place).text : facts.header(place.header));

/** Names have no prefix, as `formats/xml.ts` compares them: with one, nothing would ever be found. */
export const xmlPath =
  /^(\/[^/@[\]:=\s"']+(\[@[^/@[\]:=\s"']+=("[^"\]/]*"|'[^'\]/]*'|[^"'\]/]*)\])?)+(\/@[^/@[\]:=\s"']+)?$/;
/** A JSON Pointer, one of whose names may select an item of its list by a field: `/link[relation=next]/url`. */
export const jsonPath =
  /^(?!.*\[.*\[)(\/([^~/[\]]|~[01])*(\[([^~/[\]="']|~[01])+=("[^"\]/]*"|'[^'\]/]*'|[^"'\]/]*)\])?)+$/;

/** Why a page of this format has nothing at the path; undefined if it may have. */
export function problemOfPath(path: string, format: string): string | undefined {
  if (path === '') return undefined;
  if (format === 'xml') {
    return xmlPath.test(path)
      ? undefined
      : 'must be a path of elements without prefixes, such as /feed/link[@rel=next]/@href';
  }
  if (format !== 'json') return `has no meaning in ${format}, in which the only path is "", the whole document`;
  return jsonPath.test(path)
    ? undefined
    : 'must be a JSON Pointer, such as /meta/next, in which one list may have a selection, such as /link[relation=next]/url';
}

/** Whether the path leads to what is at `part`, or into it. */
const isWithin = (path: string, part: string): boolean =>
  path.startsWith(part) && /^([/[]|$)/.test(path.slice(part.length));

/** Where reports are: `reports` of a page, and its format. */
export interface ReportsPlace {
  readonly format: string;
  readonly reports?: string | undefined;
}

/** The path of the list of reports in JSON; of what contains them in XML. undefined: there are no paths. */
export function listPath({ format, reports }: ReportsPlace): string | undefined {
  if (reports === undefined || !['json', 'xml'].includes(format)) return undefined;
  return format === 'json' ? reports.replace(/\/\*$/, '') : reports.slice(0, reports.lastIndexOf('/'));
}

/** Whether the element is inside another one than the root. */
export const isBelowRoot = (path: string): boolean => namesOf(path).length > 2;

export const isFieldOfReport = (at: string, { format, reports }: ReportsPlace): boolean =>
  format === 'xml'
    ? xmlPath.test(`${reports ?? '/a'}${at}`) && !at.includes('[')
    : jsonPath.test(at) && !/[[*]|^\/$/.test(at);

/** A path from a report, or the name of a column. */
export const placeInReport = z.string().check(z.maxLength(1_000, 'must have at most 1,000 characters'));

/** Why no value of a report can be read at this place; undefined if it can. In CSV, it is the name of a column. */
export function problemInReport(at: string, page: ReportsPlace): string | undefined {
  const { format, reports } = page;
  if (format === 'csv' && reports === undefined) return at === '' ? placesInReport.csv : undefined;
  if (format === 'json' && at === '') return undefined;
  if (format !== 'json' && format !== 'ndjson' && format !== 'xml')
    return 'needs pages with reports that can be read: not zip or bytes, nor csv without a row of names';
  return isFieldOfReport(at, { format: format === 'xml' ? 'xml' : 'json' }) ? undefined : placesInReport[format];
}

const placesInReport = {
  json: 'must be a JSON Pointer in a report, such as /full_name, without a selection; empty for a report that is a text',
  ndjson: 'must be a JSON Pointer in a report, such as /full_name, without a selection',
  xml: 'must be a path below the report without prefixes, such as /id or /link/@href',
  csv: 'must be the name of a column',
} as const;

/** Whether a path leads to a report, or into one. Without `reports`, these are the child elements of the root. */
export function isInReport(path: string, { format, reports }: ReportsPlace): boolean {
  if (path === '') return false;
  if (format === 'json') return reports !== undefined && isWithin(path, reports.replace(/\/\*$/, ''));
  if (format !== 'xml') return false;
  const names = namesOf(path);
  const reportNames = namesOf(reports ?? '/*/*');
  const isSame = (one: string, other: string | undefined) => one === other || [one, other].includes('*');
  return reportNames.length <= names.length && reportNames.every((name, index) => isSame(name, names[index]));
}

/** The names of the elements in a path of XML: `feed` and `link` of `/feed/link[@rel=next]/@href`. */
const namesOf = (path: string): readonly string[] =>
  [...path.matchAll(/\/([^/@[\]]+)(?:\[[^\]]*\])?/g)].map(([, name = '']) => name);
