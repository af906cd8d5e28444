/**
 * Pages are counted, and shift when data changes: the total of every response proves that they are complete, or else
 * that two passes in a row have the same reports (`core/steps/passes.ts`).
 *
 *     {"data": [{"id": 1}, {"id": 2}], "total": 5}
 *     {"from": "count", "to": {"query": "page"}, "total": "/total"}
 *
 *     X-Total-Count: 5
 *     {"from": "count", "to": {"query": "offset"}, "step": "reports", "total": {"header": "X-Total-Count"}}
 *
 *     {"from": "count", "to": {"query": "page"}, "proof": "twice", "by": "/id"}
 *
 * Without `to`, the number is `{cursor}` in a text of `request`, such as a query language: `OFFSET {cursor} LIMIT 100`.
 *
 * With `proof`, a page without reports ends a pass, or one at which `last` holds.
 *
 * With a total, the last page is the one with which the reports sum to it, and the page after it must have none. The
 * walk starts over if the total changes, or if pages do not add up to it. Refused: a page without one. Nothing is kept
 * between two pages but their cursor, so that it says what the pages before have shown.
 */

import * as z from 'zod/mini';
import { asCursor } from '../../../core/model.ts';
import { field, fieldsOf, flag, object, oneTypeOf, optionalField, type Rule } from '../../../core/schema/fields.ts';
import { countsReports } from '../page.ts';
import { isInReport, placeInReport, placeSchema, problemInReport, textAt } from '../paths.ts';
import { keysOf, uses, usesBound } from '../request.ts';
import { isLastBy } from './agreement.ts';
import { type Described, InvalidPage, lastPage, type Next, type NextKind, type PageFacts } from './kind.ts';
import { countedTarget, fromField, placeOf, writeAt } from './target.ts';

export const countSchema = object({
  from: fromField('count'),
  to: countedTarget,
  first: optionalField(
    'The number that the first request sends. Without it, 1; of an offset, 0.',
    z
      .int('must be a whole number')
      .check(z.minimum(0, 'must not be negative'), z.maximum(1_000_000, 'must be at most 1000000')),
  ),
  step: field(
    'What each further request adds to it: `reports`, for an offset, is how many the page had.',
    z._default(z.literal([1, 'reports'], 'must be 1, or "reports" for an offset'), 1),
  ),
  total: optionalField(
    'Where every page has the number of all reports: a path in the body, or a header. Required without `proof`.',
    placeSchema('X-Total-Count'),
    { example: '/total' },
  ),
  confirm: field(
    'With `total`: whether the page after the last one, which must have no reports, is requested.',
    z._default(flag(), true),
  ),
  proof: optionalField(
    '`twice`, for an API without a total: pages are requested until two passes in a row have the same reports.',
    z.literal('twice', 'must be twice'),
  ),
  by: optionalField(
    'With `proof`: where each report has its ID, or a list of such places: in JSON a path, in XML an element or attribute, in CSV a column. In JSON, an empty path is the whole report.',
    oneTypeOf(
      [placeInReport, z.readonly(z.array(placeInReport).check(z.minLength(1, 'must not be empty')))],
      'must be a path, or a list of paths',
    ),
    { example: '/id' },
  ),
});
type Counted = z.infer<typeof countSchema>;
type WithTotal = Counted & { readonly total: NonNullable<Counted['total']> };

export const firstOf = ({ first, step }: Pick<Counted, 'first' | 'step'>): number =>
  first ?? (step === 'reports' ? 0 : 1);

const hasTotal = (next: Counted): next is WithTotal => next.total !== undefined;

export const countKind: NextKind<Counted> = {
  sends: 'count',
  isAfterLast(cursor) {
    const { received, total } = progressOf(cursor);
    return received === total;
  },
  provedBy: ({ by }) => (by === undefined ? undefined : ([by].flat() as readonly string[])),
  rules: rulesOf,
  paths: ({ total }) => (typeof total === 'string' ? [[['next', 'total'], total]] : []),
  read(page, api) {
    const { isFirst, sent = '' } = page;
    const { next } = api;
    if (!hasTotal(next)) return readInPass(page, api);
    const total = totalOf(page, next);
    const count = page.isEmpty ? 0 : (page.reports ?? 0);
    const before = isFirst ? { position: firstOf(next), received: 0, total, size: count } : progressOf(sent);
    const received = before.received + count;
    const { step, confirm } = next;
    const problem = findProblem(before, { count, received, total });
    if (problem !== undefined && isFirst)
      throw new InvalidPage(`${problem}. Check next.first, next.step and next.total`);
    if (problem !== undefined) {
      const advice = adviceOnFirst(before, { count, received, total }, next);
      return { kind: 'expired', reason: `the counted pages do not add up: ${problem}${advice}` };
    }
    if (received === total && (count === 0 || !confirm)) return lastPage;
    const position = before.position + (step === 'reports' ? count : step);
    return { kind: 'page', cursor: asCursor(`${position} (${received} of ${total} by ${before.size})`) };
  },
  // The first request has a number, too.
  valueInRequest: positionOf,
  write: (parts, cursor, { next }) => {
    const position = positionOf(cursor, next);
    return writeAt(parts, placeOf(next), placeOf(next).body === undefined ? String(position) : position);
  },
};

function positionOf(cursor: string | null, next: Counted): number {
  return cursor === null ? firstOf(next) : Number.parseInt(cursor, 10);
}

/** What follows a page whose API has no total: nothing is remembered but the number. */
function readInPass(page: PageFacts, { next, last }: Described<Counted>): Next {
  if (isLastBy(last ?? { reports: 0 }, page)) return lastPage;
  const count = page.isEmpty ? 0 : (page.reports ?? 0);
  if (count === 0) throw new InvalidPage(`it has no reports, but is not the last page by ${JSON.stringify(last)}`);
  const position = page.isFirst ? firstOf(next) : Number(page.sent);
  return { kind: 'page', cursor: asCursor(String(position + (next.step === 'reports' ? count : next.step))) };
}

function rulesOf(api: Described<Counted>): readonly Rule[] {
  const { total, proof } = api.next;
  return [
    ...rulesOfPlace(api),
    ...rulesOfPage(api),
    ...rulesOfProof(api),
    [['next', 'total'], total === undefined && proof === undefined, totalAdvice],
    [
      ['last'],
      api.last !== undefined && proof === undefined,
      'must not be set with next.from: count and a total, which decides',
    ],
    [
      ['request'],
      total !== undefined && !usesBound(api.request, 'until'),
      'must have {since} and {until} with next.from: count: pages shift while reports are added to their period',
    ],
  ];
}

const totalAdvice =
  'is required. If no response has a total, set proof to "twice", and by to the path of the ID in a report: each page is then requested twice';

function rulesOfProof({ next, page }: Described<Counted>): readonly Rule[] {
  const { total, proof, by } = next;
  // A line of NDJSON is no text, but as a whole, it identifies itself.
  const isWholeLine = (at: string) => at === '' && page.format === 'ndjson';
  const problems = [by ?? []].flat().map((at) => (isWholeLine(at) ? undefined : problemInReport(at, page)));
  return [
    [['next', 'proof'], proof !== undefined && total !== undefined, 'has no meaning beside total, which proves more'],
    [
      ['next', 'by'],
      by === undefined && proof !== undefined,
      'is required with proof: /id, or in JSON an empty path, if reports have no ID',
    ],
    [['next', 'by'], by !== undefined && proof === undefined, 'needs proof'],
    ...problems.map((problem): Rule => [['next', 'by'], problem !== undefined, problem ?? '']),
  ];
}

function rulesOfPlace({ request, next }: Described<Counted>): readonly Rule[] {
  const { query, form, body } = placeOf(next);
  const hasCursor = uses(request, 'cursor');
  const name = query ?? form ?? body?.split('/').at(-1) ?? '';
  const isBody = body !== undefined;
  return [
    [['next', 'to'], next.to === undefined && !hasCursor, 'is required, unless request has {cursor}'],
    [['next', 'to'], next.to !== undefined && hasCursor, 'must not be set: request has {cursor}'],
    [
      ['next', 'to'],
      sentAlready(request, placeOf(next)) !== undefined,
      `must not be ${name} of request, which the number would replace. Remove it there; next.first is the first number`,
    ],
    [['next', 'to', 'body'], isBody && request.method === 'GET', 'needs the method POST'],
    [['next', 'to', 'body'], isBody && request.form !== undefined, 'must be form: the request has no JSON body'],
    [['next', 'to', 'form'], form !== undefined && request.form === undefined, 'needs request.form'],
    [
      ['next', 'step'],
      next.step === 1 && /offset|skip|start|row/i.test(name) && !/page/i.test(name),
      `must be "reports" if ${name} is an offset: 1 would repeat all reports of a page but one`,
    ],
    [
      ['next', 'step'],
      next.step === 'reports' && /^page(_?(no|num|number|index))?$/i.test(name),
      `must be 1 if ${name} counts pages: "reports" would skip all but the first`,
    ],
  ];
}

/** What the first request has in the place of the number. */
function sentAlready(
  request: Described<Counted>['request'],
  { query, form, body }: ReturnType<typeof placeOf>,
): unknown {
  if (query !== undefined) return request.query?.[query];
  if (form !== undefined) return request.form?.[form];
  if (body === undefined) return undefined;
  return keysOf(body).reduce<unknown>((parent, key) => fieldsOf(parent)[key], request.body);
}

function rulesOfPage({ next, page, when }: Described<Counted>): readonly Rule[] {
  const total = typeof next.total === 'string' ? next.total : undefined;
  const errors = [when?.error ?? []].flat().map((part) => ('at' in part ? part.at : undefined));
  return [
    [['page', 'format'], !countsReports(page), 'must be one whose reports are counted, not zip or bytes'],
    [['page', 'reports'], page.format === 'xml' && page.reports === undefined, 'is required with next.from: count'],
    [
      ['next', 'total'],
      total !== undefined && (errors.includes(total) || isInReport(total, page)),
      'must be outside of reports and of when.error',
    ],
    [
      ['next', 'confirm'],
      page.format === 'ndjson' && next.total !== undefined && next.confirm,
      'must be false for ndjson: a page without reports is no NDJSON',
    ],
  ];
}

/** The parts of a cursor: `3 (200 of 250 by 100)` is page 3, after 200 of 250 reports on pages of 100 each. */
interface Progress {
  readonly position: number;
  readonly received: number;
  readonly total: number;
  readonly size: number;
}

function progressOf(cursor: string): Progress {
  const [position = Number.NaN, received = 0, total = Number.NaN, size = 0] = (cursor.match(/\d+/g) ?? []).map(Number);
  return { position, received, total, size };
}

interface Counts {
  readonly count: number;
  readonly received: number;
  readonly total: number;
}

function findProblem(before: Progress, { count, received, total }: Counts): string | undefined {
  if (total !== before.total) return `the total is ${total}, and was ${before.total} on page 1`;
  if (received > total && before.received === total)
    return `all ${total} had been received. If the API repeats its last page, set next.confirm to false`;
  if (received > total) return `it has ${count} reports, so that all pages have ${received}, but the total is ${total}`;
  if (received === total && count <= before.size) return undefined;
  if (count === 0) return `it has no reports, but only ${received} of ${total} have been received`;
  return count === before.size
    ? undefined
    : `it has ${count} reports, but page 1 has ${before.size}, and only the last page may have fewer`;
}

/** A first number that is too high skips reports, and one that is too low may have page 1 twice. */
function adviceOnFirst(before: Progress, { received, total }: Counts, next: Counted): string {
  const first = firstOf(next);
  const missing = total - received;
  const isOffByPage = missing !== 0 && Math.abs(missing) <= before.size;
  const isFirst = next.step === 1 ? isOffByPage : first > 0 && missing === first;
  return total === before.total && isFirst ? `. If every run ends here, check next.first, which is ${first}` : '';
}

/** 0 if `when.empty` holds, and there is no total. */
function totalOf(page: PageFacts, { total }: WithTotal): number {
  const given = textAt(total, page);
  const isRange = typeof total === 'object' && total.header.toLowerCase() === 'content-range';
  const text = isRange ? given?.split('/')[1] : given;
  if (page.isEmpty && text === undefined) return 0;
  if (text !== undefined && /^\d{1,15}$/.test(text)) return Number(text);
  const where = typeof total === 'string' ? `at ${total}` : `in the header ${total.header}`;
  const type = typeof total === 'string' ? page.value(total).type : undefined;
  const found = text === undefined ? type : page.quote(text, 50);
  throw new InvalidPage(
    `it has no whole number as its total ${where}${found === undefined ? '' : `, which is ${found}`}`,
  );
}
