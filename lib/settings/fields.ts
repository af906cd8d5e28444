/** What the schemas of the settings are made of. */

import * as z from 'zod/mini';

/** A field with its description, which is in the JSON Schema of the settings file, so that editors show it. */
export const field = <Schema extends z.ZodMiniType>(description: string, schema: Schema): Schema =>
  schema.check(z.describe(description));

export const optionalField = <Schema extends z.ZodMiniType>(description: string, schema: Schema) =>
  field(description, z.optional(schema));

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
