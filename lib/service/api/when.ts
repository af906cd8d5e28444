/** What responses say that are no pages, or pages without reports: conditions, in the order in which they are asked. */

import type * as z from 'zod/mini';
import { object, optionalField, type Rule, type SettingsProblem } from '../../core/schema/fields.ts';
import {
  type Condition,
  conditionOf,
  conditionSchema,
  type ConditionPart,
  hasPlace,
  needsSomething,
  partsOf,
  statusesOf,
  valuesOf,
} from './condition.ts';
import { kindOf, type NextSettings } from './next/kinds.ts';
import { countsReports, type PageSettings, statusesOfPages } from './page.ts';
import { isBelowRoot, jsonPath, listPath, placeSchema, problemOfPath, xmlPath } from './paths.ts';

const wait = optionalField(
  'Where the response says how long: a path or a header, with seconds, a date, or seconds since 1970. Without it, `Retry-After`, or a delay that grows.',
  placeSchema('X-RateLimit-Reset'),
  { example: '/retry_after' },
);

const throttledSchema = conditionOf('condition.throttled', { wait });
export type ThrottledPart = ConditionPart & { readonly wait?: string | { readonly header: string } | undefined };

export const whenFields = {
  throttled: optionalField('As status 429: the run waits.', throttledSchema, {
    example: { at: '/errors/0/code', is: 'THROTTLED' },
  }),
  tokenExpired: optionalField('As status 401: the credentials are renewed once.', conditionSchema, {
    example: { at: '/code', is: 190 },
  }),
  cursorExpired: optionalField('The cursor has expired: the run starts over. Not asked on page 1.', conditionSchema, {
    example: { at: '/error', is: 'expired' },
  }),
  gone: optionalField(
    'The parent no longer exists: it has no pages. Asked on its first page only. Without it, `{"status": [404, 410]}` if the parents are reports of another export.',
    conditionSchema,
    { example: { status: 404 }, page: 'apis.md#parents' },
  ),
  error: optionalField('An error, which is quoted. The page is refused.', conditionSchema, {
    example: { at: '/error' },
  }),
  empty: optionalField('The page has no reports. Asked only if its list is missing or null.', conditionSchema, {
    example: { at: '/total', is: 0 },
  }),
};

export const whenSchema = object(whenFields);
type When = z.infer<typeof whenSchema>;

/** Reports may be deleted before what belongs to them is requested. */
export const goneReports: Condition = { status: [404, 410] };

/** What the rules of conditions need of the rest of the description. */
interface Around {
  /** Set if `when` is also asked of responses about a job, which are JSON or XML, whatever its pages are. */
  readonly job?: object | undefined;
  readonly page: PageSettings;
  readonly next: NextSettings;
  readonly last?: Condition | undefined;
  readonly when?: When | undefined;
}

/** Every condition of a description, and where it stands there. */
const conditionsOf = ({ last, when = {} }: Pick<Around, 'last' | 'when'>) => [
  ...(last === undefined ? [] : [{ path: ['last'], condition: last }]),
  ...Object.entries(when).flatMap(([name, condition]) =>
    condition === undefined ? [] : [{ path: ['when', name], condition: condition as Condition }],
  ),
];

/** Each part of a condition, and where it stands. */
const placesOf = (condition: Condition | undefined, path: SettingsProblem['path']) =>
  partsOf(condition).map((part, index) => ({ part, path: Array.isArray(condition) ? [...path, index] : path }));

export function conditionRules(api: Around): readonly Rule[] {
  const { job, page, next, last, when = {} } = api;
  const all = conditionsOf(api).flatMap(({ path, condition }) => placesOf(condition, path));
  return [
    ...all.flatMap(({ part, path }) => rulesOfPlace(part, path, { job, page, next })),
    ...placesOf(last, ['last']).flatMap(({ part, path }) => endRules(part, path, page)),
    ...placesOf(when.empty, ['when', 'empty']).flatMap(({ part, path }) => [
      ...endRules(part, path, page),
      ...emptyRules(part, path, api),
    ]),
    ...placesOf(when.gone, ['when', 'gone']).flatMap(({ part, path }) => goneRules(part, path, page)),
    ...placesOf(when.throttled, ['when', 'throttled']).map(({ part, path }): Rule => {
      const { wait: at } = part as ThrottledPart;
      const message = typeof at === 'string' ? problemOfAnyPath(at, part, page) : undefined;
      return [[...path, 'wait'], message !== undefined, message ?? ''];
    }),
    [
      ['when', 'cursorExpired'],
      kindOf(next).sends === 'nothing' && when.cursorExpired !== undefined,
      `has no meaning with next.from: ${next.from}, where there is no cursor`,
    ],
  ];
}

function rulesOfPlace(
  part: ConditionPart,
  path: SettingsProblem['path'],
  { job, page, next }: Around,
): readonly Rule[] {
  const { at, parameter, reports } = part;
  const mayBeOfJob = job !== undefined && path[0] === 'when' && (jsonPath.test(at ?? '') || xmlPath.test(at ?? ''));
  const problem = at === undefined || mayBeOfJob ? undefined : problemOfAnyPath(at, part, page);
  return [
    [[...path, 'at'], problem !== undefined, problem ?? ''],
    [[...path, 'parameter'], parameter !== undefined && kindOf(next).parameters === undefined, 'needs next.from: link'],
    [
      [...path, 'reports'],
      reports !== undefined && !countsReports(page),
      'has no meaning in zip and bytes, where reports are not counted',
    ],
  ];
}

/** A response with another status than that of a page may be JSON or XML, whatever its pages are. */
const problemOfAnyPath = (at: string, part: ConditionPart, page: PageSettings): string | undefined =>
  isOfPages(part, page) || !(jsonPath.test(at) || xmlPath.test(at)) ? problemOfPath(at, page.format) : undefined;

/** Whether the part is asked of pages. */
const isOfPages = (part: ConditionPart, page: PageSettings): boolean => {
  const statuses = statusesOf(part);
  return statuses.length === 0 || statuses.some((status) => statusesOfPages(page).includes(status));
};

export const allParts = (api: Pick<Around, 'last' | 'when'>): readonly ConditionPart[] =>
  conditionsOf(api).flatMap(({ condition }) => partsOf(condition));

export const pathsIn = (parts: readonly ConditionPart[]): readonly string[] =>
  parts
    .flatMap(({ at, wait: waits }: ThrottledPart) => [at, typeof waits === 'string' ? waits : undefined])
    .filter((path) => path !== undefined);

/** The paths that a check of pages must find. */
export const pathsOfConditions = (api: Around): readonly string[] =>
  pathsIn(allParts(api).filter((part) => isOfPages(part, api.page))).filter(
    (path) => problemOfPath(path, api.page.format) === undefined,
  );

/** What ends a run, or says that there are no reports, must not be what an error document has, too. */
function endRules(part: ConditionPart, path: SettingsProblem['path'], page: PageSettings): readonly Rule[] {
  const statuses = statusesOf(part);
  const isNamed = hasPlace(part) && part.is !== undefined && needsSomething(part);
  const isContentless = statuses.every((status) => status === 204);
  return [
    [
      [...path, 'status'],
      statuses.length > 0 && !hasPlace(part) && part.reports === undefined && isOfPages(part, page),
      'needs at, header, parameter or reports beside it: every page has this status',
    ],
    [
      [...path, 'status'],
      !isOfPages(part, page) && !isContentless && !isNamed,
      'needs at and is beside it, which name a value: other responses have this status, too',
    ],
  ];
}

/** What other errors have, too, must not say that a parent is gone: its reports would be missing. */
function goneRules(part: ConditionPart, path: SettingsProblem['path'], page: PageSettings): readonly Rule[] {
  const isNamed = hasPlace(part) && part.is !== undefined && needsSomething(part);
  const isAboutParent = (status: number) => status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status);
  const isClear = statusesOf(part).length > 0 && statusesOf(part).every(isAboutParent);
  return [
    [[...path], isOfPages(part, page) && !isNamed, 'needs at and is, which name a value: every page has this status'],
    [
      [...path],
      !isOfPages(part, page) && !isClear && !isNamed,
      'needs at and is, which name a value: this status has other causes, too. 404 and 410 need nothing beside them',
    ],
  ];
}

const isListBelowRoot = ({ at }: ConditionPart, list: string): boolean => at === list && isBelowRoot(list);

/** `empty` needs something that is there. That the list is missing proves nothing: an error document lacks it, too. */
function emptyRules(
  part: ConditionPart,
  path: SettingsProblem['path'],
  { page, last, when = {} }: Around,
): readonly Rule[] {
  const list = listPath(page) ?? '';
  const isDocument = part.at === '';
  // An object around the list is null where the list would be missing.
  const isAboutList = !isDocument && part.at !== undefined && `${list}/`.startsWith(`${part.at}/`);
  // In XML, the list is only missing, which is less than null.
  const hasLast = page.format !== 'xml' && last !== undefined && partsOf(last).every(needsSomething);
  return [
    [
      [...path, 'reports'],
      part.reports !== undefined,
      'has no meaning here: a page with a list and no reports needs no description',
    ],
    [
      [...path, 'is'],
      part.is !== undefined && valuesOf(part).includes(null) && !isDocument && !isAboutList,
      'must name a value: only of the list, or of what contains it, does null say that there are no reports',
    ],
    [
      [...path, 'at'],
      page.format === 'xml' && isAboutList && !isListBelowRoot(part, list),
      'must be the element that contains the reports, inside another one than the root, which error documents often have, too',
    ],
    [
      [...path],
      hasPlace(part) && part.is === undefined,
      'must have is: name the value that a page without reports has there',
    ],
    [
      [...path],
      isAboutList && when.error === undefined && !hasLast,
      'needs when.error, or in JSON a last that names a value, beside it: error documents often have nothing there, too',
    ],
  ];
}
