/**
 * Keeps the API key out of everything that a person or a log may come to read. A service that echoes the key back, in
 * an error page, a header or bytes that are not HTTP at all, must not make us repeat it.
 */

const redacted = '[redacted]';

/**
 * `text` with every occurrence of a key replaced: in any letter case, plain, escaped character by character (JSON, URL,
 * HTML, in any mixture) or in Base64, also where it stands in the middle of what was encoded.
 */
export function redact(text: string, keys: Iterable<string>): string {
  return [...keys].reduce((left, key) => left.replace(patternOf(key), redacted), text);
}

/** No occurrence of a key that {@link redact} finds is longer than this; so a cut-off one hides in so many characters. */
export function longestTrace(keys: Iterable<string>): number {
  return Math.max(0, ...[...keys].map((key) => 16 * (key.length + 2)));
}

function patternOf(key: string): RegExp {
  return new RegExp([key, ...base64Of(key)].map(escapedAnyhow).join('|'), 'gi');
}

const htmlNames: Record<string, string> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };

/** Each character as one of the escapes of HTML, URLs and JSON, or as itself; the longer first, so that none is left over. */
function escapedAnyhow(form: string): string {
  return Array.from(form, (character) => {
    const code = character.charCodeAt(0);
    const hex = code.toString(16).padStart(2, '0');
    const name = htmlNames[character];
    const html = [`&#0{0,4}${code};`, `&#x0{0,4}${hex};`, ...(name === undefined ? [] : [`&${name};`])];
    const url = [`%${hex}`, ...(character === ' ' ? [String.raw`\+`] : [])];
    const json = [String.raw`\\u00${hex}`, String.raw`\\x${hex}`, String.raw`\\?\x${hex}`];
    return `(?:${[...html, ...url, ...json].join('|')})`;
  }).join('');
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
