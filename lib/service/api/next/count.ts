/**
 * Pages are counted, and shift when data changes: the total of every response proves that they are complete.
 *
 *     {"data": [{"id": 1}, {"id": 2}], "total": 5}
 *     {"from": "count", "to": {"query": "page"}, "total": "/total"}
 *
 *     X-Total-Count: 5
 *     {"from": "count", "to": {"query": "offset"}, "first": 0, "step": "reports", "total": {"header": "X-Total-Count"}}
 *
 * The last page is the one with which the reports sum to the total, and the page after it must have none. Refused: a
 * page without a total. The walk starts over if the total changes, or if pages do not add up to it. Nothing is kept
 * between two pages but their cursor, so that it says what the pages before have shown.
 */

import * as z from 'zod/mini';
import { asCursor } from '../../../core/model.ts';
import { field, fieldsOf, flag, object, type Rule } from '../../../core/schema/fields.ts';
import { isInReport, placeSchema, textAt } from '../paths.ts';
import { keysOf, usesBound } from '../request.ts';
import { type Described, InvalidPage, lastPage, type NextKind, type PageFacts } from './kind.ts';
import { countedTarget, fromField, placeOf, writeAt } from './target.ts';

export const countSchema = object({
  from: fromField('count'),
  to: countedTarget,
  first: field(
    'The number that the first request sends.',
    z._default(
      z
        .int('must be a whole number')
        .check(z.minimum(0, 'must not be negative'), z.maximum(1_000_000, 'must be at most 1000000')),
      1,
    ),
  ),
  step: field(
    'What each further request adds to it. `reports`, for an offset, is how many the page had.',
    z._default(z.literal([1, 'reports'], 'must be 1, or "reports" for an offset'), 1),
  ),
  total: field(
    'Where every page has the number of all reports: a path in the body, or a header.',
    placeSchema('X-Total-Count'),
    { example: '/total' },
  ),
  confirm: field(
    'Whether the page after the last one is requested, which must have no reports.',
    z._default(flag(), true),
  ),
});
type Counted = z.infer<typeof countSchema>;

export const countKind: NextKind<Counted> = {
  sends: 'number',
  isAfterLast(cursor) {
    const { received, total } = progressOf(cursor);
    return received === total;
  },
  rules: rulesOf,
  paths: ({ total }) => (typeof total === 'string' ? [[['next', 'total'], total]] : []),
  read(page, { next }) {
    const { isFirst, sent = '' } = page;
    const total = totalOf(page, next);
    const count = page.isEmpty ? 0 : (page.reports ?? 0);
    const before = isFirst ? { position: next.first, received: 0, total, size: count } : progressOf(sent);
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
  write: (parts, cursor, { next }) => {
    const position = cursor === null ? next.first : Number.parseInt(cursor, 10);
    return writeAt(parts, placeOf(next), placeOf(next).body === undefined ? String(position) : position);
  },
};

function rulesOf(api: Described<Counted>): readonly Rule[] {
  return [
    ...rulesOfPlace(api),
    ...rulesOfPage(api),
    [['last'], api.last !== undefined, 'must not be set with next.from: count: the total decides'],
    [
      ['request'],
      !usesBound(api.request, 'until'),
      'must have {since} and {until} with next.from: count: pages shift while reports are added to their period',
    ],
  ];
}

/** Where the number is sent. */
function rulesOfPlace({ request, next }: Described<Counted>): readonly Rule[] {
  const { query, form, body } = placeOf(next);
  const name = query ?? form ?? body?.split('/').at(-1) ?? '';
  const isBody = body !== undefined;
  return [
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

/** How reports are counted, and where the total is. */
function rulesOfPage({ next, page, when }: Described<Counted>): readonly Rule[] {
  const total = typeof next.total === 'string' ? next.total : undefined;
  const errors = [when?.error ?? []].flat().map((part) => ('at' in part ? part.at : undefined));
  return [
    [['page', 'format'], page.format === 'bytes', 'must be one whose reports are counted, not bytes'],
    [['page', 'reports'], page.format === 'xml' && page.reports === undefined, 'is required with next.from: count'],
    [
      ['next', 'total'],
      total !== undefined && (errors.includes(total) || isInReport(total, page)),
      'must be outside of reports and of when.error',
    ],
    [
      ['next', 'confirm'],
      page.format === 'ndjson' && next.confirm,
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
  const [position = Number.NaN, received = 0, total = 0, size = 0] = (cursor.match(/\d+/g) ?? []).map(Number);
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

/** A first number that is too high skips page 1, and one that is too low may have it twice. */
function adviceOnFirst(before: Progress, { received, total }: Counts, { first, step }: Counted): string {
  const isOffByPage = total === before.total && received !== total && Math.abs(total - received) <= before.size;
  return step === 1 && isOffByPage ? `. If every run ends here, check next.first, which is ${first}` : '';
}

/** 0 if `when.empty` holds, and there is no total. */
function totalOf(page: PageFacts, { total }: Counted): number {
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
