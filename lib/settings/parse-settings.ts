/**
 * Parses settings in one pass: by their schema, and by rules that concern several fields. The rules see what the schema accepts, so
 * that all problems are named at once.
 */

import * as z from 'zod/mini';
import { fieldsOf, type SettingsProblem } from './fields.ts';

type SettingsIssue = z.core.$ZodIssue;

/** `rules` get the parsed value without its invalid parts. `data` is undefined if there are issues. */
export function parseWithRules<Schema extends z.ZodMiniType<object>, ValidSettings>(
  schema: Schema,
  value: unknown,
  rules: (valid: ValidSettings) => readonly SettingsProblem[],
) {
  const checkRules = z.check<object>(
    ({ value: parsed, issues }) => {
      const invalid = issues.flatMap(({ code, path = [] }) => (code === 'unrecognized_keys' ? [] : [path]));
      const known = new Set(invalid.map((path) => JSON.stringify(path)));
      const valid = invalid.map(partOf).reduce(without, parsed) ?? {};
      for (const { path, message } of rules(valid as ValidSettings)) {
        if (known.has(JSON.stringify(path))) continue;
        issues.push({ code: 'custom', path: [...path], message, input: parsed, continue: true });
      }
    },
    // Also after issues. Zod would skip it after a check with `abort`, so no schema of settings has one.
    { when: () => true },
  );
  const { data, error } = schema.check(checkRules as never).safeParse(value);
  const issues = (error?.issues ?? []).flatMap((issue) => issuesOfForm(issue, value));
  return { data: data as z.infer<Schema> | undefined, issues: suggestFields(schema, value, issues) };
}

/** What is removed of an invalid value. A request is seen as a whole: the placeholder that a rule looks for may be anywhere in it. */
const partOf = (path: readonly PropertyKey[]): readonly PropertyKey[] =>
  path[2] === 'api' && path[3] === 'request' ? path.slice(0, 4) : path;

/** The value with undefined at `path`. */
function without(value: unknown, [key, ...rest]: readonly PropertyKey[]): unknown {
  if (key === undefined) return undefined;
  if (typeof value !== 'object' || value === null) return value;
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...value }) as Record<PropertyKey, unknown>;
  copy[key] = without(copy[key], rest);
  return copy;
}

const valueAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((parent, key) => (parent as Record<PropertyKey, unknown> | null | undefined)?.[key], value);

/** What is wrong with the form that is meant: the one with the fewest missing and unknown fields. The issue itself if several have. */
function issuesOfForm(issue: SettingsIssue, value: unknown): SettingsIssue[] {
  if (issue.code !== 'invalid_union') return [issue];
  const given = valueAt(value, issue.path);
  const forms = issue.errors
    .filter((issues) => issues.every(({ code, path }) => path.length > 0 || code === 'unrecognized_keys'))
    .map((issues) => {
      const missing = issues.filter(({ path }) => path.length > 0 && valueAt(given, path.slice(0, 1)) === undefined);
      return { issues, misfits: missing.length + issues.flatMap((each) => ('keys' in each ? each.keys : [])).length };
    })
    .toSorted((one, other) => one.misfits - other.misfits);
  const [best, second] = forms;
  if (best === undefined || best.misfits === second?.misfits) return [issue];
  return best.issues.flatMap((each) => issuesOfForm({ ...each, path: [...issue.path, ...each.path] }, value));
}

/** An object in the settings, of any of its kinds and forms. */
interface SettingsObject {
  /** As in docs/settings.md: `exports[].since`. */
  readonly place: string;
  readonly fields: readonly string[];
  /** The field that names its kind. */
  readonly kind?: string;
}

/** The names of services are arbitrary. */
const inPlace = (place: string, key: PropertyKey): string =>
  typeof key === 'number'
    ? `${place}[]`
    : [place, place === 'services' ? '*' : String(key)].filter((part) => part !== '').join('.');

function objectsIn(schema: z.core.JSONSchema._JSONSchema | undefined, place = ''): SettingsObject[] {
  if (typeof schema !== 'object') return [];
  const { properties = {}, items, additionalProperties, anyOf, oneOf } = schema;
  const variants = (anyOf ?? oneOf ?? []).flatMap((each) => objectsIn(each, place));
  const ofVariants = variants.filter((each) => each.place === place).flatMap(({ fields }) => fields);
  const fields = [...Object.keys(properties), ...new Set(ofVariants)];
  const [kind] =
    Object.entries(oneOf?.[0]?.properties ?? {}).find(([, field]) => typeof field === 'object' && 'const' in field) ??
    [];
  return [
    ...(fields.length === 0 ? [] : [{ place, fields, kind }]),
    ...variants.filter((each) => each.place !== place),
    ...Object.entries(properties).flatMap(([name, field]) => objectsIn(field, inPlace(place, name))),
    ...[items ?? []].flat().flatMap((item) => objectsIn(item, inPlace(place, 0))),
    ...objectsIn(additionalProperties, inPlace(place, '*')),
  ];
}

/** The same issues, with a suggestion for each unknown field for which `schema`, that of the whole settings, has one. */
function suggestFields(schema: z.core.$ZodType, value: unknown, issues: readonly SettingsIssue[]): SettingsIssue[] {
  if (!issues.some(({ code }) => code === 'unrecognized_keys' || code === 'invalid_union')) return [...issues];
  const objects = objectsIn(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }));
  return issues.flatMap((issue): SettingsIssue[] => {
    const isUnclear = issue.code === 'invalid_union';
    if (issue.code !== 'unrecognized_keys' && !isUnclear) return [issue];
    const objectAt = (path: SettingsIssue['path']) => {
      const place = path.reduce<string>(inPlace, '');
      return objects.find((each) => each.place === place);
    };
    // Where the kind of an object is missing, the path leads to its field.
    const path = isUnclear && objectAt(issue.path) === undefined ? issue.path.slice(0, -1) : issue.path;
    const here = objectAt(path);
    if (here === undefined) return [issue];
    const given = fieldsOf(valueAt(value, path));
    const keys = isUnclear ? Object.keys(given).filter((key) => !here.fields.includes(key)) : issue.keys;
    const suggestions = keys.flatMap((key): SettingsIssue[] => {
      const message = suggest(key, here, given, objects);
      return message === undefined ? [] : [{ code: 'custom', path: [...path, key], message, input: undefined }];
    });
    if (isUnclear) return [issue, ...suggestions];
    const others = issue.keys.filter((key) => !suggestions.some((each) => each.path.at(-1) === key));
    return [...(others.length === 0 ? [] : [{ ...issue, keys: others }]), ...suggestions];
  });
}

const secretName = /^((api|secret)[_-]?key|(client[_-]?)?secret|([a-z]+[_-]?)?token|pass(word|phrase)|credentials?)$/i;
const secretAdvice =
  'a secret does not belong in the settings, but in AWS Secrets Manager and, for runs on this machine, in the environment variable ' +
  'that apiKeyEnv names';

/** A longer name is no mistyped field. */
const maxLength = 40;

/** What is meant by a field that `here`, which has the `given` fields, does not have. */
function suggest(
  name: string,
  here: SettingsObject,
  given: Readonly<Record<string, unknown>>,
  objects: readonly SettingsObject[],
): string | undefined {
  if (here.fields.includes(name)) {
    const others = Object.keys(given).filter((each) => each !== name);
    return `has no meaning ${here.kind === undefined ? `beside ${others.join(' and ')}` : `for ${String(given[here.kind])}`}`;
  }
  if (name.length > maxLength) return undefined;
  if (secretName.test(name)) return `unknown field; ${secretAdvice}`;
  const isSpelledAs = (field: string) => field.toLowerCase() === name.toLowerCase();
  const distanceTo = (field: string) => editDistance(name.toLowerCase(), field.toLowerCase());
  const [nearest = ''] = here.fields.toSorted((one, other) => distanceTo(one) - distanceTo(other));
  const elsewhere = objects.flatMap(({ place, fields }) =>
    fields.filter(isSpelledAs).map((field) => inPlace(place, field)),
  );
  if (elsewhere.length > 0 && !isSpelledAs(nearest)) {
    const inside = elsewhere.filter((place) => place.startsWith(`${here.place}.`));
    return `unknown field; did you mean ${[...new Set(inside.length > 0 ? inside : elsewhere)].join(' or ')}?`;
  }
  return distanceTo(nearest) <= name.length / 3 ? `unknown field; did you mean ${nearest}?` : undefined;
}

/** How many characters to insert, delete or replace (Levenshtein). */
function editDistance(one: string, other: string): number {
  // Distances of the first characters of `one` to each beginning of `other`.
  let above = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [row, character] of Array.from(one).entries()) {
    const line = [row + 1];
    for (const [column, each] of Array.from(other).entries()) {
      const replaced = Number(above[column]) + (each === character ? 0 : 1);
      line.push(Math.min(Number(line[column]) + 1, Number(above[column + 1]) + 1, replaced));
    }
    above = line;
  }
  return Number(above.at(-1));
}
