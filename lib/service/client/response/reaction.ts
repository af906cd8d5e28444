/** Decides whether a response is a page, and what it means otherwise. The conditions of `when` have an order. */

import { epochMsOf, parseHttpDate } from '../../../core/timestamps.ts';
import { type Condition, type ConditionPart, evaluate, needsBody, partsOf, statusesOf } from '../../api/condition.ts';
import type { Description } from '../../api/description.ts';
import type { PageFacts } from '../../api/next/kind.ts';
import { textAt } from '../../api/paths.ts';
import { allParts, type ThrottledPart } from '../../api/when.ts';

export type Reaction =
  /** Nothing prevents the response from being a page. */
  | { readonly kind: 'page' }
  /** `seconds` undefined: the service does not say how long. */
  | { readonly kind: 'throttled'; readonly seconds: number | undefined; readonly part?: ConditionPart }
  | { readonly kind: 'credentials'; readonly part?: ConditionPart }
  | { readonly kind: 'cursorExpired'; readonly part: ConditionPart }
  /** The page before was the last one. */
  | { readonly kind: 'end' }
  /** The parent no longer exists. */
  | { readonly kind: 'gone' }
  /** A page without content and without reports. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'error'; readonly part: ConditionPart }
  /** The status decides by itself. */
  | { readonly kind: 'status' };

type When = NonNullable<Description['when']>;

export const isKeyRejected = (status: number): boolean => status === 401 || status === 403;

/** Whether a condition asks for a value in the body of a response with this status. */
export const asksBodyOf = (status: number, api: Description): boolean =>
  allParts(api).some((part) => needsBody(part) && statusesOf(part).includes(status));

/** Whether the body of a page may say that the credentials are rejected. */
export const mayRejectInPage = ({ when }: Description): boolean =>
  partsOf(when?.tokenExpired).some((part) => needsBody(part) && statusesOf(part).length === 0);

/** `now` is the clock for waits until a date, if the response has no Date header. */
export function reactionTo(facts: PageFacts, { when = {}, last }: Description, now: () => number): Reaction {
  const { status, isFirst } = facts;
  const isPage = facts.statuses.includes(status);
  const throttled = evaluate(when.throttled as Condition | undefined, facts).part;
  if (throttled !== undefined) {
    const retryAfter = readRetryAfter(facts.header('retry-after'), facts, now);
    const { wait } = throttled as ThrottledPart;
    const seconds = longest(retryAfter, wait === undefined ? undefined : readWait(textAt(wait, facts), facts, now));
    return { kind: 'throttled', seconds, part: throttled };
  }
  const byHead = isPage && status !== 429 ? undefined : throttlingInHead(facts, now);
  if (byHead !== undefined) return { kind: 'throttled', ...byHead };
  const tokenExpired = evaluate(when.tokenExpired, facts).part;
  if (tokenExpired !== undefined) return { kind: 'credentials', part: tokenExpired };
  const cursorExpired = isFirst ? undefined : evaluate(when.cursorExpired, facts).part;
  if (cursorExpired !== undefined) return { kind: 'cursorExpired', part: cursorExpired };
  if (facts.mayBeGone && evaluate(when.gone, facts).part !== undefined) return { kind: 'gone' };
  if (!isPage) return reactionToStatus(facts, when, last);
  const { part } = evaluate(when.error, facts);
  return part === undefined ? { kind: 'page' } : { kind: 'error', part };
}

/** The wait that a response without a page asks for with its status or a Retry-After; undefined if it asks for none. */
export function throttlingInHead(
  { status, header }: Pick<PageFacts, 'status' | 'header'>,
  now: () => number,
): { readonly seconds: number | undefined } | undefined {
  const seconds = readRetryAfter(header('retry-after'), { header }, now);
  const isRedirect = status >= 300 && status < 400;
  return status === 429 || (seconds !== undefined && !isRedirect) ? { seconds } : undefined;
}

function reactionToStatus(facts: PageFacts, when: When, last: Condition | undefined): Reaction {
  if (!facts.isFirst && evaluate(last, facts, true).part !== undefined) return { kind: 'end' };
  if (evaluate(when.empty, facts, true).part !== undefined) return { kind: 'empty' };
  return isKeyRejected(facts.status) ? { kind: 'credentials' } : { kind: 'status' };
}

const longest = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? (one ?? other) : Math.max(one, other);

/** The seconds to wait. `wait` may name seconds, or an instant: in seconds or milliseconds since 1970, or ISO 8601. */
export function readWait(
  text: string | undefined,
  facts: Pick<PageFacts, 'header'>,
  now: () => number,
): number | undefined {
  const number = text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;
  if (number !== undefined && number >= minEpochSeconds)
    return secondsUntil(number < minEpochMs ? number * 1_000 : number, facts, now);
  const isIso = text !== undefined && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text);
  const date = isIso ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? readRetryAfter(text, facts, now) : secondsUntil(date, facts, now);
}

/** From the first on, a number is a time in seconds since 1970; from the second on, one in milliseconds. */
const minEpochSeconds = 1_000_000_000;
const minEpochMs = 100_000_000_000;

/** Seconds to wait, rounded up; undefined if the header is absent, repeated, or neither a number nor a date. */
function readRetryAfter(
  text: string | undefined,
  facts: Pick<PageFacts, 'header'>,
  now: () => number,
): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+(\.\d+)?$/.test(text)) return Math.min(Math.ceil(Number(text)), Number.MAX_SAFE_INTEGER);
  const until = parseHttpDate(text);
  return until === null ? undefined : secondsUntil(epochMsOf(until), facts, now);
}

/** A date is compared with the response's own Date, so that a wrong local clock does not matter. */
function secondsUntil(until: number, { header }: Pick<PageFacts, 'header'>, now: () => number): number {
  const date = parseHttpDate(header('date') ?? '');
  return Math.max(0, Math.ceil((until - (date === null ? now() : epochMsOf(date))) / 1_000));
}
