/**
 * Looks for secrets in anything that was said, however they are written there: escaped for JSON, URLs or HTML to any depth
 * and in any mixture, in another letter case, with invisible characters between, in hexadecimal or in Base64.
 */

import { inspect } from 'node:util';

/** A part of what was said, and the secrets found in it: each by the name it was given. */
export type Found = readonly { readonly where: string; readonly secret: string; readonly as: string }[];

/**
 * Where any of `secrets` stands in `said`; both by name. Text is searched as it is, bytes as text, any other value through
 * everything that can be reached from it, errors with their causes and stacks.
 */
export function searchForSecrets(
  said: Readonly<Record<string, unknown>>,
  secrets: Readonly<Record<string, string>>,
): Found {
  const traces = Object.entries(secrets).flatMap(([secret, text]) =>
    tracesOf(text).map(([as, trace]) => ({ secret, as, trace })),
  );
  return Object.entries(said).flatMap(([where, value]) => {
    const texts = textsIn(value).flatMap((text) => [text.toLowerCase(), plain(text)]);
    return traces
      .filter(({ trace }) => texts.some((text) => text.includes(trace)))
      .map(({ secret, as }) => ({ where, secret, as }));
  });
}

/** What is looked for, in lower case: the secret itself, and of each encoding the characters it alone decides. */
function tracesOf(secret: string): readonly (readonly [as: string, trace: string])[] {
  const bytes = Buffer.from(secret);
  return [
    ['itself', secret.toLowerCase()],
    ['itself, escaped', plain(secret)],
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

/** Every escape undone, as often as there is one; without backslashes, blanks and what is not seen; in lower case. */
function plain(text: string): string {
  let left = text.replace(/[\s\p{C}]/gu, '');
  for (let before = ''; before !== left; ) {
    before = left;
    left = left
      .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      .replace(/&#x([0-9a-f]{1,6});/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      .replace(/&#(\d{1,7});/g, (_, code: string) => String.fromCharCode(Number(code)))
      .replace(/&(amp|lt|gt|quot|apos);/gi, (_, name: string) => htmlNames[name.toLowerCase()] ?? '')
      .replace(/\\+u([0-9a-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      .replace(/\\+x([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
  return left.replace(/[\\+\s\p{C}]/gu, '').toLowerCase();
}

/** Every text that can be reached from `value`. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('latin1'), Buffer.from(value).toString('utf8')];
  if (typeof value !== 'object' || value === null) return [String(value)];
  return [
    inspect(value, { depth: null, showHidden: true, maxStringLength: null, maxArrayLength: null }),
    ...strings(value),
  ];
}

/** Names and values of all properties, hidden ones too: `inspect` shows text in quotes of its own. */
function strings(value: unknown, met = new Set<unknown>()): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || met.has(value)) return [];
  met.add(value);
  const entries = value instanceof Map ? [...value] : [];
  return [
    ...entries.flatMap((entry) => entry.flatMap((part: unknown) => strings(part, met))),
    ...Reflect.ownKeys(value).flatMap((name) => [String(name), ...strings(Reflect.get(value, name), met)]),
  ];
}
