/**
 * How an API writes dates. `{since}` is included and rounded down to the unit, `{until}` is excluded and rounded up, so
 * that a request selects no less than its bounds say.
 *
 *     "dates": "iso"
 *     "dates": {"form": "yyyy-MM-dd HH:mm", "zone": "America/Los_Angeles"}
 */
import * as z from 'zod/mini';
import type { Instant } from '../../core/model.ts';
import { isTimeZoneName, repeatedPeriodAt, utcZone, wallClockOf } from '../../core/time/time-zones.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { checkedText, field, object, optionalField } from '../../core/schema/fields.ts';

const secondMs = 1_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;

/** Forms of instants, with their unit. They do not depend on a time zone. */
const instantForms = { iso: secondMs, 'iso-ms': 1, epoch: secondMs, 'epoch-ms': 1 } as const;
type InstantForm = keyof typeof instantForms;

const dateForm = 'date';
const datePattern = 'yyyy-MM-dd';

/** The parts of a pattern, from the largest on, with their length in milliseconds. A year and a month are no units. */
const parts = [
  { name: 'yyyy', unitMs: undefined },
  { name: 'MM', unitMs: undefined },
  { name: 'dd', unitMs: dayMs },
  { name: 'HH', unitMs: hourMs },
  { name: 'mm', unitMs: 60_000 },
  { name: 'ss', unitMs: secondMs },
  { name: 'SSS', unitMs: 1 },
] as const;
type Part = (typeof parts)[number]['name'];

/** A part, text in single quotes, letters without quotes, or anything else. */
const tokens =
  /(?<part>yyyy|MM|dd|HH|mm|ss(?!s)|SSS)|'(?<quoted>(?:[^']|'')*)'|(?<letters>[A-Za-z]+)|(?<other>[^A-Za-z']+|')/g;

const partsIn = (pattern: string): readonly string[] =>
  [...pattern.matchAll(tokens)].flatMap(({ groups }) => groups?.part ?? []);

function findFormProblem(form: string): string | undefined {
  if (form === dateForm) return undefined;
  const known = 'There are yyyy, MM, dd, HH, mm, ss and SSS; put other letters in single quotes';
  const letters = [...form.matchAll(tokens)].find(({ groups }) => groups?.letters !== undefined)?.[0];
  if (letters !== undefined) return `${letters} is no part of a date. ${known}`;
  if (!/^[\x20-\x7e]{1,100}$/.test(form)) return 'must be at most 100 printable ASCII characters';
  const given = partsIn(form);
  const missing = parts
    .slice(0, Math.max(3, ...given.map((part) => 1 + parts.findIndex(({ name }) => name === part))))
    .find(({ name }) => !given.includes(name));
  if (missing !== undefined) return `must have ${missing.name}, as dates would be ambiguous without it. ${known}`;
  return new Set(given).size === given.length ? undefined : 'must have each part once';
}

const zone = optionalField(
  'The time zone in which the API reads dates, by its IANA name. Slices and bounded runs need it. Without it, requests begin 12 hours earlier and end 14 hours later.',
  checkedText((name) =>
    isTimeZoneName(name) ? undefined : 'must be the IANA name of a time zone, such as Europe/Berlin',
  ),
  { example: 'America/Los_Angeles' },
);

const names = ['iso', 'iso-ms', 'epoch', 'epoch-ms', dateForm] as const satisfies (InstantForm | typeof dateForm)[];

export const datesSchema = field(
  'How `{since}` and `{until}` are written: `iso` is `2026-11-20T02:00:00Z`, `iso-ms` has milliseconds, `epoch` and `epoch-ms` count from 1970.',
  z.union(
    [
      z.enum(names),
      object({
        form: field(
          'A pattern of `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss` and `SSS`, other letters in single quotes; or `date`, which is `yyyy-MM-dd`.',
          checkedText(findFormProblem),
          { example: 'yyyy-MM-dd HH:mm' },
        ),
        zone,
      }).check(z.meta({ id: 'api.dates' })),
    ],
    `must be one of ${names.join(', ')}, or an object with form and zone, such as {"form": "yyyy-MM-dd HH:mm", "zone": "UTC"}`,
  ),
  { example: { form: 'yyyy-MM-dd HH:mm', zone: 'Europe/Berlin' }, page: 'apis.md#dates' },
);
export type Dates = z.infer<typeof datesSchema>;

const isInstantForm = (dates: Dates): dates is InstantForm =>
  typeof dates === 'string' && Object.hasOwn(instantForms, dates);

const patternOf = (dates: Exclude<Dates, InstantForm>): string => {
  const form = typeof dates === 'string' ? dates : dates.form;
  return form === dateForm ? datePattern : form;
};

/** The unit of dates, and the zone in which units begin; undefined if it is not known where the API reads them. */
export interface UnitOfDates {
  readonly unitMs: number;
  readonly zone: string | undefined;
}

export function unitOfDates(dates: Dates): UnitOfDates {
  if (isInstantForm(dates)) return { unitMs: instantForms[dates], zone: utcZone };
  const given = partsIn(patternOf(dates));
  const smallest = parts.findLast(({ name }) => given.includes(name));
  return { unitMs: smallest?.unitMs ?? dayMs, zone: typeof dates === 'string' ? undefined : dates.zone };
}

export type Bound = 'since' | 'until';

/** The date of a bound as a request has it, moved by so many units. */
export function writeDate(dates: Dates, bound: Bound, instant: Instant, moveUnits = 0): string | number {
  const unit = unitOfDates(dates);
  const wallMs = readAs(bound, epochMsOf(instant), unit);
  const units = (bound === 'since' ? Math.floor(wallMs / unit.unitMs) : Math.ceil(wallMs / unit.unitMs)) + moveUnits;
  return writeForm(dates, units, unit.unitMs);
}

function writeForm(dates: Dates, units: number, unitMs: number): string | number {
  if (!isInstantForm(dates)) return writePattern(patternOf(dates), units * unitMs);
  switch (dates) {
    case 'iso':
      return instantOf(units * unitMs);
    case 'iso-ms':
      return new Date(units).toISOString();
    case 'epoch':
    case 'epoch-ms':
      return units;
  }
}

/** The largest offsets of time zones: west and east of UTC. */
const [maxBehindMs, maxAheadMs] = [12 * hourMs, 14 * hourMs];

/**
 * The wall-clock time that is sent for a bound, before it is rounded. In the hour that is repeated in autumn, it is the
 * begin or the end of that hour: the API may take a time in it for either one.
 */
function readAs(bound: Bound, epochMs: number, { zone: name }: UnitOfDates): number {
  if (name === undefined) return bound === 'since' ? epochMs - maxBehindMs : epochMs + maxAheadMs;
  if (name === utcZone) return epochMs;
  const repeated = repeatedPeriodAt(epochMs, name);
  if (repeated === undefined) return wallClockOf(epochMs, name);
  return bound === 'since' ? repeated.begin : repeated.end;
}

function writePattern(pattern: string, wallMs: number): string {
  const [, yyyy = '', MM = '', dd = '', HH = '', mm = '', ss = '', SSS = ''] =
    /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z$/.exec(new Date(wallMs).toISOString()) ?? [];
  const values: Readonly<Record<Part, string>> = { yyyy, MM, dd, HH, mm, ss, SSS };
  return pattern.replaceAll(tokens, (token: string, ...rest: readonly unknown[]) => {
    const { part, quoted } = rest.at(-1) as { readonly part?: Part; readonly quoted?: string };
    if (part !== undefined) return values[part];
    // Two single quotes stand for one.
    return quoted === undefined ? token : quoted.replaceAll("''", "'") || "'";
  });
}
