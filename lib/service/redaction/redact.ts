/**
 * Keeps API keys out of messages. A service may repeat the key in an error page or a header, in any encoding, and no list of
 * patterns finds them all. So foreign text that contains a part of a key is redacted as a whole: redacting too much costs
 * nothing.
 *
 * Only letters and digits are compared, without their case. The text is decoded up to four times in every order: escapes of
 * JSON, URLs and HTML, hexadecimal, Base64. Base64 whose case was changed cannot be decoded, and is compared with the Base64
 * of the key. docs/guarantees.md ("External input is bounded") states what holds.
 */

import { toPrintable, truncate } from '../../core/sanitize.ts';

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

/** Whether `text` contains eight consecutive letters and digits of a key, or all those of a shorter key, in any encoding. */
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

/** Whether `text` contains all letters and digits of a key, in any encoding. False for a key with less than `minLength`. */
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
 * The same for a text whose rejection fails a run, as a multiple of its length. A cursor of 64 Ki characters that is full of
 * nested escapes needs less.
 */
const maxExpansion = 256;

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

/** Without what may wrap or interleave a key, or divide an escape: white space, control characters and invisible ones. */
const squeeze = (text: string) => text.replace(/[\s\p{C}]+/gu, '');

/** The exact inverses of the encodings, except for letter case. So any composition of them is undone, one after the other. */
const decoders: readonly Decoder[] = [decodeJson, decodeUrl, decodeHtml, decodeHex, decodeBase64];
type Decoder = (text: string, length: number) => string;

const characterOf = (hex: string) => String.fromCharCode(Number.parseInt(hex, 16));

function decodeJson(text: string): string {
  return text.replace(/\\(?:u([0-9a-f]{4})|x([0-9a-f]{2})|(.))/gi, (_, unicode, hex, character) => {
    if (character === undefined) return characterOf(unicode ?? hex);
    return /[bfnrt]/i.test(character) ? '' : character;
  });
}

function decodeUrl(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, hex) => characterOf(hex));
}

/** The characters that other encodings consist of. Any other stands for a quote, because it is not compared. */
const entities: Readonly<Record<string, string>> = {
  amp: '&',
  bsol: '\\',
  lowbar: '_',
  num: '#',
  percnt: '%',
  plus: '+',
  semi: ';',
  sol: '/',
};

function decodeHtml(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]{2,8}));/gi, (_, hex, decimal, name) => {
    if (hex !== undefined) return characterOf(hex);
    if (decimal !== undefined) return String.fromCharCode(Number(decimal));
    return entities[String(name).toLowerCase()] ?? '"';
  });
}

function decodeHex(text: string, length: number): string {
  const runs = lettersAndDigits(text).match(new RegExp(`[0-9a-f]{${2 * length},}`, 'g')) ?? [];
  return decodeFrom([0, 1], runs, 'hex', length);
}

function decodeBase64(text: string, length: number): string {
  const runs = text.match(new RegExp(`[A-Za-z0-9+/_-]{${Math.ceil((4 * length) / 3)},}`, 'g')) ?? [];
  return decodeFrom([0, 1, 2, 3], runs, 'base64', length);
}

/** What is ASCII, as keys are, from each of the positions: other characters of the alphabet may precede the encoded ones. */
function decodeFrom(
  positions: readonly number[],
  runs: readonly string[],
  encoding: BufferEncoding,
  length: number,
): string {
  return positions
    .flatMap((start) => runs.map((run) => squeeze(Buffer.from(run.slice(start), encoding).toString('latin1'))))
    .flatMap((decoded) => decoded.split(/[^\x21-\x7e]+/).filter((text) => text.length >= length))
    .join('|');
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

/** In addition, the key in Base64 after another encoding, in case the Base64 was changed to capitals. */
const allFormsOf = cachedByKey((key) => {
  const start = key.slice(0, maxReencodedLength);
  const reencoded = [...reencodings.map((encode) => encode(start)), ...base64Of(start)];
  return [...formsOf(key), ...reencoded.flatMap(base64Of)];
});

const toHex = (text: string) => Buffer.from(text).toString('hex');
const mapEach = (text: string, encode: (hex: string, code: number) => string) =>
  text.replace(/[^]/g, (character) => encode(toHex(character), character.charCodeAt(0)));
const wrap = (text: string, width: number, lineBreak: string) =>
  text.replace(new RegExp(`[^]{${width}}`, 'g'), `$&${lineBreak}`);

const reencodings: readonly ((text: string) => string)[] = [
  (text) => text.toLowerCase(),
  (text) => text.toUpperCase(),
  toHex,
  (text) => toHex(text).toUpperCase(),
  (text) => JSON.stringify(text),
  (text) => mapEach(text, (hex) => `\\u00${hex}`),
  (text) => mapEach(text, (hex) => `\\u00${hex.toUpperCase()}`),
  encodeURIComponent,
  (text) => mapEach(text, (hex) => `%${hex}`),
  (text) => mapEach(text, (hex) => `%${hex.toUpperCase()}`),
  (text) => escapeHtml(text, { '"': '&quot;', "'": '&#39;' }),
  (text) => escapeHtml(text, { '"': '&#34;', "'": '&#x27;' }),
  (text) => mapEach(text, (_, code) => `&#${code};`),
  (text) => mapEach(text, (hex) => `&#x${hex};`),
  (text) => mapEach(text, (hex) => `&#x${hex.toUpperCase()};`),
  // Longer lines contain eight consecutive characters, whose Base64 contains eight of the key's.
  ...[1, 2, 3, 4, 5, 6, 7].flatMap((width) =>
    ['\n', '\r\n'].map((lineBreak) => (text: string) => wrap(text, width, lineBreak)),
  ),
];

const escapeHtml = (text: string, quotes: Readonly<Record<string, string>>) =>
  text.replace(
    /[&<>"']/g,
    (character) => quotes[character] ?? { '&': '&amp;', '<': '&lt;', '>': '&gt;' }[character] ?? '',
  );

/**
 * `text` in Base64, at each of the three byte offsets at which it can start within the encoded text. Only the characters that
 * it alone determines.
 */
function base64Of(text: string): readonly string[] {
  return [0, 1, 2].map((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]);
    return bytes.toString('base64').slice(Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6));
  });
}
