/** Which filters are valid (docs/service-contract.md, section 2.1). */

import type { SettingsProblem } from './parse-settings.ts';

/** Stores, comparisons and JSON serialization recurse into the filter, so its depth is limited. */
const maxDepth = 32;
/** As JSON. The state of an export holds it twice, and a DynamoDB item at most 400 KB. */
const maxFilterBytes = 65_536;
const maxProblems = 20;

/**
 * Why `filter`, or any other object, would not reach the service unchanged; empty if it would. Not recursive: the depth is not yet
 * known.
 */
export function findFilterProblems(filter: unknown, { isFilter = true } = {}): readonly SettingsProblem[] {
  if (!isPlainObject(filter)) return [{ path: [], message: 'must be a JSON object' }];
  const problems: SettingsProblem[] = isFilter ? [...findDateProblems(filter)] : [];
  const pending: { readonly path: SettingsProblem['path']; readonly value: unknown }[] = [{ path: [], value: filter }];
  for (let next = pending.pop(); next !== undefined && problems.length < maxProblems; next = pending.pop()) {
    const { path, value } = next;
    if (path.length > maxDepth) {
      return [...problems, { path: path.slice(0, 3), message: `is nested deeper than ${maxDepth}` }];
    }
    if (Array.isArray(value)) {
      pending.push(...Array.from(value as unknown[], (item, index) => ({ path: [...path, index], value: item })));
    } else if (isPlainObject(value)) {
      // Copying an object would set its prototype instead of a field.
      if (Object.hasOwn(value, '__proto__')) problems.push({ path, message: 'must not have a field named __proto__' });
      for (const [name, item] of Object.entries(value)) {
        if (name !== '__proto__') pending.push({ path: [...path, name], value: item });
      }
    } else if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
      problems.push({ path, message: inexactNumber });
    } else if (!isScalar(value)) {
      problems.push({ path, message: 'must be JSON' });
    }
  }
  if (problems.length > 0) return problems;
  const bytes = Buffer.byteLength(JSON.stringify(filter));
  return bytes <= maxFilterBytes
    ? []
    : [{ path: [], message: `must be at most ${maxFilterBytes} bytes of JSON, but has ${bytes}` }];
}

/** JSON.parse rounds a larger number, so that the service would receive another one than was written. */
const inexactNumber =
  `must be a number from ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}: larger ones are rounded. ` +
  'If the service accepts it as a string, write it in quotes';

function findDateProblems({ date }: Readonly<Record<string, unknown>>): readonly SettingsProblem[] {
  if (date === undefined) return [];
  if (!isPlainObject(date)) return [{ path: ['date'], message: 'must be an object of date conditions' }];
  return 'gte' in date
    ? [{ path: ['date', 'gte'], message: 'is set by each run; use since to choose where a run starts' }]
    : [];
}

function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
}
