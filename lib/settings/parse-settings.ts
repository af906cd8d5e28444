/**
 * Parses settings in one pass: first by their schema, then by rules that concern several fields. The rules see what the schema
 * accepts, so that all problems are named at once. An unknown field comes with a suggestion: a field with a similar name, or the
 * object to which the field belongs.
 */

import * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import { describeProblems } from '../core/validation-errors.ts';
import { fieldsOf, type SettingsProblem } from './fields.ts';

type SettingsIssue = z.core.$ZodIssue;

export const within = (path: SettingsProblem['path'], problems: readonly SettingsProblem[]): SettingsProblem[] =>
  problems.map((each) => ({ ...each, path: [...path, ...each.path] }));

/** Settings as rules see them: the fields that the schema accepts, and what was written, without defaults. */
export interface Checked<Settings> {
  readonly valid: Partial<Settings>;
  readonly written: unknown;
}

interface Parsed<Settings> {
  /** Undefined: there are issues. */
  readonly data: Settings | undefined;
  readonly issues: readonly SettingsIssue[];
}

/**
 * `rules` get the parsed value without its invalid parts. `depthOf` says how many names of an issue's path lead to the part that is then
 * missing.
 */
export function parseWithRules<Schema extends z.ZodMiniType<object>, Valid>(
  schema: Schema,
  value: unknown,
  depthOf: (path: readonly PropertyKey[]) => number,
  rules: (valid: Valid) => Iterable<SettingsProblem>,
): Parsed<z.infer<Schema>> {
  const checkRules = z.check<object>(
    ({ value: parsed, issues }) => {
      const paths = issues.flatMap(({ code, path = [] }) => (code === 'unrecognized_keys' ? [] : [path]));
      const parts = paths.map((path) => path.slice(0, depthOf(path)));
      const known = new Set(paths.map((path) => JSON.stringify(path)));
      for (const { path, message } of rules((parts.reduce(without, parsed) ?? {}) as Valid)) {
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

const valueAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((parent, key) => (parent as Record<PropertyKey, unknown> | null | undefined)?.[key], value);

/** The value with undefined at `path`. */
function without(value: unknown, [key, ...rest]: readonly PropertyKey[]): unknown {
  if (key === undefined) return undefined;
  if (typeof value !== 'object' || value === null) return value;
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...value }) as Record<PropertyKey, unknown>;
  copy[key] = without(copy[key], rest);
  return copy;
}

/** Parses `value`, which `subject` names. @throws ConfigurationError that lists every problem with its path */
export function parseSettings<Schema extends z.core.$ZodType>(
  schema: Schema,
  value: unknown,
  subject: string,
): z.infer<Schema> {
  const parsed = z.safeParse(schema, value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.flatMap((issue) => issuesOfForm(issue, value));
  throw new ExportError('ConfigurationError', describeProblems(subject, { issues }));
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | false;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly const?: unknown;
}

/** An object in the settings. In its path, `*` is any item of a list or a map. */
interface SettingsObject {
  readonly path: readonly string[];
  /** Of all its kinds and forms. */
  readonly fields: readonly string[];
  /** The field that names its kind. */
  readonly kind?: string;
}

/** The same issues, with the kind of object that requires a missing field, and a suggestion for each unknown field for which `schema`, that of the whole settings, has one. */
function suggestFields(schema: z.core.$ZodType, value: unknown, issues: readonly SettingsIssue[]): SettingsIssue[] {
  if (issues.length === 0) return [];
  const objects = objectsIn(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Schema, []);
  return issues.flatMap((issue): SettingsIssue[] => {
    const isUnknown = issue.code === 'unrecognized_keys';
    const path = isUnknown ? issue.path : issue.path.slice(0, -1);
    const here = objects.find((each) => matches(each.path, path));
    if (issue.code === 'invalid_union') return [issue, ...unknownBeside(issue, value, objects)];
    if (here === undefined) return [issue];
    const given = fieldsOf(valueAt(value, path));
    if (!isUnknown) {
      const isMissing = issue.message === 'is required' && here.kind !== undefined && given[here.kind] !== undefined;
      return [isMissing ? { ...issue, message: `is required for ${String(given[here.kind ?? ''])}` } : issue];
    }
    const suggestions = new Map(
      issue.keys.map((key) => [
        key,
        here.fields.includes(key) ? otherKind(here, given, issue.keys) : suggest(key, here, objects),
      ]),
    );
    const others = issue.keys.filter((key) => suggestions.get(key) === undefined);
    return [
      ...(others.length === 0 ? [] : [{ ...issue, keys: others }]),
      ...issue.keys.flatMap((key): SettingsIssue[] => {
        const message = suggestions.get(key);
        return message === undefined ? [] : [{ code: 'custom', path: [...issue.path, key], message, input: undefined }];
      }),
    ];
  });
}

/** The fields that no kind or form of an object has: one of them may be the mistyped name of what is missing. */
function unknownBeside({ path }: SettingsIssue, value: unknown, objects: readonly SettingsObject[]): SettingsIssue[] {
  const kind = String(path.at(-1));
  return objects.flatMap((here) => {
    const place = matches(here.path, path) ? path : path.slice(0, -1);
    if (!matches(here.path, place) || (place !== path && here.kind !== kind)) return [];
    const unknown = Object.keys(fieldsOf(valueAt(value, place))).filter((key) => !here.fields.includes(key));
    return unknown.map((key) => {
      const message = suggest(key, here, objects) ?? 'unknown field';
      return { code: 'custom' as const, path: [...place, key], message, input: undefined };
    });
  });
}

/** Why an object cannot have a field that it has in another kind or form. */
function otherKind({ kind }: SettingsObject, given: Readonly<Record<string, unknown>>, unknown: readonly string[]) {
  if (kind !== undefined) return `has no meaning for ${String(given[kind])}`;
  const others = Object.keys(given).filter((key) => !unknown.includes(key));
  return `has no meaning beside ${others.join(' and ')}`;
}

function objectsIn(schema: Schema, path: readonly string[]): SettingsObject[] {
  const { properties = {}, items, additionalProperties, anyOf, oneOf } = schema;
  const variants = anyOf ?? oneOf;
  if (variants !== undefined) {
    const [own = [], inner = []] = [true, false].map((isOwn) =>
      variants.flatMap((each) => objectsIn(each, path)).filter((each) => (each.path.length === path.length) === isOwn),
    );
    const [kind] = Object.entries(oneOf?.[0]?.properties ?? {}).find(([, field]) => field.const !== undefined) ?? [];
    return [{ path, fields: [...new Set(own.flatMap(({ fields }) => fields))], kind }, ...inner];
  }
  const item = items ?? additionalProperties;
  return [
    ...(schema.properties === undefined ? [] : [{ path, fields: Object.keys(properties) }]),
    ...Object.entries(properties).flatMap(([name, field]) => objectsIn(field, [...path, name])),
    ...(typeof item === 'object' ? objectsIn(item, [...path, '*']) : []),
  ];
}

const matches = (pattern: readonly string[], path: readonly PropertyKey[]): boolean =>
  pattern.length === path.length && pattern.every((part, index) => part === '*' || part === path[index]);

const secretName = /^((api|secret)[_-]?key|(client[_-]?)?secret|([a-z]+[_-]?)?token|pass(word|phrase)|credentials?)$/i;
const secretAdvice =
  'a secret does not belong in the settings, but in AWS Secrets Manager and, for runs on this machine, in the environment variable ' +
  'that apiKeyEnv names';

/** A longer name is no mistyped field. */
const maxLength = 40;

function suggest(name: string, here: SettingsObject, objects: readonly SettingsObject[]): string | undefined {
  if (name.length > maxLength) return undefined;
  if (secretName.test(name)) return `unknown field; ${secretAdvice}`;
  const distanceTo = (field: string) => editDistance(name.toLowerCase(), field.toLowerCase());
  const [nearest] = here.fields.toSorted((one, other) => distanceTo(one) - distanceTo(other));
  const farthest = nearest === undefined ? Number.POSITIVE_INFINITY : distanceTo(nearest);
  const elsewhere = objects.flatMap((owner) =>
    owner.fields.filter((field) => distanceTo(field) === 0).map((field) => ({ owner, field })),
  );
  if (farthest > 0 && elsewhere.length > 0) {
    const inside = elsewhere.filter(({ owner }) => owner.path.join('.').startsWith(here.path.join('.')));
    const owners = (inside.length > 0 ? inside : elsewhere).map(({ owner, field }) =>
      [nameOf(owner.path, here.path), ...(field === name ? [] : [`as ${field}`])].join(', '),
    );
    return `unknown field; it belongs to ${[...new Set(owners)].join(' or ')}`;
  }
  return farthest <= name.length / 3 ? `unknown field; did you mean ${nearest}?` : undefined;
}

/** How many characters to insert, delete or replace (Levenshtein). */
function editDistance(one: string, other: string): number {
  // Distances of the first characters of `one` to each beginning of `other`.
  let distances = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [row, character] of Array.from(one).entries()) {
    let diagonal = row;
    let left = row + 1;
    distances = [
      left,
      ...distances.slice(1).map((above, column) => {
        left = Math.min(left + 1, above + 1, diagonal + (character === other[column] ? 0 : 1));
        diagonal = above;
        return left;
      }),
    ];
  }
  return distances.at(-1) ?? 0;
}

/** `since` for an object in `here`, otherwise `the service`, `tls of the service` or `bucket.lifecycle`. */
function nameOf(path: readonly string[], here: readonly string[]): string {
  const isInside = here.every((part, index) => path[index] === part);
  const relative = isInside ? path.slice(here.length) : path;
  const item = relative.lastIndexOf('*');
  const inItem = relative.slice(item + 1).join('.');
  const singular = item < 1 ? '' : `the ${relative[item - 1]?.replace(/s$/, '')}`;
  return [inItem, singular].filter((part) => part !== '').join(' of ') || 'the top level';
}
