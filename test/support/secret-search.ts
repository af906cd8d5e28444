/**
 * Searches output for secrets in any encoding: escaped for JSON, URLs or HTML, repeatedly and in any combination, in
 * another letter case, with invisible characters in between, in hexadecimal or in Base64.
 */

import { inspect } from 'node:util';

/** The secrets that were found: in which output, which secret, and in which encoding. */
export type Found = readonly { readonly where: string; readonly secret: string; readonly as: string }[];

/**
 * Searches `outputs` for `secrets`; both have names. Text is searched as it is, bytes as text, and other values with
 * everything that is reachable from them, including the causes and stacks of errors.
 */
export function searchForSecrets(
  outputs: Readonly<Record<string, unknown>>,
  secrets: Readonly<Record<string, string>>,
): Found {
  const traces = Object.entries(secrets).flatMap(([secret, text]) =>
    tracesOf(text).map(([as, trace]) => ({ secret, as, trace })),
  );
  return Object.entries(outputs).flatMap(([where, value]) => {
    const texts = textsIn(value).flatMap((text) => [text.toLowerCase(), normalize(text)]);
    return traces
      .filter(({ trace }) => texts.some((text) => text.includes(trace)))
      .map(({ secret, as }) => ({ where, secret, as }));
  });
}

/** The lower-case texts to search for: the secret itself, and the part of each encoding that depends on it alone. */
function tracesOf(secret: string): readonly (readonly [as: string, trace: string])[] {
  const bytes = Buffer.from(secret);
  return [
    ['itself', secret.toLowerCase()],
    ['itself, escaped', normalize(secret)],
    ['hexadecimal', bytes.toString('hex')],
    ...[0, 1, 2].flatMap((offset) => {
      const encoded = Buffer.concat([Buffer.alloc(offset), bytes]);
      const own = (text: string) => text.slice(Math.ceil((offset * 8) / 6), Math.floor((encoded.length * 8) / 6));
      return (['base64', 'base64url'] as const).map(
        (form) => [form, own(encoded.toString(form)).toLowerCase()] as const,
      );
    }),
  ];
}

const htmlNames: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** `text` without escapes, backslashes, whitespace and invisible characters, in lower case. */
function normalize(text: string): string {
  let result = text.replace(/[\s\p{C}]/gu, '');
  for (let before = ''; before !== result;) {
    before = result;
    result = result
      .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      .replace(/&#x([0-9a-f]{1,6});/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      .replace(/&#(\d{1,7});/g, (_, code: string) => String.fromCharCode(Number(code)))
      .replace(/&(amp|lt|gt|quot|apos);/gi, (_, name: string) => htmlNames[name.toLowerCase()] ?? '')
      .replace(/\\+u([0-9a-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      .replace(/\\+x([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
  return result.replace(/[\\+\s\p{C}]/gu, '').toLowerCase();
}

/** All text that is reachable from `value`. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('latin1'), Buffer.from(value).toString('utf8')];
  if (typeof value !== 'object' || value === null) return [String(value)];
  return [
    inspect(value, { depth: null, showHidden: true, maxStringLength: null, maxArrayLength: null }),
    ...strings(value),
  ];
}

/** Names and string values of all properties, including hidden ones: `inspect` escapes strings. */
function strings(value: unknown, visited = new Set<unknown>()): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || visited.has(value)) return [];
  visited.add(value);
  const entries = value instanceof Map ? [...value] : [];
  return [
    ...entries.flatMap((entry) => entry.flatMap((part: unknown) => strings(part, visited))),
    ...Reflect.ownKeys(value).flatMap((name) => [String(name), ...strings(Reflect.get(value, name), visited)]),
  ];
}
