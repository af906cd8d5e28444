/** Values of CDK's own types in the settings of an app: durations and expressions of schedules. */

import type { AsText, DurationLike, ScheduleLike } from '../../settings/props.ts';

/**
 * The settings with text in place of CDK's values, as the schemas expect them; `value` itself if it has none. A `ScheduleExpression`
 * may also bring its time zone, which that of the settings overrides.
 */
export function withoutCdkValues<Value>(value: Value): AsText<Value> {
  return convert(value, maxDepth) as AsText<Value>;
}

/** Below it, settings have only filters, which the service defines, and which may be nested as deeply as one likes. */
const maxDepth = 8;

function convert(value: unknown, depth: number): unknown {
  if (depth === 0) return value;
  if (isDuration(value)) return value.toIsoString();
  if (isSchedule(value)) return value.expressionString;
  if (Array.isArray(value)) {
    const converted = value.map((each) => convert(each, depth - 1));
    return converted.some((each, index) => each !== value[index]) ? converted : value;
  }
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const entries = Object.entries(value).map(([key, field]) => [key, convert(field, depth - 1)] as const);
  if (entries.every(([key, field]) => field === (value as Readonly<Record<string, unknown>>)[key])) return value;
  const { expression } = value as { readonly expression?: unknown };
  const timeZone = isSchedule(expression) ? expression.timeZone?.timezoneName : undefined;
  return { ...(timeZone !== undefined && { timeZone }), ...Object.fromEntries(entries) };
}

const isDuration = (value: unknown): value is DurationLike =>
  typeof value === 'object' && value !== null && 'toIsoString' in value && typeof value.toIsoString === 'function';

const isSchedule = (value: unknown): value is ScheduleLike =>
  typeof value === 'object' &&
  value !== null &&
  'expressionString' in value &&
  typeof value.expressionString === 'string';
