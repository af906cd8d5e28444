/**
 * A condition on a response: an object whose parts must all hold, or a list of objects, any of which must hold.
 *
 *     {"at": "/has_more", "is": false}                         a value of the body
 *     {"header": "X-More", "is": "no"}                         a header
 *     {"parameter": "results", "is": "false"}                  a parameter of the link to the next page
 *     {"reports": 0}                                           a page without reports
 *     {"status": 404, "at": "/code", "is": "no_more_pages"}    the status, alone or beside one of the others
 *
 * `is` names values, `not` names others than these, and without both, something must be there. A value that is missing
 * is neither: the condition is silent. So an error document never ends a run by what it lacks.
 */

import * as z from 'zod/mini';
import { oneTypeOf, findBroken, object, optionalField, type Rule, withoutProblems } from '../../core/schema/fields.ts';
import { responseHeaderName } from './header-names.ts';
import { type HeadFacts, isSomething, type PathValue, type ResponseFacts } from './response-facts.ts';

/** `{cursor}` is what the request sent in the place of the cursor, on page 1 too. */
const sentCursor = '{cursor}';

const scalar = oneTypeOf(
  [z.string().check(z.maxLength(1_000)), z.number(), z.boolean(), z.null()],
  'must be a text, a number, a boolean or null',
);
export const valuesSchema = oneTypeOf(
  [scalar, z.readonly(z.array(scalar).check(z.minLength(1, 'must not be empty')))],
  'must be a text, a number, a boolean or null, or a list of these',
);
const statusSchema = z.int('must be a status, such as 403').check(z.minimum(200), z.maximum(599));

const partFields = {
  at: optionalField(
    'The path of a value in the body. An empty text is the whole document.',
    z.string().check(z.maxLength(1_000, 'must have at most 1,000 characters')),
    { example: '/has_more' },
  ),
  header: optionalField('The name of a header.', responseHeaderName, { example: 'X-More' }),
  parameter: optionalField(
    'The name of a parameter of the link to the next page.',
    z.string().check(z.minLength(1, 'must not be empty')),
    { example: 'results' },
  ),
  reports: optionalField('In place of these: the page has no reports.', z.literal(0, 'must be 0')),
  is: optionalField(
    'The value there, or any of a list. null is nothing, and `{cursor}` is the cursor of the request. Without it, anything but nothing.',
    valuesSchema,
    { example: false },
  ),
  not: optionalField('In place of `is`: something else is there.', valuesSchema, {
    example: 0,
  }),
  status: optionalField(
    'The status of the response, or a list. Without it, that of a page.',
    oneTypeOf(
      [statusSchema, z.readonly(z.array(statusSchema).check(z.minLength(1, 'must not be empty')))],
      'must be a status, or a list of these',
    ),
    { example: 403 },
  ),
};

/** A condition whose parts have `more` fields. */
export const conditionOf = <More extends Readonly<Record<string, z.ZodMiniType>>>(id: string, more: More) => {
  const part = object({ ...partFields, ...more }).check(
    withoutProblems((each) => findBroken(rulesOfPart(each as ConditionPart))),
    z.meta({ id }),
  );
  const list = z.array(part).check(z.minLength(1, 'must have at least one condition'));
  return oneTypeOf([part, z.readonly(list)], 'must be an object, or a list of objects');
};

export const conditionSchema = conditionOf('condition', {});
export type Condition = z.infer<typeof conditionSchema>;
export type ConditionPart = Exclude<Condition, readonly unknown[]>;

function rulesOfPart(part: ConditionPart): readonly Rule[] {
  const places = (['at', 'header', 'parameter', 'reports'] as const).filter((name) => part[name] !== undefined);
  const noPlace = 'needs at, header or parameter beside it';
  return [
    [[], places.length > 1, `must have only one of ${places.join(' and ')}`],
    [[], places.length === 0 && part.status === undefined, 'must have at, header, parameter, reports or status'],
    [['is'], part.is !== undefined && !hasPlace(part), noPlace],
    [['not'], part.not !== undefined && !hasPlace(part), noPlace],
    [['not'], part.not !== undefined && part.is !== undefined, 'has no meaning beside is'],
  ];
}

export const partsOf = (condition: Condition | undefined): readonly ConditionPart[] =>
  condition === undefined ? [] : ([condition].flat() as readonly ConditionPart[]);

const listOf = <Item>(value: Item | readonly Item[] | undefined): readonly Item[] =>
  value === undefined ? [] : ([value].flat() as readonly Item[]);

/** The statuses that the part is asked of; empty for those of a page. */
export const statusesOf = ({ status }: ConditionPart): readonly number[] => listOf(status);

/** The values of `is`, or of `not`. */
export const valuesOf = ({ is, not }: ConditionPart) => listOf(is === undefined ? not : is);

/** Whether the part holds only if something is at its place: no document fulfils it by what it lacks. */
export const needsSomething = (part: ConditionPart): boolean =>
  part.reports === undefined && hasPlace(part) && !(part.is !== undefined && valuesOf(part).includes(null));

/** Whether it is about a value, not about the status or the number of reports alone. */
export const hasPlace = ({ at, header, parameter }: ConditionPart): boolean =>
  (at ?? header ?? parameter) !== undefined;

/** Whether a part can only be answered once the body has been read. */
export const needsBody = (condition: Condition | undefined): boolean =>
  partsOf(condition).some(({ at, reports }) => at !== undefined || reports !== undefined);

type Answer = 'holds' | 'does not' | 'silent';

/** The answer of a condition; and the part that holds, if one does. */
export interface Evaluation {
  readonly answer: Answer;
  readonly part?: ConditionPart;
}

/** `onlyPresent`: what is missing proves nothing, even where its place is. */
export function evaluate(condition: Condition | undefined, facts: ResponseFacts, onlyPresent = false): Evaluation {
  const answers = partsOf(condition).map((part) => ({ part, answer: answerOf(part, facts, onlyPresent) }));
  const held = answers.find(({ answer }) => answer === 'holds');
  return held ?? { answer: answers.some(({ answer }) => answer === 'does not') ? 'does not' : 'silent' };
}

function answerOf(part: ConditionPart, facts: ResponseFacts, onlyPresent: boolean): Answer {
  const statuses = statusesOf(part);
  if (!(statuses.length === 0 ? facts.statuses : statuses).includes(facts.status)) return 'silent';
  if (part.reports !== undefined) {
    if (facts.reports === null) return 'silent';
    return facts.reports === 0 ? 'holds' : 'does not';
  }
  const value = valueOf(part, facts);
  return value === undefined ? 'holds' : compare(part, value, { isSent: facts.isSent, onlyPresent });
}

/** What stands at the place of the part; undefined: the part is only about the status. */
function valueOf({ at, header, parameter }: ConditionPart, facts: ResponseFacts): PathValue | undefined {
  if (at !== undefined) return facts.value(at);
  if (header !== undefined) return textValue(true, facts.header(header));
  if (parameter === undefined) return undefined;
  const link = facts.link();
  return textValue(link !== undefined, link?.get(parameter.toLowerCase()));
}

const textValue = (parent: boolean, text: string | undefined): PathValue =>
  text === undefined ? { parent } : { parent, type: 'string', text };

function compare(
  part: ConditionPart,
  value: PathValue,
  { isSent, onlyPresent }: { readonly isSent: HeadFacts['isSent']; readonly onlyPresent: boolean },
): Answer {
  const isThere = isSomething(value);
  const isMissing = value.type === undefined;
  const isOneOf = valuesOf(part).some((each) => {
    if (each === null) return isMissing ? value.parent && !onlyPresent : !isThere;
    if (value.text === undefined) return false;
    return each === sentCursor ? isSent(value.text) : value.text === String(each);
  });
  const doesHold = part.is === undefined ? isThere && !isOneOf : isOneOf;
  if (doesHold) return 'holds';
  return isMissing ? 'silent' : 'does not';
}
