/** The reports that a request selects, and how bounds become part of it (docs/service-contract.md, section 2.1). */

import { isDeepStrictEqual } from 'node:util';
import type { ExportRequest, Instant, JsonObject, JsonValue, Selection } from './model.ts';
import { epochMsOf, instantOf } from './timestamps.ts';

/** The filter of a run's requests, as in its manifest. For a described API, bounds are not part of the filter. */
export const filterOf = ({ filter, api }: Pick<ExportRequest, 'filter' | 'api'>, since: Instant): JsonObject =>
  api.pagination === undefined ? filterSince(filter, since) : filter;

/** `filter` with `date.gte` set to the second of `since`. */
export const filterSince = (filter: JsonObject, since: Instant): JsonObject =>
  withDate(filter, { gte: secondOf(since) });

/** The contract shows whole seconds only. Rounded down, so that no report since the instant is left out. */
export const secondOf = (instant: Instant): Instant => instantOf(Math.floor(epochMsOf(instant) / 1_000) * 1_000);

/** `filter` with the condition that `filterUntil` names, such as `date.lt`, set to `until`. */
export const filterBefore = (filter: JsonObject, filterUntil: string, until: JsonValue): JsonObject =>
  withDate(filter, { [filterUntil.slice('date.'.length)]: until });

/** Other conditions on the date stay. */
function withDate(filter: JsonObject, condition: JsonObject): JsonObject {
  const { date } = filter;
  return { ...filter, date: { ...(isObject(date) ? date : {}), ...condition } };
}

export const selectionOf = ({ source, filter, api }: ExportRequest): Selection => ({
  source,
  filter,
  requestSha256: api.requestSha256,
});

/** Whether `request` selects the same reports: another service, tenant or filter may have others, never exported. */
export function selectsSame({ source, filter, requestSha256 }: Selection, request: ExportRequest): boolean {
  return isDeepStrictEqual({ source, filter, requestSha256 }, selectionOf(request));
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
