/** Pages: their format, the place of their reports, and the responses that are pages. */

import * as z from 'zod/mini';
import { flag, object, optionalField, type Rule, text } from '../../core/schema/fields.ts';
import { xmlPath } from './paths.ts';

/** The name of a format in the content type of its pages. */
const mediaTypes = {
  xml: ['application/xml', 'text/xml'],
  json: ['application/json'],
  ndjson: ['application/x-ndjson', 'application/ndjson', 'application/jsonl'],
  csv: ['text/csv'],
  zip: ['application/zip', 'application/x-zip-compressed'],
  bytes: [],
} as const;
const formats = Object.keys(mediaTypes) as (keyof typeof mediaTypes)[];

const longest = z.maxLength(1_000, 'must have at most 1,000 characters');
const reportsOf = {
  xml: z.string().check(
    longest,
    z.refine(
      (path) => xmlPath.test(path) && !path.includes('@') && path.includes('/', 1),
      'must be a path of elements without prefixes, such as /feed/entry',
    ),
  ),
  json: text(
    /^(\/([^~/[\]]|~[01])*)*\/\*$/,
    'must be the JSON Pointer of a list, followed by /*, such as /data/*, without brackets',
  ).check(longest),
  csv: z.literal('/*', 'must be /* in csv, if the first row is a report'),
};
const types = z.readonly(
  z
    .array(
      text(
        /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/,
        'must be a content type in lower case, without parameters: those that the API requires belong into Accept of request.headers',
      ),
    )
    .check(z.minLength(1, 'must not be empty')),
);
const columns = z.string().check(
  z.minLength(1, 'must not be empty'),
  z.maxLength(65_536, 'must have at most 65,536 characters'),
  z.refine((row) => !/[\r\n]$/.test(row), 'must not end with a line break'),
);
const delimiter = z.literal([',', ';', '\t', '|'], 'must be a comma, a semicolon, a tab or |');
const status = z.readonly(
  z.array(z.literal([200, 201, 203, 206], 'must be 200, 201, 203 or 206')).check(z.minLength(1, 'must not be empty')),
);

/** All fields of all formats: a service has defaults for its exports. */
export const pageFields = {
  format: optionalField(
    'All but `bytes` are checked for completeness, and the reports of all but `zip` and `bytes` are counted.',
    z.enum(formats, `must be one of ${formats.join(', ')}`),
  ),
  reports: optionalField(
    'Where the reports are: in JSON, the path of a list and `/*`; in XML, a path of elements; in CSV, `/*` if the first row is a report. Without it, the child elements of the root in XML, and the rows after the first in CSV.',
    z.string(),
    { example: '/data/*' },
  ),
  single: optionalField('Whether an object in place of the list is one report, in JSON. Without it, false.', flag()),
  columns: optionalField(
    'The first row of every page, as it is there, in CSV. Without it, that of earlier pages and runs.',
    columns,
    { example: 'id,date,text' },
  ),
  delimiter: optionalField('The character between the fields of a row, in CSV. Without it, a comma.', delimiter, {
    example: ';',
  }),
  types: optionalField('The content types of pages. Without it, those of the format.', types, {
    example: ['application/vnd.acme+json'],
  }),
  status: optionalField('The statuses of pages. Without it, 200.', status, {
    example: [200, 206],
  }),
};

const common = { types: z.optional(types), status: z.optional(status) };
export const pageSchema = z.discriminatedUnion(
  'format',
  [
    object({ format: z.literal('xml'), reports: z.optional(reportsOf.xml), ...common }),
    object({ format: z.literal('json'), reports: reportsOf.json, single: z.optional(flag()), ...common }),
    object({ format: z.literal('ndjson'), ...common }),
    object({
      format: z.literal('csv'),
      reports: z.optional(reportsOf.csv),
      columns: z.optional(columns),
      delimiter: z.optional(delimiter),
      ...common,
    }),
    object({ format: z.literal('zip'), ...common }),
    object({ format: z.literal('bytes'), ...common, types: z.readonly(types) }),
  ],
  { error: ({ code }) => (code === 'invalid_union' ? `must be one of ${formats.join(', ')}` : undefined) },
);
/** `single`, `columns`, `delimiter` and `reports` are those of the formats that have them. */
export type PageSettings = z.infer<typeof pageSchema>;

export const pageRules = (page: PageSettings): readonly Rule[] => [
  [
    ['columns'],
    page.format === 'csv' && page.reports !== undefined && page.columns !== undefined,
    'has no meaning with reports, which say that the first row is a report',
  ],
  [
    ['single'],
    page.format === 'json' && page.single === true && page.reports === '/*',
    'needs a list inside an object, such as /data/*: any error document would be a report',
  ],
];

/** Where the reports are; undefined by the format's own rule. */
export const reportsIn = (page: PageSettings): string | undefined => ('reports' in page ? page.reports : undefined);

/** Whether pages consist of reports that are counted. */
export const countsReports = ({ format }: PageSettings): boolean => format !== 'zip' && format !== 'bytes';

/** The content types that a page may have. */
export const mediaTypesOf = (page: PageSettings): readonly string[] => page.types ?? mediaTypes[page.format];

/** The statuses that a page may have. */
export const statusesOfPages = ({ status: given = [200] }: PageSettings): readonly number[] => given;

/** The format of a run: `JSON`. It becomes the extension of its pages. */
export const formatOf = ({ page }: { readonly page: PageSettings }): string =>
  page.format === 'bytes' ? 'BIN' : page.format.toUpperCase();
