/** Puts a run's `since` into the filter the service is asked with, and the manifest tells (contract, section 2.1). */

import type { Instant, JsonObject, JsonValue } from './model.ts';

/** `filter` with `date.gte` set to `since`; its other date conditions stay beside it. */
export function filterSince(filter: JsonObject, since: Instant): JsonObject {
  const { date } = filter;
  return { ...filter, date: { ...(isObject(date) ? date : {}), gte: since } };
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
