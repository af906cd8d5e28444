/**
 * Keeps the API key out of everything that a person or a log may come to read. A service that echoes the key back, in
 * an error page, a header or bytes that are not HTTP at all, must not make us repeat it.
 */

import { printable, shortened } from '../core/foreign-text.ts';

const redacted = '[redacted]';

/**
 * `text` with every occurrence of a key replaced: in any letter case, plain, escaped character by character (JSON, URL,
 * HTML, in any mixture), in hexadecimal, or in Base64, also where it stands in the middle of what was encoded.
 */
export function redact(text: string, keys: Iterable<string>): string {
  return [...keys].reduce((left, key) => left.replace(patternOf(key), redacted), text);
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
  return shortened(redact(printable(redact(text, known)), known), most);
}

/** No occurrence of a key that {@link redact} finds is longer than this; so a cut-off one hides in so many characters. */
export function longestTrace(keys: Iterable<string>): number {
  return Math.max(0, ...[...keys].map((key) => 20 * (key.length + 2)));
}

function patternOf(key: string): RegExp {
  const hexadecimal = Buffer.from(key).toString('hex');
  // Nobody escapes the letters and digits of Base64; what else there is of it, JSON, URLs and HTML each may.
  const base64 = base64Of(key).map((form) => form.replaceAll(/[^A-Za-z0-9]/g, escapedAnyhow));
  return new RegExp([escapedAnyhow(key), ...base64, hexadecimal].join('|'), 'gi');
}

const htmlNames: Record<string, string> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };

/** Backslashes before a character, also where they are escaped themselves: three quotations deep. */
const backslashes = String.raw`(?:\\{0,7}|%(?:25)?5c)`;

/**
 * Each character as one of the escapes of HTML, URLs and JSON, also escaped once more, or as itself; the longer first, so
 * that none is left over. Every repetition is bounded and no two that could share a text stand side by side (hence
 * backslashes of the key itself come as one), so that nothing a service sends takes long to search.
 */
function escapedAnyhow(form: string): string {
  return Array.from(form.matchAll(/\\+|[^\\]/g), ([part]) => {
    if (part.startsWith('\\')) return `(?:${writingsOf('\\').join('|')}){${part.length},${8 * part.length}}`;
    const [html, json, url, plain] = writingsOf(part);
    return `(?:${html}|${json}|${backslashes}(?:${url}|${plain}))`;
  }).join('');
}

function writingsOf(character: string): readonly [html: string, json: string, url: string, plain: string] {
  const code = character.charCodeAt(0);
  const hex = code.toString(16).padStart(2, '0');
  const name = htmlNames[character];
  return [
    `&(?:amp;)?(?:#0{0,4}${code};|#x0{0,4}${hex};${name === undefined ? '' : `|${name};`})`,
    String.raw`\\{1,7}(?:u00|x)${hex}`,
    character === ' ' ? String.raw`%(?:25){0,2}20|\+` : `%(?:25){0,2}${hex}`,
    String.raw`\x${hex}`,
  ];
}

/** The characters of Base64, of both alphabets, that the key alone decides, at each of the three places it can start at. */
function base64Of(key: string): readonly string[] {
  return [0, 1, 2].flatMap((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(key)]);
    const own = (text: string) => text.slice(Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6));
    const forms = [own(bytes.toString('base64')), own(bytes.toString('base64url'))];
    return forms.filter((form) => form.length >= 4);
  });
}
