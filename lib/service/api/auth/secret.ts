/**
 * The secret of a service, and what settings name of it: `{secret}` is the whole text, `{secret.app}` a field of a
 * secret that is JSON. Only what is named, or what a kind of authentication reads, is secret.
 */

import type { JsonObject, JsonValue } from '../../../core/model.ts';

export interface Secret {
  readonly text: string;
  /** The fields of a JSON object. undefined: the secret is a text. */
  readonly fields: Readonly<Record<string, unknown>> | undefined;
}

/** The problem of a secret, without any of it. The message completes a sentence about its place. */
export class SecretProblem extends Error {}

export function parseSecret(text: string): Secret {
  // Most secrets are texts, and this is read for every request: an error of the parser takes longer than all else.
  if (!text.trimStart().startsWith('{')) return { text, fields: undefined };
  try {
    return { text, fields: JSON.parse(text) as Secret['fields'] };
  } catch {
    // The parser's error would quote the secret.
    return { text, fields: undefined };
  }
}

/** The whole secret. `name` is what a person calls it: `API key`. */
export function wholeSecret({ text }: Secret, name: string): string {
  if (text.trim() === '') throw new SecretProblem(`is empty, but must be the service's ${name}`);
  return text;
}

export function secretField({ fields = {} }: Secret, field: string, { mayBeEmpty = false } = {}): string {
  const value = Object.hasOwn(fields, field) ? fields[field] : undefined;
  if (typeof value === 'number' || (typeof value === 'string' && (mayBeEmpty || value !== ''))) return String(value);
  throw new SecretProblem(`must be JSON with a text in its field ${field}: ${JSON.stringify({ [field]: '…' })}`);
}

const placeholder = /\{(?:secret(?:\.([^{}]+))?|token)\}/g;

/** Text that looks like a placeholder, and is none. */
export const unknownPlaceholder = (template: string): string | undefined =>
  (/(?:\$\{|\{\{)[^{}]*\}*/.exec(template) ?? /\{[^{}]*\}/.exec(template.replaceAll(placeholder, '')))?.[0];

export const fieldsNamed = (template: string): readonly string[] =>
  [...template.matchAll(placeholder)].flatMap(([, field]) => field ?? []);

export const namesSecret = (template: string): boolean => template.replaceAll('{token}', '').search(placeholder) >= 0;

/** The template with what `valueOf` returns for a field, for `undefined` the whole secret, and with `token`. */
export const fillText = (template: string, valueOf: (field: string | undefined) => string, token = ''): string =>
  template.replaceAll(placeholder, (found: string, field: string | undefined) =>
    found === '{token}' ? token : valueOf(field),
  );

/** The same for every text in JSON. */
export function fillJson<Value extends JsonValue>(
  template: Value,
  valueOf: (field: string | undefined) => string,
): Value {
  const fill = (value: JsonValue): JsonValue => {
    if (typeof value === 'string') return fillText(value, valueOf);
    if (Array.isArray(value)) return (value as readonly JsonValue[]).map(fill);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value as JsonObject).map(([name, each]) => [name, fill(each)]));
  };
  return fill(template) as Value;
}

/** Shorter parts of credentials occur elsewhere by chance: a text that contains one does not show the credentials. */
const minSearchedLength = 8;

/** Values that must not be shown. A short part is not searched by itself; a secret without parts always is. */
export const searchedValues = (values: readonly string[]): readonly string[] => {
  const different = [...new Set(values)];
  return different.length < 2 ? different : different.filter(({ length }) => length >= minSearchedLength);
};
