/** How the bounds of a run become part of its filter (docs/service-contract.md, section 2.1). */

import type { Instant, JsonObject, JsonValue } from './model.ts';

/** `filter` with `date.gte` set to `since`. Other conditions on the date stay. */
export function filterSince(filter: JsonObject, since: Instant): JsonObject {
  const { date } = filter;
  return { ...filter, date: { ...(isObject(date) ? date : {}), gte: since } };
}

/** `filter` with the condition `operator` on the date set to `until`; undefined if it has one already. */
export function filterBefore(filter: JsonObject, operator: string, until: Instant): JsonObject | undefined {
  const { date } = filter;
  const conditions = isObject(date) ? date : {};
  return Object.hasOwn(conditions, operator) ? undefined : { ...filter, date: { ...conditions, [operator]: until } };
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
