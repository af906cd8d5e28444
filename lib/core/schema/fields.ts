/** What the schemas of the settings are made of. */

import * as z from 'zod/mini';
import type { JsonObject } from '../model.ts';
import { describeUnknownFields } from '../validation-errors.ts';

/** A problem, and its place in the settings. */
export interface SettingsProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** A rule that concerns several fields: where a problem is reported, whether there is one, and which. */
export type Rule = readonly [path: SettingsProblem['path'], isBroken: boolean, message: string];

export const findBroken = (rules: readonly Rule[]): SettingsProblem[] =>
  rules.flatMap(([path, isBroken, message]) => (isBroken ? [{ path, message }] : []));

/** The problems of what is at `path`. */
export const within = (path: SettingsProblem['path'], problems: readonly SettingsProblem[]): SettingsProblem[] =>
  problems.map((each) => ({ ...each, path: [...path, ...each.path] }));

/** What else docs/settings.md says of a field. */
interface FieldDetails {
  /** The unit of a number whose name does not say it. */
  readonly unit?: string;
  /** A valid value, where the type and the description do not suggest one. */
  readonly example?: unknown;
  /** Where the pages say more: `parallel-and-past.md#requirements`. */
  readonly page?: string;
}

/**
 * A field with its description, from which the JSON Schema of the settings file and docs/settings.md are generated. The
 * last sentence of an optional field may begin with `Without it, `: it is the default.
 */
export const field = <Schema extends z.ZodMiniType>(
  description: string,
  schema: Schema,
  details: FieldDetails = {},
): Schema => schema.check(z.meta({ description, ...details }));

export const optionalField = <Schema extends z.ZodMiniType>(
  description: string,
  schema: Schema,
  details?: FieldDetails,
) => field(description, z.optional(schema), details);

const secretName = /^((api|secret)[_-]?key|(client[_-]?)?secret|([a-z]+[_-]?)?token|pass(word|phrase)|credentials?)$/i;
const secretAdvice =
  'A secret does not belong in the settings, but in AWS Secrets Manager and, for runs on this machine, in the environment variable ' +
  'that apiKeyEnv names';

type Shape = Readonly<Record<string, z.ZodMiniType>>;

/** The error of an object with the fields of `shape`, which it lists for an unknown one. `orElse`: other problems. */
const fieldsError =
  (shape: Shape, orElse: (issue: z.core.$ZodRawIssue) => string | undefined = () => undefined) =>
  (issue: z.core.$ZodRawIssue): string | undefined => {
    if (issue.code !== 'unrecognized_keys') return orElse(issue);
    const keys = issue.keys as readonly string[];
    const known = Object.keys(shape).filter((name) => !name.startsWith('$'));
    const advice = keys.some((key) => secretName.test(key)) ? `. ${secretAdvice}` : '';
    return `${describeUnknownFields(keys)}. There ${known.length === 1 ? 'is' : 'are'} ${known.join(', ')}${advice}`;
  };

/** An object with these fields and no others. */
export const object = <Fields extends Shape>(
  fields: Fields,
  { error }: { readonly error?: (issue: z.core.$ZodRawIssue) => string | undefined } = {},
) => z.strictObject(fields, { error: fieldsError(fields, error) });

/**
 * An object of one of several kinds, which its field `discriminator` names. `explain` says why a kind that is often
 * asked for does not exist.
 */
export const oneKindOf = <
  const Kinds extends readonly [z.core.$ZodTypeDiscriminable, ...z.core.$ZodTypeDiscriminable[]],
>(
  discriminator: string,
  kinds: Kinds,
  explain: (kind: string) => string | undefined = () => undefined,
) =>
  z.discriminatedUnion(discriminator, kinds, {
    error: (issue) =>
      issue.code === 'invalid_union'
        ? (explain(String(fieldsOf(issue.input)[discriminator])) ??
          `must be one of ${(issue as { readonly options?: readonly string[] }).options?.join(', ')}`)
        : undefined,
  });

/** A value of one of several types of JSON. `problem` is reported if it has none of them. */
export const oneTypeOf = <const Types extends readonly z.ZodMiniType[]>(types: Types, problem: string) =>
  z.union(types, { error: ({ input }) => (input === undefined ? 'is required' : problem) });

/** An object with exactly one of these fields. */
export const exactlyOne = <Fields extends Shape>(fields: Fields) => {
  const names = Object.keys(fields);
  const optional = Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, z.optional(schema)]));
  const hasOne = z.refine<object>(
    (value) => Object.keys(value).length === 1,
    `must have exactly one of ${names.join(', ')}`,
  );
  const schema = object(optional).check(hasOne as never, z.meta({ minProperties: 1, maxProperties: 1 }));
  type One = { [Name in keyof Fields]: { readonly [Only in Name]: z.infer<Fields[Name]> } }[keyof Fields];
  return schema as unknown as z.ZodMiniType<One, One>;
};

/** The fields of an object; none of any other value. */
export const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};

/** Whether requests to this host of a URL stay on this machine. */
export const isLoopback = (hostname: string): boolean => /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/.test(hostname);

/** The problem of an address that a secret is sent to. `absent` are parts that it must not have: URLs are logged. */
export function httpsUrl(address: string, example: string, absent: readonly ('search' | 'hash')[]): string | undefined {
  const url = URL.parse(address);
  if (url === null) return `must be a URL, such as ${example}`;
  if (url.username !== '' || url.password !== '') return 'must not contain a user or password';
  if (absent.some((part) => url[part] !== '')) return 'must not contain a query or fragment';
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname))) return undefined;
  return 'must be https (http only to 127.0.0.1, [::1] or localhost): otherwise the secret would be sent unencrypted';
}

export const flag = () => z.boolean('must be true or false');

export const text = (pattern: RegExp, problem: string) => z.string().check(z.regex(pattern, problem));

/** A check by a function that returns what is wrong. */
export const withoutProblems = <Value>(find: (value: Value) => readonly SettingsProblem[]) =>
  z.superRefine<Value>((value, context) => {
    for (const { path, message } of find(value)) context.addIssue({ code: 'custom', path: [...path], message });
  });

/** A check of each entry of a record by a function that returns what is wrong, or undefined. */
export const validEntries = (find: (name: string, value: string, record: object) => string | undefined) =>
  withoutProblems<Readonly<Record<string, string>>>((record) =>
    Object.entries(record).flatMap(([name, value]) => {
      const message = find(name, value, record);
      return message === undefined ? [] : [{ path: [name], message }];
    }),
  );

/** Text for which `find` returns what is wrong, or undefined. It must not quote the text, which may be a secret. */
export const checkedText = (find: (text: string) => string | undefined) =>
  z.string().check(
    withoutProblems((value) => {
      const message = find(value);
      return message === undefined ? [] : [{ path: [], message }];
    }),
  );

export const wholeNumber = (min: number, max: number, problem = 'must be a whole number') =>
  z.int(problem).check(z.minimum(min, `must be at least ${min}`), z.maximum(max, `must be at most ${max}`));

/** The name of an environment variable whose value is a secret. */
export const variableName = (secret: string) =>
  text(
    /^[A-Za-z_][A-Za-z0-9_]{0,99}$/,
    `must be the name of an environment variable (letters, digits, underscores), not the ${secret}`,
  );

/**
 * A JSON object whose fields only the service knows: a filter (docs/service-contract.md, section 2.1) or the body of a
 * request. It reaches the service unchanged, in the form in which it is read back from a store (-0 becomes 0), so that
 * both compare equal. `findMore` sees only such objects.
 */
export const jsonObject = (findMore: (object: JsonObject) => readonly SettingsProblem[]) =>
  z.pipe(
    z.custom<JsonObject>().check(
      withoutProblems((value) => {
        const problems = findJsonProblems(value);
        return problems.length > 0 ? problems : findMore(value);
      }),
      z.meta({ type: 'object' }),
    ),
    z.transform((object: JsonObject) => JSON.parse(JSON.stringify(object)) as JsonObject),
  );

/** Stores, comparisons and JSON serialization recurse into the filter. */
const maxDepth = 32;
/** As JSON. The state of an export holds it twice, and a DynamoDB item at most 400 KB. */
const maxBytes = 65_536;
const maxProblems = 20;

function findJsonProblems(object: unknown): readonly SettingsProblem[] {
  if (!isPlainObject(object)) return [{ path: [], message: 'must be a JSON object' }];
  // In lazy steps: an object that contains itself has no end.
  const problems = [...jsonProblems(object, []).take(maxProblems)];
  if (problems.length > 0) return problems;
  const bytes = Buffer.byteLength(JSON.stringify(object));
  const message = `must be at most ${maxBytes} bytes of JSON, but has ${bytes}`;
  return bytes <= maxBytes ? [] : [{ path: [], message }];
}

function* jsonProblems(value: unknown, path: SettingsProblem['path']): Generator<SettingsProblem> {
  if (path.length > maxDepth) {
    yield { path: path.slice(0, 3), message: `is nested deeper than ${maxDepth}` };
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* jsonProblems(item, [...path, index]);
  } else if (isPlainObject(value)) {
    for (const [name, item] of Object.entries(value)) {
      // Copying an object would set its prototype instead of a field.
      if (name === '__proto__') yield { path, message: 'must not have a field named __proto__' };
      else yield* jsonProblems(item, [...path, name]);
    }
  } else if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
    yield { path, message: inexactNumber };
  } else if (value !== null && !['string', 'boolean'].includes(typeof value) && !Number.isFinite(value)) {
    yield { path, message: 'must be JSON' };
  }
}

/** JSON.parse rounds a larger number, so that the service would receive another one than was written. */
const inexactNumber =
  `must be a number from ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}: larger ones are rounded. ` +
  'If the service accepts it as a string, write it in quotes';

function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
