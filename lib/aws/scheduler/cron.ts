/**
 * When a cron expression of EventBridge Scheduler comes true next.
 *
 * The calendar is croner's; daylight saving is the scheduler's, and differs from croner's: a time that the clocks leave
 * out is skipped, and one that they show twice counts once. So croner is asked as if the zone's clock were UTC, and what it
 * answers is looked up on the zone's real clock.
 */

import { Cron } from 'croner';

/**
 * The first moment after `afterMs`, in milliseconds since the epoch; undefined if there is none any more. `fields` are
 * minutes, hours, day-of-month, month, day-of-week and year, in every form that the deployment accepts.
 */
export function nextCronTime(fields: string, timeZone: string, afterMs: number): number | undefined {
  const clock = wallClock(timeZone);
  const cron = new Cron(patternOf(fields), { mode: '7-part', alternativeWeekdays: true, timezone: 'UTC' });
  // Clocks were never turned by more than a day, and none shows more than a moment a minute.
  for (let tries = 0, wall = clock.at(afterMs); tries <= 2 * minutesOfADay; tries += 1) {
    const next = cron.nextRun(new Date(wall))?.getTime();
    if (next === undefined) return undefined;
    const moment = clock.momentOf(next);
    if (moment !== undefined && moment > afterMs) return moment;
    wall = next;
  }
  return undefined;
}

const minutesOfADay = 1_440;
const dayMs = 86_400_000;

const months = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const weekdays = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

interface Field {
  readonly least: number;
  readonly most: number;
  readonly names?: readonly string[];
  /** The form that only this field has, as croner spells it. */
  readonly special?: (part: string) => string | undefined;
}

const inOrder: readonly Field[] = [
  { least: 0, most: 59 },
  { least: 0, most: 23 },
  { least: 1, most: 31, special: (part) => (/^(L|LW|\d+W)$/.test(part) ? part : undefined) },
  { least: 1, most: 12, names: months },
  {
    least: 1,
    most: 7,
    names: weekdays,
    special(part) {
      // By itself the last day of the week; behind a weekday the last of the month.
      if (part === 'L') return '7';
      const [, day, which] = /^([A-Z]+|\d)(L|#\d)$/.exec(part) ?? [];
      if (day === undefined) return undefined;
      return `${numberOf(day, { least: 1, names: weekdays })}#${which?.replace('#', '')}`;
    },
  },
  { least: 1970, most: 2199 },
];

function patternOf(fields: string): string {
  const parts = fields.trim().toUpperCase().split(/\s+/);
  return ['0', ...inOrder.map((field, place) => inNumbers(parts[place] ?? '', field))].join(' ');
}

/** As plain numbers, because croner takes neither `5/15` nor `FRI-MON`. */
function inNumbers(text: string, field: Field): string {
  if (text === '*' || text === '?') return '*';
  return text
    .split(',')
    .map((part) => field.special?.(part) ?? numbersIn(part, field).join(','))
    .join(',');
}

function numbersIn(part: string, field: Field): number[] {
  const { least, most } = field;
  const [range = '', step] = part.split('/');
  const [first = '', last] = range === '*' ? [String(least), String(most)] : range.split('-');
  const from = numberOf(first, field);
  // A single value with a step goes on to the end; a range whose end lies before its start goes round.
  const to = last === undefined ? (step === undefined ? from : most) : numberOf(last, field);
  const length = to >= from ? to - from : to - from + most - least + 1;
  const by = step === undefined ? 1 : Number(step);
  return Array.from(
    { length: Math.floor(length / by) + 1 },
    (_, index) => least + ((from - least + index * by) % (most - least + 1)),
  );
}

function numberOf(text: string, { least, names = [] }: Pick<Field, 'least' | 'names'>): number {
  const place = names.indexOf(text);
  return place === -1 ? Number(text) : place + least;
}

/** What the clocks of a zone show, as milliseconds since the epoch of a clock in UTC that shows the same. */
function wallClock(timeZone: string) {
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
  const at = (moment: number): number => {
    const parts = Object.fromEntries(format.formatToParts(moment).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second);
  };
  return {
    at,
    /** The first moment at which the clocks show `wall`; undefined where they leave it out. */
    momentOf(wall: number): number | undefined {
      const moments = [wall - dayMs, wall + dayMs]
        .map((near) => wall - (at(near) - near))
        .filter((moment) => at(moment) === wall);
      return moments.length === 0 ? undefined : Math.min(...moments);
    },
  };
}
