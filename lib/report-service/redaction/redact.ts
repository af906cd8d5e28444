/**
 * Keeps the API key out of everything that a person or a log may come to read. A service that echoes the key back, in
 * an error page, a header or bytes that are not HTTP at all, must not make us repeat it.
 */

import { toPrintable, truncate } from '../../core/sanitize.ts';
import { type Search, searchesFor } from './key-patterns.ts';

const redacted = '[redacted]';

/**
 * `text` with every occurrence of a key replaced: in any letter case, plain, escaped character by character (JSON, URL,
 * HTML, in any mixture), in hexadecimal, or in Base64, also where it stands in the middle of what was encoded, and wrapped
 * into lines. Never throws: a text that cannot be searched, for want of room, is left out as a whole.
 */
export function redact(text: string, keys: Iterable<string>): string {
  try {
    return [...keys].flatMap(searchesFor).reduce(without, text);
  } catch {
    // What a regular expression throws is its own pattern, and so the key.
    return redacted;
  }
}

function without(text: string, search: Search): string {
  const kept: string[] = [];
  let from = 0;
  for (let found = search(text, from); found !== undefined; found = search(text, from)) {
    kept.push(text.slice(from, found.start));
    from = found.end;
  }
  return [...kept, text.slice(from)].join(redacted);
}

/** A shorter key may stand in a value by chance: no run may fail for that. */
const shortestTelling = 12;

/** Whether a key stands in `text`, in any form that {@link redact} finds. */
export function holdsKey(text: string, keys: Iterable<string>): boolean {
  return [...keys].some((key) => key.length >= shortestTelling && redact(text, [key]) !== text);
}

/** `text` as a message may show it: without the keys, on one line, printable, and of `most` characters at most. */
export function presentable(text: string, keys: Iterable<string>, most: number): string {
  const known = [...keys];
  // Control characters may hide a key, and so may their removal: hence once before and once after. And both before it is
  // cut, as half a key would no longer be known for one.
  return truncate(redact(toPrintable(redact(text, known)), known), most);
}

/** No occurrence of a key that {@link redact} finds is longer than this; so a cut-off one hides in so many characters. */
export function maxTraceLength(keys: Iterable<string>): number {
  return Math.max(0, ...[...keys].map((key) => 20 * (key.length + 2)));
}
