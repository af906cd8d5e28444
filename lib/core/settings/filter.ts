/**
 * What a filter may be, and how a run's `since` is put into it: so the service is asked, and the manifest tells (contract,
 * section 2.1).
 */

import type { Instant, JsonObject, JsonValue } from '../model.ts';

/** `filter` with `date.gte` set to `since`; its other date conditions stay beside it. */
export function filterSince(filter: JsonObject, since: Instant): JsonObject {
  const { date } = filter;
  return { ...filter, date: { ...(isObject(date) ? date : {}), gte: since } };
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

interface Problem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** No filter that a person means comes near it; and what stores, compares and sends it goes down into it step by step. */
const deepest = 32;
const maxProblems = 20;

/** Why `filter` would not reach the service as it stands; nothing where it would. Looked through without recursion. */
export function problemsOfFilter(filter: unknown): readonly Problem[] {
  if (!isPlain(filter)) return [{ path: [], message: 'must be a JSON object' }];
  const problems: Problem[] = [...problemsOfDate(filter)];
  const left: { readonly path: Problem['path']; readonly value: unknown }[] = [{ path: [], value: filter }];
  for (let at = left.pop(); at !== undefined && problems.length < maxProblems; at = left.pop()) {
    const { path, value } = at;
    if (path.length > deepest)
      return [...problems, { path: path.slice(0, 3), message: `is nested deeper than ${deepest}` }];
    if (Array.isArray(value)) {
      left.push(...Array.from(value as unknown[], (item, place) => ({ path: [...path, place], value: item })));
    } else if (isPlain(value)) {
      // Everywhere a copy is made, it would become something else than a field.
      if (Object.hasOwn(value, '__proto__')) problems.push({ path, message: 'cannot have a field named __proto__' });
      for (const [name, item] of Object.entries(value)) {
        if (name !== '__proto__') left.push({ path: [...path, name], value: item });
      }
    } else if (!isScalar(value)) {
      problems.push({ path, message: 'must be JSON' });
    }
  }
  return problems;
}

function problemsOfDate({ date }: Readonly<Record<string, unknown>>): readonly Problem[] {
  if (date === undefined) return [];
  if (!isPlain(date)) return [{ path: ['date'], message: 'must be an object of date conditions' }];
  return 'gte' in date
    ? [{ path: ['date', 'gte'], message: 'is set by every run; say with since where to start' }]
    : [];
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
}
