/** Parses by a schema, and names all problems at once. */

import type * as z from 'zod/mini';

export type Issue = z.core.$ZodIssue;

/** `data` is undefined if there are issues. */
export function parseAll<Schema extends z.ZodMiniType>(schema: Schema, value: unknown) {
  const { data, error } = schema.safeParse(value);
  return { data, issues: (error?.issues ?? []).flatMap(issuesOfType) };
}

/** The issues of the type that a value has, if it may have several. */
function issuesOfType(issue: Issue): readonly Issue[] {
  if (issue.code !== 'invalid_union') return [issue];
  const isOtherType = ({ code, path }: Issue) =>
    path.length === 0 && (code === 'invalid_type' || code === 'invalid_value');
  const [fitting, ...others] = issue.errors.filter((issues) => !issues.some(isOtherType));
  if (fitting === undefined || others.length > 0) return [issue];
  return fitting.flatMap((each) => issuesOfType({ ...each, path: [...issue.path, ...each.path] }));
}
