/** The values of `{parent}`: which are valid, and which reports have one. */

import type { ExportedParents, ReportCondition } from '../model.ts';
import type { ReportValue, ReportValues } from '../ports.ts';

const maxLength = 1_000;
const printable = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;

/** Why requests must not have the value; undefined if they may. It must lead to the path that the description has. */
export function problemOfParent(value: string, isInHeader = false): string | undefined {
  if (value === '') return 'must not be empty';
  if (value.length > maxLength) return `must have at most ${maxLength.toLocaleString('en')} characters`;
  if (/\p{Cc}/u.test(value)) return 'must not have control characters';
  if (!value.isWellFormed()) return 'must be Unicode: it has half of a surrogate pair';
  if (value.split('/').some((part) => part === '.' || part === '..'))
    return 'must not be . or .., nor have it between slashes: the request would lead to another path';
  return isInHeader && !printable.test(value)
    ? 'must be printable ASCII without spaces around it, as a header has it'
    : undefined;
}

/** The paths of `parents` in a report: of the ID, of each of `also`, and of the conditions. */
export const pathsOf = ({ id, also, where }: ExportedParents): readonly string[] => [
  ...new Set([id, ...Object.values(also), ...where.map(({ at }) => at)]),
];

/** Whether the report is a parent: any of the conditions holds, or there is none. */
export function isSelected(
  where: readonly ReportCondition[],
  valueAt: (path: string) => ReportValues[number],
): boolean {
  return where.length === 0 || where.some((condition) => holds(condition, valueAt(condition.at)));
}

/** A value that is missing is null. */
function holds({ is, not = null }: ReportCondition, value: ReportValue | undefined): boolean {
  const isNothing = value === undefined || value.type === 'null';
  const expected = [is ?? not].flat();
  const isOneOf = expected.some((each) => (each === null ? isNothing : !isNothing && value.text === String(each)));
  return is === undefined ? !isOneOf : isOneOf;
}
