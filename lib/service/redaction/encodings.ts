/** Encodings in which a response may repeat a key, and how each is undone. */

export interface Encoding {
  /**
   * The exact inverse, except for letter case. So any composition of encodings is undone, one after the other. Decodes
   * at least `length` characters at a time. Absent: the search ignores this encoding anyway.
   */
  readonly decode?: (text: string, length: number) => string;
  readonly encode: (text: string) => readonly string[];
}

export const encodings: readonly Encoding[] = [
  { encode: (text) => [text.toLowerCase(), text.toUpperCase()] },
  // Longer lines contain eight consecutive characters, whose Base64 contains eight of the key's.
  { encode: (text) => ['\n', '\r\n'].flatMap((lineBreak) => [1, 2, 3, 4, 5, 6, 7].map(wrap(text, lineBreak))) },
  { decode: decodeJson, encode: (text) => [JSON.stringify(text), ...escapeEach(text, (hex) => `\\u00${hex}`)] },
  { decode: decodeUrl, encode: (text) => [encodeURIComponent(text), ...escapeEach(text, (hex) => `%${hex}`)] },
  {
    decode: decodeHtml,
    encode: (text) => [
      escapeHtml(text, { '"': '&quot;', "'": '&#39;' }),
      escapeHtml(text, { '"': '&#34;', "'": '&#x27;' }),
      ...escapeEach(text, (hex) => `&#${Number.parseInt(hex, 16)};`),
      ...escapeEach(text, (hex) => `&#x${hex};`),
    ],
  },
  { decode: decodeHex, encode: (text) => [toHex(text), toHex(text).toUpperCase()] },
  { decode: decodeBase64, encode: base64Of },
];

export const toHex = (text: string): string => Buffer.from(text).toString('hex');

/**
 * `text` in Base64, at each of the three byte offsets at which it can start within the encoded text. Only the
 * characters that it alone determines.
 */
export function base64Of(text: string): readonly string[] {
  return [0, 1, 2].map((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]);
    return bytes.toString('base64').slice(Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6));
  });
}

/**
 * Without what may wrap or interleave a key, or divide an escape: white space, control characters and invisible ones.
 */
export const squeeze = (text: string): string => text.replace(/[\s\p{C}]+/gu, '');

const wrap = (text: string, lineBreak: string) => (width: number) =>
  text.replace(new RegExp(`[^]{${width}}`, 'g'), `$&${lineBreak}`);

/** Each character as an escape, with its hexadecimal digits in lower and in upper case. */
const escapeEach = (text: string, escape: (hex: string) => string): readonly string[] =>
  [toHex, (character: string) => toHex(character).toUpperCase()].map((hexOf) =>
    text.replace(/[^]/g, (character) => escape(hexOf(character))),
  );

const escapeHtml = (text: string, quotes: Readonly<Record<string, string>>) =>
  text.replace(
    /[&<>"']/g,
    (character) => quotes[character] ?? { '&': '&amp;', '<': '&lt;', '>': '&gt;' }[character] ?? '',
  );

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
  const runs = text.replace(/[^a-z0-9]+/gi, '').match(new RegExp(`[0-9a-f]{${2 * length},}`, 'gi')) ?? [];
  return decodeRuns(runs, { encoding: 'hex', starts: [0, 1], length });
}

function decodeBase64(text: string, length: number): string {
  const runs = text.match(new RegExp(`[A-Za-z0-9+/_-]{${Math.ceil((4 * length) / 3)},}`, 'g')) ?? [];
  return decodeRuns(runs, { encoding: 'base64', starts: [0, 1, 2, 3], length });
}

interface Runs {
  readonly encoding: BufferEncoding;
  /** Other characters of the alphabet may precede the encoded ones. */
  readonly starts: readonly number[];
  readonly length: number;
}

/** The parts that are ASCII, as keys are. */
const decodeRuns = (runs: readonly string[], { encoding, starts, length }: Runs): string =>
  starts
    .flatMap((start) => runs.map((run) => squeeze(Buffer.from(run.slice(start), encoding).toString('latin1'))))
    .flatMap((decoded) => decoded.split(/[^\x21-\x7e]+/).filter((text) => text.length >= length))
    .join('|');
