/**
 * The ways in which a key may be written by whoever repeats it: an error page quotes it as HTML or JSON, a log as Base64.
 */

/** A character of the key, or its backslashes in a row, as it may be written: so many times one of these ways. */
export interface Written {
  readonly ways: readonly string[];
  readonly least: number;
  readonly most: number;
  readonly mayBeWrapped: boolean;
}

/** The writings of `key`, each as its parts in order; none of an empty one. */
export function writingsOf(key: string): readonly (readonly Written[])[] {
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
