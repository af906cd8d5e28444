/**
 * Finds an API key in text, however a service or a log may have encoded it: plain, escaped for JSON, URLs or HTML (each
 * character on its own, up to three levels deep), in hexadecimal or in Base64, in any letter case, wrapped into lines.
 *
 * A key may be a token or a whole JSON document of thousands of characters. No single regular expression can hold that:
 * one that is too long throws, and its error quotes the expression and so the key. An expression therefore finds the
 * first eight units of the encoded key, and the remaining units are matched one by one.
 */

/** Finds the first occurrence of a key in one encoding, at or after `from`. */
export type KeyMatcher = (text: string, from: number) => Occurrence | undefined;

interface Occurrence {
  readonly start: number;
  readonly end: number;
}

/** One character of the key, or a run of its backslashes: `min` to `max` repetitions of any of the `variants`. */
interface Unit {
  /** Sources of regular expressions. At any position, each variant matches in at most one way. */
  readonly variants: readonly string[];
  readonly min: number;
  readonly max: number;
  /** Whether a line break may precede it. */
  readonly mayBeWrapped: boolean;
}

/**
 * Shorter keys also occur by chance, inside words and numbers: with the key `b`, "bytes" would become "[redacted]ytes".
 * Only the longer ones are distinctive, and redacted wherever they occur.
 */
const minDistinctiveLength = 6;

export function isDistinctive(key: string): boolean {
  return key.length >= minDistinctiveLength;
}

/** Enough for the five newest keys that a client remembers, and a few more. */
const maxCachedKeys = 8;
const cachedMatchers = new Map<string, readonly KeyMatcher[]>();

/**
 * One matcher for each encoding of `key`; none if it is empty. A key that is not distinctive is found only plain or
 * escaped, and only as a whole value. Cached, because every page uses the same few keys several times.
 */
export function matchersFor(key: string): readonly KeyMatcher[] {
  const cached = cachedMatchers.get(key);
  if (cached !== undefined) return cached;
  const matchers = isDistinctive(key)
    ? encodingsOf(key).map(createMatcher)
    : plainEncodingsOf(key).map((units) => onlyWholeValues(createMatcher(withoutWrapping(units))));
  cachedMatchers.set(key, matchers);
  for (const oldest of cachedMatchers.keys()) if (cachedMatchers.size > maxCachedKeys) cachedMatchers.delete(oldest);
  return matchers;
}

/** Blanks, quotes, brackets and separators. Other punctuation joins: `user-id`, `127.0.0.1` and `2/3` are single values. */
const valueStart = /(?<=^|[\s\p{Cc}"'`([{<>=:,;&?]|%[0-9a-f]{2})/iuy;
const valueEnd = /(?=$|[\s\p{Cc}"'`)\]}<>,;&\\%]|[.:!?](?:\s|$))/iuy;

function onlyWholeValues(match: KeyMatcher): KeyMatcher {
  return (text, from) => {
    for (let found = match(text, from); found !== undefined; found = match(text, found.start + 1)) {
      if (matchesAt(valueStart, text, found.start) && matchesAt(valueEnd, text, found.end)) return found;
    }
    return undefined;
  };
}

function withoutWrapping(units: readonly Unit[]): readonly Unit[] {
  return units.map((unit) => ({ ...unit, mayBeWrapped: false }));
}

function matchesAt(sticky: RegExp, text: string, position: number): boolean {
  sticky.lastIndex = position;
  return sticky.test(text);
}

/**
 * As many units as the first expression holds: enough to find candidates, and few enough to compile quickly. Each cold
 * start compiles them all; one expression for a whole key took longer than everything else about the first page.
 */
const maxPrefixUnits = 8;

/** Finds candidates by the first units, then checks the remaining units one by one. */
function createMatcher(units: readonly Unit[]): KeyMatcher {
  const prefix = new RegExp(units.slice(0, maxPrefixUnits).map(sourceOf).join(''), 'gi');
  return (text, from) => {
    for (let start = from; text.length - start >= units.length; start += 1) {
      prefix.lastIndex = start;
      const found = prefix.exec(text);
      if (found === null) return undefined;
      start = found.index;
      const end = units.length <= maxPrefixUnits ? prefix.lastIndex : findEnd(text, start, units);
      if (end !== undefined) return { start, end };
    }
    return undefined;
  };
}

/** A long value is wrapped by a line break, or by the single blank that `toPrintable` leaves of it. */
const wrapping = String.raw`\s{0,2}`;

/** Regular expressions expand counted repetitions; longer ones are left to `findEnd`. */
const maxCounted = 32;

function sourceOf({ variants, min, max, mayBeWrapped }: Unit, index: number): string {
  const once = `${mayBeWrapped && index > 0 ? wrapping : ''}(?:${variants.join('|')})`;
  if (max === 1) return once;
  return once + (min <= maxCounted ? `{${min},${max}}` : `{${maxCounted},}`);
}

/** Where the last of `units` ends if they all match from `start` on. Follows every possible reading in parallel. */
function findEnd(text: string, start: number, units: readonly Unit[]): number | undefined {
  let ends = new Set([start]);
  for (const [index, { variants, min, max, mayBeWrapped }] of units.entries()) {
    const reached = new Set<number>();
    for (let count = 1; count <= max && ends.size > 0; count += 1) {
      ends = endsAfter(text, ends, variants, mayBeWrapped && index > 0 && count === 1);
      if (count >= min) for (const end of ends) reached.add(end);
    }
    if (reached.size === 0) return undefined;
    ends = reached;
  }
  return Math.max(...ends);
}

function endsAfter(
  text: string,
  starts: Iterable<number>,
  variants: readonly string[],
  mayBeWrapped: boolean,
): Set<number> {
  const ends = new Set<number>();
  for (const start of starts) {
    for (const variant of variants) {
      const expression = stickyExpression((mayBeWrapped ? wrapping : '') + variant);
      if (matchesAt(expression, text, start)) ends.add(expression.lastIndex);
    }
  }
  return ends;
}

/** Bounded: keys are ASCII, so there is one expression for each variant of each ASCII character. */
const stickyExpressions = new Map<string, RegExp>();

function stickyExpression(source: string): RegExp {
  const cached = stickyExpressions.get(source);
  if (cached !== undefined) return cached;
  const expression = new RegExp(source, 'iy');
  stickyExpressions.set(source, expression);
  return expression;
}

/** Every encoding of `key`, as its units in order. */
function encodingsOf(key: string): readonly (readonly Unit[])[] {
  const alphanumeric = new Set([...base64Of(key), Buffer.from(key).toString('hex')]);
  return [...plainEncodingsOf(key), ...Array.from(alphanumeric, (encoded) => unitsOf(encoded, encodedUnit))];
}

/** The key itself, and the key as `toPrintable` shows it, which collapses blanks. */
function plainEncodingsOf(key: string): readonly (readonly Unit[])[] {
  if (key === '') return [];
  const forms = new Set([key, key.replaceAll(/ +/g, ' ')]);
  return Array.from(forms, (form) => unitsOf(form, escapableUnit));
}

function unitsOf(form: string, toUnit: (part: string) => Unit): readonly Unit[] {
  const cached = new Map<string, Unit>();
  return Array.from(form.matchAll(/\\+|[^\\]/g), ([part]) => {
    const unit = cached.get(part) ?? toUnit(part);
    cached.set(part, unit);
    return unit;
  });
}

const htmlNames: Record<string, string> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };

/**
 * A character as itself or as an escape of HTML, URLs or JSON, also escaped repeatedly; the longest variant first, so that
 * no part of an escape remains. To keep matching fast for any input, every repetition is bounded, and no two adjacent
 * repetitions can match the same text: hence a run of backslashes in the key is a single unit. Characters that begin an
 * escape themselves need more variants, so that each variant still matches in at most one way.
 */
function escapableUnit(part: string): Unit {
  const character = part.charAt(0);
  const code = character.charCodeAt(0);
  const hex = code.toString(16).padStart(2, '0');
  const name = htmlNames[character];
  const entity = `(?:#0{0,4}${code};|#x0{0,4}${hex};${name === undefined ? '' : `|${name};`})`;
  const html = (character === '&' ? ['&amp;', '&'] : ['&(?:amp;)?']).map((ampersand) => ampersand + entity);
  const json = String.raw`\\{1,7}(?:u00|x)${hex}`;
  const percent = character === '%' ? ['%2525', '%25', '%'] : ['%(?:25){0,2}'];
  const url = percent.map((sign) => sign + hex);
  const literal = character === ' ' ? [String.raw`\s`, String.raw`\+`] : [String.raw`\x${hex}`];
  if (character === '\\') {
    return {
      variants: [...html, json, ...url, ...literal],
      min: part.length,
      max: 8 * part.length,
      mayBeWrapped: true,
    };
  }
  // Backslashes may precede the character, and may themselves be escaped, up to three levels deep.
  const backslashes = character === '%' ? ['%(?:25)?5c', String.raw`\\{0,7}`] : [String.raw`(?:\\{0,7}|%(?:25)?5c)`];
  const quoted = backslashes.flatMap((before) =>
    character === '%'
      ? [...url, ...literal].map((after) => before + after)
      : [`${before}(?:${[...url, ...literal].join('|')})`],
  );
  return { variants: [...html, json, ...quoted], min: 1, max: 1, mayBeWrapped: character !== ' ' };
}

/** A character of Base64 or hexadecimal: letters and digits are never escaped, the others may be. */
function encodedUnit(part: string): Unit {
  return /[A-Za-z0-9]/.test(part) ? { variants: [part], min: 1, max: 1, mayBeWrapped: true } : escapableUnit(part);
}

/**
 * The key in Base64, in both alphabets, at each of the three byte offsets at which it can start within the encoded text.
 * Only the characters that the key alone determines.
 */
function base64Of(key: string): readonly string[] {
  return [0, 1, 2].flatMap((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(key)]);
    const first = Math.ceil((offset * 8) / 6);
    const end = Math.floor((bytes.length * 8) / 6);
    return [bytes.toString('base64').slice(first, end), bytes.toString('base64url').slice(first, end)];
  });
}
