/**
 * Pages that are counted, which shift when data changes: the total of every response proves that they are complete. Nothing is kept between
 * two pages but their cursor, so that it says what the pages before have shown.
 */

import type { Api } from '../../../settings/api-settings.ts';
import { textIn } from '../../formats/formats.ts';
import { presentable } from '../../redaction/redact.ts';
import { contractError, failure } from '../errors.ts';
import type { Found, PageParts, RequestedPage } from './page-document.ts';
import { type Headers, singleValue } from '../response-headers.ts';

type Counted = Extract<Api['next'], { readonly from: 'count' }>;

/** What a cursor says: `3 (200 of 250 by 100)` is for page 3, if 200 of 250 reports are on the pages before, of 100 each. */
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

/** The text of the next cursor; undefined on the last page. @throws ContractError; CursorRejectedError if the walk must start over */
export function nextCounted(page: RequestedPage, next: Counted, parts: PageParts): Found | undefined {
  const { context, isFirst, sent = '' } = page;
  const total = totalOf(page, next, parts);
  const count = parts.isEmpty ? 0 : (parts.content.reports ?? 0);
  const before = isFirst ? { position: next.first, received: 0, total, size: count } : progressOf(sent);
  const received = before.received + count;
  const { step, confirm } = next;
  const problem = findProblem(before, { count, received, total }, isFirst ? step : undefined);
  if (problem !== undefined && isFirst)
    throw contractError(context, `${problem}. Check next.first, next.step and next.total`);
  if (problem !== undefined) {
    const message = `Counted pages of ${context.server.name} do not add up on ${context.label}: ${problem}`;
    throw failure(context, 'CursorRejectedError', message);
  }
  if (received === total && (count === 0 || !confirm)) return undefined;
  const position = before.position + (step === 'reports' ? count : step);
  return { text: `${position} (${received} of ${total} by ${before.size})`, what: 'number of the next page' };
}

interface Counts {
  readonly count: number;
  readonly received: number;
  readonly total: number;
}

/** `step` is that of an offset, on the first page. */
function findProblem(
  before: Progress,
  { count, received, total }: Counts,
  step: number | 'reports' = 1,
): string | undefined {
  if (total !== before.total) return `the total is ${total}, and was ${before.total} on page 1`;
  if (received > total && before.received === total)
    return `all ${total} had been received. If the API repeats its last page, set next.confirm to false`;
  if (received > total) return `it has ${count} reports, so that all pages have ${received}, but the total is ${total}`;
  if (received === total && count <= before.size) return undefined;
  if (count === 0) return `it has no reports, but only ${received} of ${total} have been received`;
  if (count !== before.size)
    return `it has ${count} reports, but page 1 has ${before.size}, and only the last page may have fewer`;
  return typeof step === 'number' && step > 1 && step !== count
    ? `it has ${count} reports, but next.step is ${step}, so that some would be skipped or repeated`
    : undefined;
}

/** 0 if the page says that there are no reports, and has no total. */
function totalOf(
  { context, api }: RequestedPage,
  { total }: Counted,
  { content, isEmpty, headers }: PageParts,
): number {
  const text = typeof total === 'string' ? textIn(api.page, content.value(total)) : totalInHeaders(total, headers);
  if (isEmpty && text === undefined) return 0;
  if (text !== undefined && /^\d{1,15}$/.test(text)) return Number(text);
  const where = typeof total === 'string' ? `at ${total}` : `in the header ${total.header}`;
  const found = text === undefined ? '' : `, which is ${presentable(text, context.keys, 50)}`;
  throw contractError(context, `it has no whole number as its total ${where}${found}`);
}

export const totalInHeaders = ({ header }: Exclude<Counted['total'], string>, headers: Headers): string | undefined =>
  singleValue(headers[header.toLowerCase()]);
