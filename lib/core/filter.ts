/** How the bounds of a run become part of its filter (docs/service-contract.md, section 2.1). */

import type { ExportRequest, Instant, JsonObject, JsonValue } from './model.ts';
import { epochMsOf, instantOf } from './timestamps.ts';

/** The filter of the requests of a run, as its manifest says. Of an API that the settings describe, `since` is not part of the filter. */
export const filterOf = ({ filter, api }: ExportRequest, since: Instant): JsonObject =>
  api.pagination === undefined ? filterSince(filter, since) : filter;

/** In place of an operator: the request has an upper bound apart from its filter. */
export const untilPlaceholder = '{until}';

/** `filter` with `date.gte` set to the second of `since`. Other conditions on the date stay. */
export function filterSince(filter: JsonObject, since: Instant): JsonObject {
  const { date } = filter;
  return { ...filter, date: { ...(isObject(date) ? date : {}), gte: secondOf(since) } };
}

/** The contract shows whole seconds only. Rounded down, so that no report since the instant is left out. */
export const secondOf = (instant: Instant): Instant => instantOf(Math.floor(epochMsOf(instant) / 1_000) * 1_000);

/** `filter` with the condition `operator` on the date set to `until`; undefined if it has one already. */
export function filterBefore(filter: JsonObject, operator: string, until: Instant): JsonObject | undefined {
  const { date } = filter;
  const conditions = isObject(date) ? date : {};
  return Object.hasOwn(conditions, operator) ? undefined : { ...filter, date: { ...conditions, [operator]: until } };
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
