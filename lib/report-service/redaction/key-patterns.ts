/**
 * Finds the writings of a key in a text. A key may be a token or a whole JSON document of thousands of characters, which no
 * single regular expression can hold: one that is too long throws, and says itself, and so the key, in its error.
 */

/** Where an occurrence begins and ends in `text`, the first from `from` on. */
export type Search = (text: string, from: number) => { readonly start: number; readonly end: number } | undefined;

/** So many keys are remembered: those of one client, which knows its newest five, and a few more. */
const maxRemembered = 8;
const remembered = new Map<string, readonly Search[]>();

/**
 * A search for each writing of `key`: plain and escaped character by character, hexadecimal, and Base64 at each of the
 * three places it can start at; in any letter case, and wrapped by blanks and line breaks. Remembered, as every
 * page asks for the same few keys several times.
 */
export function searchesFor(key: string): readonly Search[] {
  const known = remembered.get(key);
  if (known !== undefined) return known;
  const searches = writingsOf(key).map(searchOf);
  remembered.set(key, searches);
  for (const oldest of remembered.keys()) if (remembered.size > maxRemembered) remembered.delete(oldest);
  return searches;
}

/** A long value is wrapped by a line break, or by the one blank that is left of any more. */
const wrapping = String.raw`\s{0,2}`;

/** No longer run is counted in an expression, which writes a count out. */
const maxCounted = 32;

function sourceOf({ ways, least, most, mayBeWrapped }: Written, isInside: boolean): string {
  const once = `${isInside && mayBeWrapped ? wrapping : ''}(?:${ways.join('|')})`;
  if (most === 1) return once;
  return once + (least <= maxCounted ? `{${least},${most}}` : `{${maxCounted},}`);
}

/**
 * So many parts at most are one expression: enough to find the place, and so few that it costs little to make, as each cold
 * start makes them all. The whole of a key in one took longer than everything else about the first page.
 */
const maxHeaderLength = 8;

/** The beginning by one expression, and where it stands in the text and is not all, the whole part by part. */
function searchOf(parts: readonly Written[]): Search {
  const head = parts.slice(0, maxHeaderLength).map((part, index) => sourceOf(part, index > 0));
  const beginning = new RegExp(head.join(''), 'gi');
  return (text, from) => {
    for (let start = from; text.length - start >= parts.length; start += 1) {
      beginning.lastIndex = start;
      const found = beginning.exec(text);
      if (found === null) return undefined;
      start = found.index;
      const end = parts.length <= maxHeaderLength ? beginning.lastIndex : endOf(text, start, parts);
      if (end !== undefined) return { start, end };
    }
    return undefined;
  };
}

/** Where the last of `parts` ends, if they all stand at `start`. Follows every reading of the text at once. */
function endOf(text: string, start: number, parts: readonly Written[]): number | undefined {
  let ends = new Set([start]);
  for (const [index, { ways, least, most, mayBeWrapped }] of parts.entries()) {
    const reached = new Set<number>();
    for (let times = 1; times <= most && ends.size > 0; times += 1) {
      ends = endsAfter(text, ends, ways, mayBeWrapped && index > 0 && times === 1);
      if (times >= least) for (const end of ends) reached.add(end);
    }
    if (reached.size === 0) return undefined;
    ends = reached;
  }
  return Math.max(...ends);
}

function endsAfter(
  text: string,
  starts: Iterable<number>,
  ways: readonly string[],
  mayBeWrapped: boolean,
): Set<number> {
  const ends = new Set<number>();
  for (const start of starts) {
    for (const way of ways) {
      const expression = expressionOf((mayBeWrapped ? wrapping : '') + way);
      expression.lastIndex = start;
      if (expression.test(text)) ends.add(expression.lastIndex);
    }
  }
  return ends;
}

const expressions = new Map<string, RegExp>();

/** Bounded by the characters there are, as keys are ASCII: one for each way to write each of them. */
function expressionOf(source: string): RegExp {
  const known = expressions.get(source);
  if (known !== undefined) return known;
  const made = new RegExp(source, 'iy');
  expressions.set(source, made);
  return made;
}

// MERGED key-writings.ts: The ways in which a key may be written by whoever repeats it: an error page quotes it as HTML or JSON, a log as Base64.

/** A character of the key, or its backslashes in a row, as it may be written: so many times one of these ways. */
interface Written {
  readonly ways: readonly string[];
  readonly least: number;
  readonly most: number;
  readonly mayBeWrapped: boolean;
}

/** The writings of `key`, each as its parts in order; none of an empty one. */
function writingsOf(key: string): readonly (readonly Written[])[] {
  if (key === '') return [];
  // Made printable, blanks in a row are one.
  const plain = new Set([key, key.replaceAll(/ +/g, ' ')]);
  const encoded = new Set([...base64Of(key), Buffer.from(key).toString('hex')]);
  return [
    ...Array.from(plain, (form) => partsOf(form, escapedAnyhow)),
    ...Array.from(encoded, (form) => partsOf(form, hardlyEscaped)),
  ];
}

function partsOf(form: string, written: (part: string) => Written): readonly Written[] {
  const known = new Map<string, Written>();
  return Array.from(form.matchAll(/\\+|[^\\]/g), ([part]) => {
    const one = known.get(part) ?? written(part);
    known.set(part, one);
    return one;
  });
}

const htmlNames: Record<string, string> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };

/**
 * As one of the escapes of HTML, URLs and JSON, also escaped once more, or as itself; the longer first, so that none is left
 * over. Every repetition is bounded and no two that could share a text stand side by side (hence backslashes of the key
 * itself come as one part), so that nothing a service sends takes long to search. At one place, each way ends at one only:
 * hence more of them for what escapes begin with.
 */
function escapedAnyhow(part: string): Written {
  const character = part.charAt(0);
  const code = character.charCodeAt(0);
  const hex = code.toString(16).padStart(2, '0');
  const name = htmlNames[character];
  const entity = `(?:#0{0,4}${code};|#x0{0,4}${hex};${name === undefined ? '' : `|${name};`})`;
  const html = (character === '&' ? ['&amp;', '&'] : ['&(?:amp;)?']).map((begin) => begin + entity);
  const json = String.raw`\\{1,7}(?:u00|x)${hex}`;
  const percent = character === '%' ? ['%2525', '%25', '%'] : ['%(?:25){0,2}'];
  const url = percent.map((begin) => begin + hex);
  const itself = character === ' ' ? [String.raw`\s`, String.raw`\+`] : [String.raw`\x${hex}`];
  if (character === '\\') {
    return { ways: [...html, json, ...url, ...itself], least: part.length, most: 8 * part.length, mayBeWrapped: true };
  }
  // Backslashes before a character, also where they are escaped themselves: three quotations deep.
  const quoted = character === '%' ? ['%(?:25)?5c', String.raw`\\{0,7}`] : [String.raw`(?:\\{0,7}|%(?:25)?5c)`];
  const plain = quoted.flatMap((before) =>
    character === '%'
      ? [...url, ...itself].map((after) => before + after)
      : [`${before}(?:${[...url, ...itself].join('|')})`],
  );
  return { ways: [...html, json, ...plain], least: 1, most: 1, mayBeWrapped: character !== ' ' };
}

/** Nobody escapes the letters and digits of Base64; what else there is of it, JSON, URLs and HTML each may. */
function hardlyEscaped(part: string): Written {
  return /[A-Za-z0-9]/.test(part) ? { ways: [part], least: 1, most: 1, mayBeWrapped: true } : escapedAnyhow(part);
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
