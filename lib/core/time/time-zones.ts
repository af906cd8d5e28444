/**
 * The clocks of time zones. A wall-clock time is written as milliseconds, as if the clocks were those of UTC: an hour
 * after midnight of 1 January 1970 is 3,600,000 in every zone. Rules come from the time zone database that Node.js
 * contains.
 */

/** The zone whose wall-clock times are instants. */
export const utcZone = 'UTC';

const dayMs = 86_400_000;
const secondMs = 1_000;

/** Creating one takes longer than all else here. */
const formats = new Map<string, Intl.DateTimeFormat>();

/** @throws RangeError if there is no such zone */
function formatIn(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    calendar: 'iso8601',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  formats.set(zone, format);
  return format;
}

/** Whether the time zone database has a zone of this name in the right case, as EventBridge Scheduler requires it. */
export function isTimeZoneName(name: string): boolean {
  try {
    const { timeZone } = formatIn(name).resolvedOptions();
    // Intl may return another name of the zone. A result that differs only in case means that the case was wrong.
    return /^[A-Z]/.test(name) && (timeZone === name || timeZone.toLowerCase() !== name.toLowerCase());
  } catch {
    return false;
  }
}

/** What the clocks of the zone show at an instant. */
export function wallClockOf(epochMs: number, zone: string): number {
  if (zone === utcZone) return epochMs;
  const parts = new Map(
    formatIn(zone)
      .formatToParts(epochMs)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const part = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0;
  const shown = Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second'));
  return shown + (((epochMs % secondMs) + secondMs) % secondMs);
}

const offsetOf = (epochMs: number, zone: string): number => wallClockOf(epochMs, zone) - epochMs;

/** The instants at which clocks show this time: two if it is repeated in autumn, none if it is skipped in spring. */
function instantsAt(wallMs: number, zone: string): readonly number[] {
  const offsets = new Set([offsetOf(wallMs - dayMs, zone), offsetOf(wallMs + dayMs, zone)]);
  return [...offsets]
    .map((offset) => wallMs - offset)
    .filter((instant) => wallClockOf(instant, zone) === wallMs)
    .toSorted((one, other) => one - other);
}

/** The first instant at which the clocks show this time, or would have shown it if none had been skipped. */
export function instantAt(wallMs: number, zone: string): number {
  const [first] = instantsAt(wallMs, zone);
  return first ?? wallMs - offsetOf(wallMs - dayMs, zone);
}

/** The begin of the unit that contains an instant. Units are counted from 1970. */
export const startOfUnit = (epochMs: number, unitMs: number, zone: string): number =>
  instantAt(Math.floor(wallClockOf(epochMs, zone) / unitMs) * unitMs, zone);

/** A period of wall-clock time that occurs twice: the clocks show `begin` again when they reach `end`. */
interface RepeatedPeriod {
  readonly begin: number;
  readonly end: number;
}

/** The period in which the time of this instant occurs twice; undefined if it occurs once. `begin` is outside. */
export function repeatedPeriodAt(epochMs: number, zone: string): RepeatedPeriod | undefined {
  const [first, second] = instantsAt(wallClockOf(epochMs, zone), zone);
  if (first === undefined || second === undefined) return undefined;
  // The clocks are set back between both.
  const before = offsetOf(first, zone);
  let [early, late] = [first, second];
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    if (offsetOf(middle, zone) === before) early = middle;
    else late = middle;
  }
  const period = { begin: late + offsetOf(late, zone), end: late + before };
  return wallClockOf(epochMs, zone) === period.begin && epochMs === first ? undefined : period;
}
