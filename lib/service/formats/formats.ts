/** Chooses the check of a page's format. */

import { type Api, pathsOf, pathsOfWhole } from '../api/description.ts';
import { kindOf } from '../api/next/kinds.ts';
import { reportsIn } from '../api/page.ts';
import { jsonPath, xmlPath } from '../api/paths.ts';
import type { PathValue } from '../api/response-facts.ts';
import { createCsvCheck } from './csv.ts';
import type { AsyncFormatCheck, CheckOptions, FormatCheck, PageContent } from './format-check.ts';
import { createXmlFormatCheck } from './xml.ts';

interface Format {
  /** The name of a page in messages. */
  readonly document: string;
  /** Its library takes time to load, which delays the first request. */
  readonly load: () => Promise<(options: CheckOptions) => FormatCheck | AsyncFormatCheck>;
  /** Whether a page that is cut off is recognized by itself. Of any other, only a length or chunks show the end. */
  readonly showsEnd: boolean;
}

const formats: Readonly<Record<Exclude<Api['page']['format'], 'bytes'>, Format>> = {
  xml: { document: 'well-formed XML document', load: async () => createXmlFormatCheck, showsEnd: true },
  json: { document: 'JSON document', load: async () => (await import('./json.ts')).createJsonCheck, showsEnd: true },
  ndjson: {
    document: 'list of JSON documents in lines',
    load: async () => (await import('./ndjson.ts')).createNdjsonCheck,
    showsEnd: false,
  },
  csv: { document: 'CSV table', load: async () => createCsvCheck, showsEnd: false },
  zip: {
    document: 'valid ZIP archive',
    load: async () => (await import('./zip/zip.ts')).createZipCheck,
    showsEnd: true,
  },
};

export type PageCheck = (FormatCheck | AsyncFormatCheck) & { readonly document: string };

/** Creates the check of one page. Undefined: its bytes are not checked. `present` quotes names in problems. */
export type CreatePageCheck = (present: (name: string) => string) => PageCheck | undefined;

export async function loadPageCheck(api: Pick<Api, 'page' | 'next' | 'last' | 'when'>): Promise<CreatePageCheck> {
  const { page, next } = api;
  if (page.format === 'bytes') return () => undefined;
  const { document, load } = formats[page.format];
  const createCheck = await load();
  const options = {
    paths: pathsOf(api),
    whole: pathsOfWhole(api),
    reports: reportsIn(page),
    single: page.format === 'json' && page.single === true,
    delimiter: page.format === 'csv' ? page.delimiter : undefined,
    inLastReport: kindOf(next).inReport?.(next),
  };
  return (present) => Object.assign(createCheck({ ...options, present }), { document });
}

/** The value at a path in JSON or XML of any kind, such as an error; undefined: it is neither. */
export async function readDocument(bytes: Uint8Array, paths: readonly string[]): Promise<PageContent | undefined> {
  const all = [
    {
      create: (await import('./json.ts')).createJsonCheck,
      of: paths.filter((path) => path === '' || jsonPath.test(path)),
    },
    { create: createXmlFormatCheck, of: paths.filter((path) => path !== '' && xmlPath.test(path)) },
  ];
  for (const { create, of } of all) {
    const check = create({ paths: of, present: (name) => name });
    const content = check.push(bytes) ?? check.end();
    if (typeof content !== 'string') return content;
  }
  return undefined;
}

/** XML that is indented has white space around its values. */
export const textIn = ({ format }: Api['page'], { text }: PathValue): string | undefined =>
  format === 'xml' ? text?.trim() : text;

/** Whether a document without any bytes is a page without reports. */
export const mayBeEmpty = (page: Api['page']): boolean =>
  page.format === 'bytes' || page.format === 'ndjson' || (page.format === 'csv' && page.reports !== undefined);

export const showsEnd = ({ format }: Api['page']): boolean => format !== 'bytes' && formats[format].showsEnd;
