/** What the schemas of the settings are made of. */

import * as z from 'zod/mini';

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

/** The fields of an object; none of any other value. */
export const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};

/** The items of a list; none of any other value. */
export const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Of a URL. A request to it does not leave this machine. */
export const isLoopback = (hostname: string): boolean => /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/.test(hostname);

export const flag = () => z.boolean('must be true or false');

export const text = (pattern: RegExp, problem: string) => z.string().check(z.regex(pattern, problem));

/** Text for which `find` returns what is wrong, or undefined. It must not quote the text, which may be a secret. */
export const checkedText = (find: (text: string) => string | undefined) =>
  z.string().check(
    z.superRefine((value, context) => {
      const message = find(value);
      if (message !== undefined) context.addIssue({ code: 'custom', message });
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
