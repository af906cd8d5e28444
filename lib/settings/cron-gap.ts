/**
 * The longest gap between two starts of a cron expression of EventBridge Scheduler. It is computed in local time: a change to or from
 * daylight saving time can make a gap an hour longer, or skip a start whose local time does not exist.
 */

export const months = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
export const weekdays = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

export interface CronField {
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}

/** The numbers of `5`, `1-5`, `FRI-MON`, `*` or `0/15`. A single value with a step extends to the maximum, and a range may wrap around. */
export function expandRange(part: string, field: CronField): number[] {
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

export function parseValue(text: string, { min, names = [] }: Pick<CronField, 'min' | 'names'>): number {
  const index = names.indexOf(text);
  return index === -1 ? Number(text) : index + min;
}

const minuteMs = 60_000;
const dayMs = 86_400_000;
/** After so many years, the calendar repeats, with the days of the week and the leap years. */
const cycleYears = 28;
const firstYear = 2026;

const longestGaps = new Map<string, number | undefined>();

/** In milliseconds; undefined if there are no two starts. `fields` are the six fields of a valid expression. */
export function longestGapMs(fields: string): number | undefined {
  if (!longestGaps.has(fields)) longestGaps.set(fields, computeLongestGapMs(fields));
  return longestGaps.get(fields);
}

function computeLongestGapMs(fields: string): number | undefined {
  const [minutes = '', hours = '', daysOfMonth = '', monthsField = '', daysOfWeek = '', years = ''] = fields
    .trim()
    .toUpperCase()
    .split(/\s+/);
  const hoursOfDay = numbersOf(hours, { min: 0, max: 23 });
  const minutesOfHour = numbersOf(minutes, { min: 0, max: 59 });
  const times = hoursOfDay.flatMap((hour) => minutesOfHour.map((minute) => (hour * 60 + minute) * minuteMs));
  const [firstTime = 0, lastTime = 0] = [times[0], times.at(-1)];
  const inMonth = new Set(numbersOf(monthsField, { min: 1, max: 12, names: months }));
  const inYear = years === '*' ? undefined : new Set(numbersOf(years, { min: 1970, max: 2199 }));
  const isDay = daysOfMonth === '?' ? dayOfWeekMatcher(daysOfWeek) : dayOfMonthMatcher(daysOfMonth);

  let longest = Math.max(0, ...times.slice(1).map((time, index) => time - (times[index] ?? 0)));
  let previous: number | undefined;
  const start = inYear === undefined ? firstYear : Math.min(...inYear);
  const end = Date.UTC(start + cycleYears, 0);
  for (let day = Date.UTC(start, 0); day < end; day += dayMs) {
    const date = new Date(day);
    if (!inMonth.has(date.getUTCMonth() + 1) || inYear?.has(date.getUTCFullYear()) === false || !isDay(date)) continue;
    if (previous !== undefined) longest = Math.max(longest, day + firstTime - (previous + lastTime));
    previous = day;
  }
  return longest === 0 ? undefined : longest;
}

const numbersOf = (text: string, field: CronField): number[] =>
  [...new Set(text.split(',').flatMap((part) => expandRange(part, field)))].sort((a, b) => a - b);

type DayMatcher = (date: Date) => boolean;

function dayOfMonthMatcher(field: string): DayMatcher {
  const matchers = field.split(',').map((part): DayMatcher => {
    if (part === 'L') return (date) => date.getUTCDate() === daysInMonth(date);
    if (part === 'LW') return (date) => date.getUTCDate() === nearestWeekday(date, daysInMonth(date));
    if (part.endsWith('W')) {
      const day = Number(part.slice(0, -1));
      return (date) => date.getUTCDate() === nearestWeekday(date, day);
    }
    const days = new Set(expandRange(part, { min: 1, max: 31 }));
    return (date) => days.has(date.getUTCDate());
  });
  return (date) => matchers.some((matches) => matches(date));
}

function dayOfWeekMatcher(field: string): DayMatcher {
  const week = { min: 1, max: 7, names: weekdays };
  const matchers = field.split(',').map((part): DayMatcher => {
    const [, name, last, occurrence] = /^([A-Z]{3}|\d)(?:(L)|#(\d))$/.exec(part) ?? [];
    if (name === undefined) {
      const days = new Set(part === 'L' ? [7] : expandRange(part, week));
      return (date) => days.has(date.getUTCDay() + 1);
    }
    const day = parseValue(name, week);
    return (date) => {
      if (date.getUTCDay() + 1 !== day) return false;
      const dayOfMonth = date.getUTCDate();
      return last === undefined ? Math.ceil(dayOfMonth / 7) === Number(occurrence) : dayOfMonth + 7 > daysInMonth(date);
    };
  });
  return (date) => matchers.some((matches) => matches(date));
}

const daysInMonth = (date: Date): number =>
  new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();

/** The day from Monday to Friday that is nearest to `day`, in the same month; undefined if the month has no such day. */
function nearestWeekday(date: Date, day: number): number | undefined {
  const last = daysInMonth(date);
  if (day > last) return undefined;
  const weekday = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), day)).getUTCDay();
  if (weekday === 6) return day === 1 ? 3 : day - 1;
  if (weekday === 0) return day === last ? day - 2 : day + 1;
  return day;
}
