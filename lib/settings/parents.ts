/** The parents of an export: a list of values, or the reports of another export of its service. */

import * as z from 'zod/mini';
import type { Parents, ReportCondition } from '../core/model.ts';
import {
  checkedText,
  field,
  findBroken,
  object,
  oneTypeOf,
  optionalField,
  type Rule,
  type SettingsProblem,
  validEntries,
  withoutProblems,
} from '../core/schema/fields.ts';
import { problemOfParent } from '../core/parents/values.ts';
import { listNames } from '../core/sanitize.ts';
import { orExample } from '../core/validation-errors.ts';
import { valuesSchema } from '../service/api/condition.ts';
import { type Description, hasSince, selectingRequests } from '../service/api/description.ts';
import { countsReports, type PageSettings } from '../service/api/page.ts';
import { placeInReport, problemInReport } from '../service/api/paths.ts';
import { parentsIn } from '../service/api/request.ts';

const conditionFields = {
  at: field('Where a report has a value.', placeInReport, { example: '/archived' }),
  is: optionalField(
    'The value there, or any of a list. null is nothing. Without it, anything but nothing.',
    valuesSchema,
    {
      example: false,
    },
  ),
  not: optionalField('In place of `is`: something else, or nothing, is there.', valuesSchema, { example: true }),
};
const conditionSchema = object(conditionFields).check(
  z.refine(({ is, not }) => is === undefined || not === undefined, 'must have only one of is and not'),
  z.meta({ id: 'condition.parents' }),
);

/** How many parents may be gone, without a setting. */
export const goneAtMostPercent = 2;

const fields = {
  values: optionalField(
    'The values of `{parent}` in the requests, in this order.',
    z.array(checkedText(problemOfParent)).check(
      z.minLength(1, 'must have a value'),
      z.maxLength(1_000, 'must have at most 1,000 values'),
      withoutProblems((values) =>
        findBroken(values.map((value, index): Rule => [[index], values.indexOf(value) < index, 'is there twice'])),
      ),
    ),
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
    z
      .record(z.string(), placeInReport)
      .check(
        validEntries((name) =>
          /^[A-Za-z0-9_-]{1,40}$/.test(name) ? undefined : 'must be 1 to 40 letters, digits, hyphens and underscores',
        ),
      ),
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
  withoutProblems(({ values, gone: _gone, export: name, ...ofExport }) =>
    findBroken([
      [[], (values === undefined) === (name === undefined), 'must have exactly one of values and export'],
      [['id'], name !== undefined && values === undefined && ofExport.id === undefined, 'is required with export'],
      ...Object.entries(ofExport).map(([path, value]): Rule => [
        [path],
        values !== undefined && value !== undefined,
        'needs export, not values',
      ]),
    ]),
  ),
);
/** As written. `parentPage` and `listsChanges` are those of the other export. */
export type GivenParents = z.infer<typeof parentsSchema> & {
  readonly parentPage?: PageSettings;
  readonly listsChanges?: boolean;
};

export function parentsOf(given: GivenParents | undefined, api: Description): Parents | undefined {
  if (given === undefined) return undefined;
  const { values = [], export: name, id = '', also = {}, where = [], listsChanges = false } = given;
  if (name === undefined) return { values };
  const conditions = [where]
    .flat()
    .map(({ at, is, not }): ReportCondition => ({ at, is: listOf(is), not: listOf(not) }));
  return {
    export: name,
    id,
    also,
    where: conditions,
    inHeaders: inHeaders(api),
    hasCoverage: requestsChanges(api),
    listsChanges,
  };
}

const listOf = (value: z.infer<typeof valuesSchema> | undefined): ReportCondition['is'] =>
  value === undefined ? undefined : ([value].flat() as ReportCondition['is']);

/** What decides which chains a run has: not how many parents may be gone, nor how the other export is described. */
export const selectionOfParents = ({
  gone: _gone,
  parentPage: _page,
  listsChanges: _lists,
  ...selection
}: GivenParents) => selection;

const furtherOf = ({ next }: Pick<Description, 'next'>) =>
  'request' in next && next.request !== undefined ? next.request : {};

type Requests = Pick<Description, 'request' | 'job' | 'next'>;

const inHeaders = (api: Requests): readonly string[] =>
  [...selectingRequests(api), furtherOf(api)].flatMap(({ headers = {} }) => parentsIn({ headers }));

interface ChildExport {
  readonly parents?: GivenParents | undefined;
  readonly slices: { readonly length?: number | undefined };
}

export function findParentProblems(
  isDescribed: boolean,
  { parents, slices }: ChildExport,
  api: Requests,
): readonly SettingsProblem[] {
  const ofFirst = selectingRequests(api).flatMap(parentsIn);
  const names = [...ofFirst, ...parentsIn(furtherOf(api))];
  const also = Object.keys(parents?.also ?? {});
  const missing = names.find((name) => name.startsWith('parent.') && !also.includes(name.slice('parent.'.length)));
  const hasParents = parents !== undefined;
  return findBroken([
    [['parents'], hasParents && !isDescribed, 'needs api in its service, with {parent} in its request'],
    [
      ['parents'],
      hasParents && isDescribed && ofFirst.length === 0,
      'has no effect: api.request has no placeholder {parent}, so each parent would export the same',
    ],
    [['parents'], !hasParents && names.length > 0, 'is required: api.request has the placeholder {parent}'],
    [
      ['parents'],
      hasParents && missing !== undefined,
      `must have ${missing?.slice('parent.'.length)} in also, beside export: api.request has the placeholder {${missing}}`,
    ],
    ...also.map((name): Rule => [
      ['parents', 'also', name],
      !names.includes(`parent.${name}`),
      `has no effect: api.request has no placeholder {parent.${name}}`,
    ]),
    [
      ['slices', 'length'],
      hasParents && slices.length !== undefined,
      'has no meaning with parents: each of them is a slice',
    ],
    ...(parents?.values ?? []).map((value, index): Rule => {
      const message = problemOfParent(value, inHeaders(api).length > 0);
      return [['parents', 'values', index], message !== undefined, message ?? ''];
    }),
  ]);
}

/** An export of a service, and its path in the settings. */
export interface PlacedExport {
  readonly index: number;
  readonly settings: {
    readonly name: string;
    readonly api: Description;
    readonly parents?: GivenParents | undefined;
    readonly publishEmptyRuns: boolean;
    readonly schedule?: unknown;
  };
}

/** What prevents the export of the parents. `own` are the exports of the service, `all` the names of all exports. */
export function findParentExportProblems(
  { index, settings: { name, parents, schedule } }: PlacedExport,
  own: readonly PlacedExport[],
  all: readonly string[],
): readonly SettingsProblem[] {
  if (parents?.export === undefined) return [];
  const parent = own.find(({ settings }) => settings.name === parents.export)?.settings;
  const path = ['exports', index, 'parents', 'export'];
  if (parent === undefined) {
    const others = own.map(({ settings }) => settings.name).filter((each) => each !== name);
    const message = all.includes(parents.export)
      ? 'must be an export of the same service, which may have as many end points as it likes'
      : `there is no such export. The others of the service: ${listNames(others)}`;
    return [{ path, message }];
  }
  const cycle = cycleFrom(name, own);
  return findBroken([
    [path, cycle !== undefined, `must not lead back to this export: ${cycle?.join(' → ')}`],
    [
      path,
      !parent.publishEmptyRuns,
      `must have publishEmptyRuns: with false in ${parents.export}, a list that has become empty would not be noticed`,
    ],
    [
      ['exports', index, 'schedule'],
      schedule !== undefined && requestsChanges(parent.api),
      `has no meaning: the newest run of ${parents.export} has changes only, as its request has {since}. Start the children of one of its runs with --parents`,
    ],
    ...problemsOfPlaces(parents, parent.api.page).map(([at, message]): Rule => [
      ['exports', index, 'parents', ...at],
      true,
      message,
    ]),
  ]);
}

/** The names from the export to itself; undefined if its parents do not lead back to it. */
function cycleFrom(name: string, own: readonly PlacedExport[]): readonly string[] | undefined {
  const names = [name];
  for (;;) {
    const next = own.find(({ settings }) => settings.name === names.at(-1))?.settings.parents?.export;
    if (next === name) return [...names, name];
    // Another cycle is a problem of its own exports.
    if (next === undefined || names.includes(next)) return undefined;
    names.push(next);
  }
}

/** Whether the newest run of an export does not have all its reports. */
export const requestsChanges = (api: Pick<Description, 'request' | 'job'>): boolean => hasSince(api);

function problemsOfPlaces(
  { id = '', also = {}, where = [] }: GivenParents,
  page: PageSettings,
): (readonly [path: SettingsProblem['path'], message: string])[] {
  const { format } = page;
  const isReadable = countsReports(page) && !(format === 'csv' && page.reports !== undefined);
  if (!isReadable)
    return [
      [['export'], 'must have pages with reports that can be read: not zip or bytes, nor csv without a row of names'],
    ];
  const conditions = [where].flat();
  const places: (readonly [SettingsProblem['path'], string])[] = [
    [['id'], id],
    ...Object.entries(also).map(([name, at]) => [['also', name], at] as const),
    ...conditions.map(({ at }, index) => [['where', ...(Array.isArray(where) ? [index] : []), 'at'], at] as const),
  ];
  return places.flatMap(([path, at]) => {
    const problem = problemInReport(at, page);
    return problem === undefined ? [] : [[path, problem] as const];
  });
}
