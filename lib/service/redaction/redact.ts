/**
 * Keeps API keys out of messages. A service may repeat the key in an error page or a header, in any encoding, and no
 * list of patterns finds them all. So foreign text that contains a part of a key is redacted as a whole: redacting too
 * much costs nothing.
 *
 * Only letters and digits are compared, without their case. The text is decoded up to four times in every order:
 * escapes of JSON, URLs and HTML, hexadecimal, Base64. Base64 whose case was changed cannot be decoded, and is compared
 * with the Base64 of the key. docs/guarantees.md ("External input is bounded") states what holds.
 */

import { toPrintable, truncate } from '../../core/sanitize.ts';
import { base64Of, encodings, squeeze, toHex } from './encodings.ts';

export const redacted = '[not shown: it contains the API key]';

/** So many consecutive letters and digits of a key do not occur by chance. */
const partLength = 8;

/** No message shows more of a foreign text than this. */
const maxTextLength = 16 * 1024;

/** Foreign text for a message: printable, on one line, at most `maxLength` characters long; or that it is redacted. */
export function presentable(text: string, keys: Iterable<string>, maxLength: number): string {
  const start = text.slice(0, maxTextLength);
  return containsPart(start, keys) ? redacted : truncate(toPrintable(start), maxLength);
}

/** Whether `text` contains eight consecutive letters and digits of a key, or a whole shorter key, in any encoding. */
export function containsPart(text: string, keys: Iterable<string>): boolean {
  const forms = [...keys].flatMap(allFormsOf);
  if (forms.length === 0 || text === '') return false;
  const layers = decode(text, Math.max(1, Math.min(partLength, ...forms.map(({ length }) => length))));
  if (layers === undefined) return true;
  const parts = new Set(layers.flatMap(partsOf));
  return forms.some((form) =>
    form.length < partLength
      ? layers.some((layer) => layer.includes(form))
      : partsOf(form).some((part) => parts.has(part)),
  );
}

/** Shorter keys may occur in a cursor or a content type by chance, and no run may fail because of that. */
const minDetectableLength = 12;

/** Whether `text` contains all letters and digits of a key, in any encoding. False for one shorter than `minLength`. */
export function containsKey(text: string, keys: Iterable<string>, minLength = minDetectableLength): boolean {
  const forms = [...keys].filter((key) => lettersAndDigits(key).length >= minLength).flatMap(formsOf);
  if (forms.length === 0) return false;
  const layers = decode(text, minLength, Math.max(maxDecodedLength, maxExpansion * text.length));
  return layers === undefined || layers.some((layer) => forms.some((form) => layer.includes(form)));
}

const lettersAndDigits = (text: string) => text.toLowerCase().replace(/[^a-z0-9]+/g, '');

function partsOf(text: string): readonly string[] {
  return Array.from({ length: text.length - partLength + 1 }, (_, start) => text.slice(start, start + partLength));
}

const maxDepth = 4;

/** Legitimate text stays far below: little of it can be decoded, and hardly any of that again. */
const maxDecodedLength = 256 * 1024;

/**
 * The same for a text whose rejection fails a run, as a multiple of its length. A cursor of 64 Ki characters that is
 * full of nested escapes needs less.
 */
const maxExpansion = 256;

const decoders = encodings.flatMap((encoding) => encoding.decode ?? []);

/**
 * The letters and digits of `text`, and of all that it decodes to. Decodes at least `length` characters at a time.
 * undefined if there is too much to search.
 */
function decode(text: string, length: number, maxLength = maxDecodedLength): readonly string[] | undefined {
  const depths = new Map([[squeeze(text), 0]]);
  let decodedLength = 0;
  // Visits the entries that are added meanwhile, too.
  for (const [layer, depth] of depths) {
    decodedLength += layer.length;
    if (decodedLength > maxLength) return undefined;
    if (depth === maxDepth) continue;
    for (const decoder of decoders) {
      const decoded = squeeze(decoder(layer, length));
      if (!depths.has(decoded)) depths.set(decoded, depth + 1);
    }
  }
  return Array.from(depths.keys(), lettersAndDigits);
}

/** Enough for the keys that a client remembers, with their parts. */
const maxCachedKeys = 32;

function cachedByKey(compute: (key: string) => readonly string[]): (key: string) => readonly string[] {
  const cache = new Map<string, readonly string[]>();
  return (key) => {
    const cached = cache.get(key);
    if (cached !== undefined) return cached;
    const forms = [...new Set(compute(key).map(lettersAndDigits))];
    cache.set(key, forms);
    for (const oldest of cache.keys()) if (cache.size > maxCachedKeys) cache.delete(oldest);
    return forms;
  };
}

/** The letters and digits of a key as it is, and in the encodings in which a short key is too short to be decoded. */
const formsOf = cachedByKey((key) => [key, toHex(key), ...base64Of(key)]);

/** More than one line of a wrapped text. For a longer key, its beginning stands for the whole. */
const maxReencodedLength = 256;

/**
 * In addition, the key in Base64, also after another encoding: if the Base64 was changed to capitals, it cannot be
 * decoded.
 */
const allFormsOf = cachedByKey((key) => {
  const start = key.slice(0, maxReencodedLength);
  return [...formsOf(key), ...encodings.flatMap(({ encode }) => encode(start)).flatMap(base64Of)];
});
