/** Puts a run's `since` into the filter the service is asked with, and the manifest tells (contract, section 2.1). */

import type { Instant, JsonObject } from './model.ts';

/** `filter` with `date.gte` set to `since`; its other date conditions stay beside it. */
export function filterSince(filter: JsonObject, since: Instant): JsonObject {
  const { date } = filter;
  return { ...filter, date: { ...(typeof date === 'object' && !Array.isArray(date) ? date : {}), gte: since } };
}
