/**
 * Computes the next time of a cron expression of EventBridge Scheduler.
 *
 * croner knows the calendar, but treats daylight saving time differently: EventBridge Scheduler skips a local time that does
 * not exist, and runs once at a local time that exists twice. So croner computes with local times as if they were UTC, and
 * the result is converted by the zone's real clock.
 */

import { Cron } from 'croner';
import { months, weekdays } from '../../settings/schedule-settings.ts';

/**
 * The first time after `afterMs`, in milliseconds since the epoch; undefined if there is none. `fields` are minutes, hours,
 * day of month, month, day of week and year, in every form that the deployment's settings accept.
 */
export function nextCronTime(fields: string, timeZone: string, afterMs: number): number | undefined {
  const clock = localClock(timeZone);
  const cron = new Cron(toCronerPattern(fields), { mode: '7-part', alternativeWeekdays: true, timezone: 'UTC' });
  // No time zone has ever shifted by more than a day, and a cron expression has at most one time per minute.
  for (let tries = 0, local = clock.toLocal(afterMs); tries <= 2 * minutesPerDay; tries += 1) {
    const nextLocal = cron.nextRun(new Date(local))?.getTime();
    if (nextLocal === undefined) return undefined;
    const next = clock.fromLocal(nextLocal);
    if (next !== undefined && next > afterMs) return next;
    local = nextLocal;
  }
  return undefined;
}

const minutesPerDay = 1_440;
const dayMs = 86_400_000;

interface Field {
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
  /** Translates the forms that only this field has; undefined for any other form. */
  readonly toSpecialForm?: (part: string) => string | undefined;
}

/** In the order of the expression. */
const fieldDefinitions: readonly Field[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31, toSpecialForm: (part) => (/^(L|LW|\d+W)$/.test(part) ? part : undefined) },
  { min: 1, max: 12, names: months },
  {
    min: 1,
    max: 7,
    names: weekdays,
    toSpecialForm(part) {
      // L is the last day of the week, and after a weekday the last such day of the month.
      if (part === 'L') return '7';
      const [, day, occurrence] = /^([A-Z]+|\d)(L|#\d)$/.exec(part) ?? [];
      if (day === undefined) return undefined;
      return `${parseValue(day, { min: 1, names: weekdays })}#${occurrence?.replace('#', '')}`;
    },
  },
  { min: 1970, max: 2199 },
];

function toCronerPattern(fields: string): string {
  const texts = fields.trim().toUpperCase().split(/\s+/);
  return ['0', ...fieldDefinitions.map((field, index) => toNumbers(texts[index] ?? '', field))].join(' ');
}

/** Lists all numbers, because croner accepts neither `5/15` nor `FRI-MON`. */
function toNumbers(text: string, field: Field): string {
  if (text === '*' || text === '?') return '*';
  return text
    .split(',')
    .map((part) => field.toSpecialForm?.(part) ?? expandRange(part, field).join(','))
    .join(',');
}

/** The numbers of `5`, `1-5`, `FRI-MON`, `*` or `0/15`. A single value with a step extends to the maximum, and a range may wrap around. */
function expandRange(part: string, field: Field): number[] {
  const { min, max } = field;
  const [range = '', step] = part.split('/');
  const [first = '', last] = range === '*' ? [String(min), String(max)] : range.split('-');
  const from = parseValue(first, field);
  const to = last === undefined ? (step === undefined ? from : max) : parseValue(last, field);
  const length = to >= from ? to - from : to - from + max - min + 1;
  const increment = step === undefined ? 1 : Number(step);
  return Array.from(
    { length: Math.floor(length / increment) + 1 },
    (_, index) => min + ((from - min + index * increment) % (max - min + 1)),
  );
}

function parseValue(text: string, { min, names = [] }: Pick<Field, 'min' | 'names'>): number {
  const index = names.indexOf(text);
  return index === -1 ? Number(text) : index + min;
}

/** Converts between instants and the local times of a zone. A local time is the instant at which UTC shows the same. */
function localClock(timeZone: string) {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  const toLocal = (instant: number): number => {
    const parts = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second);
  };
  return {
    toLocal,
    /** The first instant with this local time; undefined if it does not exist. */
    fromLocal(local: number): number | undefined {
      const offsets = [local - dayMs, local + dayMs].map((nearby) => toLocal(nearby) - nearby);
      const instants = offsets.map((offset) => local - offset).filter((instant) => toLocal(instant) === local);
      return instants.length === 0 ? undefined : Math.min(...instants);
    },
  };
}
