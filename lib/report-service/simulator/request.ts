/**
 * Reads an export request (contract, sections 2.1 and 4.1) and refuses what the contract does not show, so that a client's slip is
 * seen here and not in production. Where the contract is silent, these are this project's assumptions:
 * - `filter`, `filter.date.gte`, `format` and `container` are required, as in every shown request; XML and NONE are their
 *   only values; unknown fields are refused.
 * - `filter.date` also takes `lt` and `lte`, and `filter.type` selects by equality, as the generated reports have types.
 * - Other query parameters than `cursor` are ignored; a plain comma in the cursor is taken like `%2C`.
 */

import { instantSchema } from '../../core/timestamps.ts';
import { Refusal } from './refusal.ts';

export interface ExportRequest {
  /** `filter.date.gte` in milliseconds since the epoch. */
  readonly since: number;
  /** Reports dated at or after this are left out; Infinity where the filter sets no upper end. */
  readonly until: number;
  readonly type: string | undefined;
  /** At most this many reports a page (section 8): 1 to 10 by `size`, 100 by default. */
  readonly pageSize: number;
  /** The cursor in force: the query's, or else the body's (section 4.1, rule 2). */
  readonly cursor: string | undefined;
  /** What every further request must repeat (section 4.1, rule 6), in one canonical form. */
  readonly identity: string;
}

/** @throws Refusal invalid_request, naming every problem at once */
export function readExportRequest(query: URLSearchParams, body: unknown): ExportRequest {
  const problems: string[] = [];
  const check = (holds: boolean, problem: string): boolean => {
    if (!holds) problems.push(problem);
    return holds;
  };
  const fields = (value: unknown, name: string, known: readonly string[]): Fields => {
    if (!check(isFields(value), `${name} must be an object`)) return {};
    for (const field of Object.keys(value as Fields)) {
      check(known.includes(field), `${name} has a field that the contract does not show: ${field}`);
    }
    return value as Fields;
  };
  const instant = (value: unknown, name: string): number => {
    const parsed = instantSchema.safeParse(value);
    check(parsed.success, `${name} must be an ISO 8601 UTC timestamp such as 2026-11-20T02:00:00Z`);
    return parsed.success ? Date.parse(parsed.data) : Number.NaN;
  };
  const endOf = (value: unknown, name: string): number => (value === undefined ? Infinity : instant(value, name));

  const { filter, format, container, size, cursor } = fields(body, 'the body', fieldNames);
  const { date, type } = fields(filter, 'filter', ['date', 'type']);
  const { gte, lt, lte } = fields(date, 'filter.date', ['gte', 'lt', 'lte']);
  const since = instant(gte, 'filter.date.gte');
  const until = Math.min(endOf(lt, 'filter.date.lt'), endOf(lte, 'filter.date.lte') + 1);
  check(type === undefined || typeof type === 'string', 'filter.type must be a string');
  check(format === 'XML', 'format must be XML: the contract shows no other value');
  check(container === 'NONE', 'container must be NONE: the contract shows no other value');
  check(size === undefined || isPageSize(size), 'size must be an integer from 1 to 10');
  const inQuery = query.getAll('cursor');
  check(inQuery.length <= 1, 'the query must not name more than one cursor');
  const inForce = inQuery[0] ?? cursor;
  check(inForce === undefined || typeof inForce === 'string', 'cursor must be a string');

  if (problems.length > 0) throw new Refusal('invalid_request', problems.join('; '));
  const pageSize = isPageSize(size) ? size : 100;
  return {
    since,
    until,
    type: type as string | undefined,
    pageSize,
    cursor: inForce as string | undefined,
    identity: JSON.stringify([since, until, type, format, container, pageSize]),
  };
}

const fieldNames = ['filter', 'format', 'container', 'size', 'cursor'];

type Fields = { readonly [name: string]: unknown };

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isPageSize = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 10;
