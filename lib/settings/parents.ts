/** The parents of an export: a list of values, or the reports of another export of its service. */

import * as z from 'zod/mini';
import type { Parents } from '../core/model.ts';
import {
  field,
  findBroken,
  object,
  oneTypeOf,
  optionalField,
  type Rule,
  type SettingsProblem,
} from '../core/schema/fields.ts';
import { problemOfParent } from '../core/parents/values.ts';
import { listNames } from '../core/sanitize.ts';
import { orExample } from '../core/validation-errors.ts';
import { valuesSchema } from '../service/api/condition.ts';
import { type Description, hasSince, selectingRequests } from '../service/api/description.ts';
import type { PageSettings } from '../service/api/page.ts';
import { placeInReport, problemInReport } from '../service/api/paths.ts';
import { parentsIn } from '../service/api/request.ts';

const conditionSchema = object({
  at: field('Where a report has a value.', placeInReport, { example: '/archived' }),
  is: optionalField(
    'The value there, or any of a list. null is nothing. Without it, anything but nothing.',
    valuesSchema,
    { example: false },
  ),
  not: optionalField('In place of `is`: something else, or nothing, is there.', valuesSchema, { example: true }),
}).check(
  z.refine(({ is, not }) => is === undefined || not === undefined, 'must have only one of is and not'),
  z.meta({ id: 'condition.parents' }),
);

/** How many parents may be gone, without a setting. */
export const goneAtMostPercent = 2;

const fields = {
  values: optionalField(
    'The values of `{parent}` in the requests, in this order.',
    z
      .array(z.string())
      .check(z.minLength(1, 'must have a value'), z.maxLength(1_000, 'must have at most 1,000 values')),
    { example: ['open', 'closed'] },
  ),
  export: optionalField(
    'In place of `values`: an export of the same service. Each report in its newest published run is a parent.',
    z.string(),
    { example: 'repos' },
  ),
  id: optionalField(
    'With `export`: where a report has the value of `{parent}`: in JSON a JSON Pointer, in XML a path below the report, in CSV a column.',
    placeInReport,
    { example: '/full_name' },
  ),
  also: optionalField(
    'With `export`: where a report has further values, by name, for `{parent.NAME}`.',
    z.record(z.string(), placeInReport),
    { example: { owner: '/owner/login' } },
  ),
  where: optionalField(
    'With `export`: which of the reports are parents. Without it, all are.',
    oneTypeOf(
      [conditionSchema, z.readonly(z.array(conditionSchema).check(z.minLength(1, 'must have at least one condition')))],
      'must be an object, or a list of objects',
    ),
    { example: { at: '/archived', is: false } },
  ),
  gone: optionalField(
    'How many parents may no longer exist, as `when.gone` of the `api` says.',
    object({
      atMost: field(
        'A run with more is not published. One is allowed in any case, and all of them never.',
        z._default(z.number('must be a number').check(z.minimum(0), z.maximum(100)), goneAtMostPercent),
        { unit: '%' },
      ),
    }),
    { example: { atMost: 5 } },
  ),
};
export const parentsSchema = object(fields, {
  error: orExample('{"values": ["open", "closed"]} or {"export": "repos", "id": "/full_name"}'),
}).check(
  z.refine(
    ({ values, export: name, id, also, where }) =>
      values === undefined ? (name && id) !== undefined : (name ?? id ?? also ?? where) === undefined,
    'must have either values, or export and id; also and where need export',
  ),
);
/** As written, and what it needs of the other export: how its pages are read, and whether a run has changes only. */
export type GivenParents = z.infer<typeof parentsSchema> & {
  readonly listed?: { readonly page: PageSettings; readonly areChanges: boolean };
};

export function parentsOf(given: GivenParents | undefined, api: Description): Parents | undefined {
  if (given === undefined) return undefined;
  const { values, export: name = '', id = '', also = {}, where = [], listed } = given;
  if (values !== undefined) return { values };
  const ofApi = { inHeaders: inHeaders(api), hasCoverage: hasSince(api), listsChanges: listed?.areChanges === true };
  return { export: name, id, also, where: [where].flat(), ...ofApi };
}

/** What decides which chains a run has: not how many parents may be gone, nor how the other export is described. */
export const selectionOfParents = ({ gone: _gone, listed: _listed, ...selection }: GivenParents) => selection;

/** All requests that may have values of the parent: those that select the reports, and that of further pages. */
const requestsOf = (api: Description) => [
  ...selectingRequests(api),
  ...('request' in api.next && api.next.request !== undefined ? [api.next.request] : []),
];

const inHeaders = (api: Description): readonly string[] =>
  requestsOf(api).flatMap(({ headers = {} }) => parentsIn({ headers }));

/** The settings of an export that decide whether others can have its reports as parents. */
interface ServiceExport {
  readonly name: string;
  readonly api: Description;
  readonly parents?: GivenParents | undefined;
  readonly slices: { readonly length?: number | undefined };
  readonly publishEmptyRuns: boolean;
  readonly schedule?: unknown;
}

/** What prevents the export of the parents. `own` are the exports of its service. */
export function findParentProblems(settings: ServiceExport, own: readonly ServiceExport[]): readonly SettingsProblem[] {
  const { api, parents, slices } = settings;
  const { values = [], also = {} } = parents ?? {};
  const placeholders = requestsOf(api).flatMap(parentsIn);
  const isInFirst = selectingRequests(api).some((request) => parentsIn(request).length > 0);
  const names = placeholders.flatMap((name) => name.split('.').slice(1));
  const different = [...new Set(names).symmetricDifference(new Set(Object.keys(also)))];
  return findBroken([
    [
      ['parents'],
      parents === undefined ? placeholders.length > 0 : !isInFirst,
      'must be set if api.request has the placeholder {parent}, and only then: without it, each parent would export the same',
    ],
    [
      ['parents', 'also'],
      different.length > 0,
      `must have a path for each placeholder {parent.NAME} of api.request, and no other: ${listNames(different)}`,
    ],
    [
      ['slices', 'length'],
      parents !== undefined && slices.length !== undefined,
      'has no meaning with parents: each of them is a slice',
    ],
    ...values.map((value, index): Rule => {
      const isRepeated = values.indexOf(value) < index;
      const problem = isRepeated ? 'is there twice' : problemOfParent(value, inHeaders(api).length > 0);
      return [['parents', 'values', index], problem !== undefined, problem ?? ''];
    }),
    ...(parents?.export === undefined ? [] : rulesOfParentExport(settings, parents, own)),
  ]);
}

function rulesOfParentExport(
  { name, schedule }: ServiceExport,
  { export: parentName, id = '', also = {}, where = [] }: GivenParents,
  own: readonly ServiceExport[],
): readonly Rule[] {
  const parent = own.find((each) => each.name === parentName);
  const path = ['parents', 'export'];
  if (parent === undefined) {
    const names = listNames(own.map((each) => each.name).filter((each) => each !== name));
    return [
      [
        path,
        true,
        `must be another export of the same service, which has ${names === '' ? 'none' : `these: ${names}`}`,
      ],
    ];
  }
  const line = lineOf(name, own);
  const places: (readonly [SettingsProblem['path'], string])[] = [
    [['id'], id],
    ...Object.entries(also).map(([key, at]) => [['also', key], at] as const),
    ...[where].flat().map(({ at }, index) => [['where', ...(Array.isArray(where) ? [index] : []), 'at'], at] as const),
  ];
  return [
    [path, line.length > 1 && line.at(-1) === name, `must not lead back to this export: ${line.join(' → ')}`],
    [
      path,
      !parent.publishEmptyRuns,
      `must have publishEmptyRuns: with false in ${parentName}, a list that has become empty would not be noticed`,
    ],
    [
      ['schedule'],
      schedule !== undefined && hasSince(parent.api),
      `has no meaning: the newest run of ${parentName} has changes only, as its request has {since}. Start the children of one of its runs with --parents`,
    ],
    ...places.map(([place, at]): Rule => {
      const problem = problemInReport(at, parent.api.page);
      return [['parents', ...place], problem !== undefined, problem ?? ''];
    }),
  ];
}

/** The export, that of its parents, and so on, until one has no parents or is there twice. */
function lineOf(name: string, own: readonly ServiceExport[], before: readonly string[] = []): readonly string[] {
  const line = [...before, name];
  const next = own.find((each) => each.name === name)?.parents?.export;
  return next === undefined || before.includes(name) ? line : lineOf(next, own, line);
}
