/**
 * Keeps the API key out of errors, logs and stored values. A service may echo the key in an error page, in a header, or in
 * bytes that are not HTTP at all.
 *
 * Text from outside is redacted where a message quotes it. The exporter's own wording is not redacted, because a key may also
 * occur there by chance; only keys of at least twenty characters are removed from a whole message, as a safeguard. In text from outside, a key of at least six characters is redacted wherever it occurs, in every
 * encoding. A shorter one is too short to be a secret: it is redacted only as a whole value, such as `"k7"` or `key=k7`.
 */

import { toPrintable, truncate } from '../../core/sanitize.ts';
import { isDistinctive, type KeyMatcher, matchersFor } from './key-patterns.ts';

const replacement = '[redacted]';

/**
 * `text` with every occurrence of a key replaced: plain, escaped for JSON, URLs or HTML, in hexadecimal, or in Base64, even
 * as part of a longer encoded text or wrapped into lines. Never throws: a text that cannot be searched, for lack of
 * memory, is replaced as a whole.
 */
export function redact(text: string, keys: Iterable<string>): string {
  try {
    return [...keys].flatMap(matchersFor).reduce(replaceMatches, text);
  } catch {
    // The error of a regular expression quotes its source, and so the key.
    return replacement;
  }
}

function replaceMatches(text: string, match: KeyMatcher): string {
  const kept: string[] = [];
  let from = 0;
  for (let found = match(text, from); found !== undefined; found = match(text, from)) {
    kept.push(text.slice(from, found.start));
    from = found.end;
  }
  return [...kept, text.slice(from)].join(replacement);
}

/** Foreign text for a message: without the keys, printable, on one line, and at most `maxLength` characters long. */
export function presentable(text: string, keys: Iterable<string>, maxLength: number): string {
  const allKeys = [...keys];
  // Control characters can hide a key, and removing them can reveal one: hence before and after. Truncate last, because
  // half a key would not be recognized.
  return truncate(redact(toPrintable(redact(text, allKeys)), allKeys), maxLength);
}

/** The keys to redact in text where a short key could only occur by chance, such as the frames of a stack. */
export function distinctiveKeys(keys: Iterable<string>): readonly string[] {
  return [...keys].filter(isDistinctive);
}

/** Shorter keys may occur in a cursor or a content type by chance, and no run may fail because of that. */
const minDetectableLength = 12;

/** No phrase of the exporter's own messages is likely to contain a longer key. */
const minSafeguardLength = 20;

/**
 * A safeguard for a whole message, whose quotations are redacted already: removes keys that are too long to occur in the
 * exporter's own wording by chance.
 */
export function redactLongKeys(text: string, keys: Iterable<string>): string {
  return redact(
    text,
    [...keys].filter(({ length }) => length >= minSafeguardLength),
  );
}

/** Whether `text` contains a key in any form that {@link redact} replaces. */
export function containsKey(text: string, keys: Iterable<string>): boolean {
  return [...keys].some((key) => key.length >= minDetectableLength && redact(text, [key]) !== text);
}

/** The maximum length of an occurrence that {@link redact} replaces. A truncated text may end in as much of a key. */
export function maxOccurrenceLength(keys: Iterable<string>): number {
  return Math.max(0, ...[...keys].map((key) => 20 * (key.length + 2)));
}
