/** What the schemas of the settings are made of. */

import * as z from 'zod/mini';
import type { JsonObject } from '../core/model.ts';

/** What is wrong, and where in the settings that are checked. */
export interface SettingsProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** What else docs/settings.md says of a field. */
interface FieldDetails {
  /** Of a number whose name does not say it. */
  readonly unit?: string;
  /** A valid value, where the type and the description do not suggest one. */
  readonly example?: unknown;
  /** Where the pages say more: `parallel-and-past.md#requirements`. */
  readonly page?: string;
}

/**
 * A field with its description, from which the JSON Schema of the settings file and docs/settings.md are generated. The last
 * sentence of an optional field may begin with `Without it, `: it is the default.
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

/**
 * An object of one of several kinds, which its field `discriminator` names. `explain` says why a kind that is often asked for does not
 * exist. A field that only other kinds have is reported by `parseWithRules`.
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

const withoutContinuation = z.check<unknown>(
  ({ issues }) => {
    for (const issue of issues) Object.assign(issue, { continue: false });
  },
  { when: () => true },
);

/** One of several forms, which have different fields. `problem` is reported if it is not clear which one is meant. */
export const oneFormOf = <const Forms extends readonly z.ZodMiniType[]>(forms: Forms, problem: string) =>
  // Zod would take the only form that has unknown fields and nothing else, whichever form is meant.
  z.union(forms.map((form) => form.check(withoutContinuation)) as unknown as Forms, {
    error: ({ input }) => (input === undefined ? `is required, and ${problem}` : problem),
  });

/** The fields that any of several kinds or forms of an object has. */
export type AnyOf<Kinds> = {
  readonly [Name in Kinds extends unknown ? keyof Kinds : never]?: Kinds extends unknown
    ? Name extends keyof Kinds
      ? Kinds[Name]
      : never
    : never;
};

/** The fields of an object; none of any other value. */
export const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};

/** The items of a list; none of any other value. */
export const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Of a URL. A request to it does not leave this machine. */
export const isLoopback = (hostname: string): boolean => /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/.test(hostname);

export const flag = () => z.boolean('must be true or false');

export const text = (pattern: RegExp, problem: string) => z.string().check(z.regex(pattern, problem));

/** A check by a function that returns what is wrong. */
export const withoutProblems = <Value>(find: (value: Value) => Iterable<SettingsProblem>) =>
  z.superRefine<Value>((value, context) => {
    for (const { path, message } of find(value)) context.addIssue({ code: 'custom', path: [...path], message });
  });

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
 * A JSON object whose fields only the service knows: a filter (docs/service-contract.md, section 2.1) or the body of a request. It reaches
 * the service unchanged, in the form in which it is read back from a store (-0 becomes 0), so that both compare
 * equal. `findMore` sees only such objects.
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

/** Stores, comparisons and JSON serialization recurse into the filter, so its depth is limited. */
const maxDepth = 32;
/** As JSON. The state of an export holds it twice, and a DynamoDB item at most 400 KB. */
const maxBytes = 65_536;
const maxProblems = 20;

/** Not recursive: the depth is not yet known. */
function findJsonProblems(object: unknown): readonly SettingsProblem[] {
  if (!isPlainObject(object)) return [{ path: [], message: 'must be a JSON object' }];
  const problems: SettingsProblem[] = [];
  const pending: { readonly path: SettingsProblem['path']; readonly value: unknown }[] = [{ path: [], value: object }];
  for (let next = pending.pop(); next !== undefined && problems.length < maxProblems; next = pending.pop()) {
    const { path, value } = next;
    if (path.length > maxDepth) {
      return [...problems, { path: path.slice(0, 3), message: `is nested deeper than ${maxDepth}` }];
    }
    if (Array.isArray(value)) {
      pending.push(...Array.from(value as unknown[], (item, index) => ({ path: [...path, index], value: item })));
    } else if (isPlainObject(value)) {
      // Copying an object would set its prototype instead of a field.
      if (Object.hasOwn(value, '__proto__')) problems.push({ path, message: 'must not have a field named __proto__' });
      for (const [name, item] of Object.entries(value)) {
        if (name !== '__proto__') pending.push({ path: [...path, name], value: item });
      }
    } else if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
      problems.push({ path, message: inexactNumber });
    } else if (!isScalar(value)) {
      problems.push({ path, message: 'must be JSON' });
    }
  }
  if (problems.length > 0) return problems;
  const bytes = Buffer.byteLength(JSON.stringify(object));
  return bytes <= maxBytes
    ? []
    : [{ path: [], message: `must be at most ${maxBytes} bytes of JSON, but has ${bytes}` }];
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

function isScalar(value: unknown): boolean {
  return value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
}
