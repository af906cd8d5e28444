/**
 * The plan of a run whose parents are reports of another export: each parent once, in the order of these reports. The
 * number of a parent is that of its slice.
 */

import { ExportError } from '../errors.ts';
import type { ExportedParents, Instant } from '../model.ts';
import type { ReportValues } from '../ports.ts';
import { isSelected, pathsOf, problemOfParent } from './values.ts';

/** A parent: one slice of the run. */
export interface Parent {
  /** The value of `{parent}`. */
  readonly id: string;
  /** The values of `{parent.NAME}`. */
  readonly also?: Readonly<Record<string, string>> | undefined;
  /** Up to where completed runs have its children, if chains begin where their parents are covered. */
  readonly covered?: Instant | undefined;
  /** Where its chain begins, which follows from `covered`, so it is not stored. Absent: with the run. */
  readonly since?: Instant | undefined;
}

/** What distinguishes parents. */
export const keyOf = ({ id, also }: Parent): string => JSON.stringify({ id, also });

export const maxParents = 100_000;
const maxPlanBytes = 32 * 1024 * 1024;

/** A report: its values at the paths of the parents. Messages name its place, as they must not have values. */
export interface PlacedReport {
  readonly values: ReportValues;
  readonly place: string;
}

/**
 * The parents among the reports, each once.
 * @throws ContractError if one has no ID, or no report has anything at one of the paths; ConfigurationError if there
 *   are too many
 */
export async function* findParents(
  parents: ExportedParents,
  reports: AsyncIterable<PlacedReport>,
): AsyncGenerator<Parent> {
  const paths = pathsOf(parents);
  const found = new Set<string>();
  /** The paths at which no report has had anything so far. */
  const missing = new Set(paths);
  let count = 0;
  let bytes = 0;
  for await (const { values, place } of reports) {
    count += 1;
    paths.forEach((path, index) => {
      if (values[index] !== undefined) missing.delete(path);
    });
    const valueAt = (path: string) => values[paths.indexOf(path)];
    if (!isSelected(parents.where, valueAt)) continue;
    const parent = parentIn(parents, valueAt, place);
    const key = keyOf(parent);
    if (found.has(key)) continue;
    found.add(key);
    bytes += Buffer.byteLength(key);
    if (found.size > maxParents) throw tooManyError(parents, `${maxParents.toLocaleString('en')} parents`);
    if (bytes > maxPlanBytes) throw tooManyError(parents, '32 MiB of parents');
    yield parent;
  }
  const [path] = missing;
  if (path === undefined || count === 0) return;
  const none = `None of ${count.toLocaleString('en')} reports has anything at ${path}, which parents name`;
  throw unknownParents(parents, none);
}

function parentIn(parents: ExportedParents, valueAt: (path: string) => ReportValues[number], place: string): Parent {
  const textAt = (path: string, name: string): string => {
    const value = valueAt(path);
    const isText = value?.type === 'string' || value?.type === 'number';
    const isInHeader = parents.inHeaders.includes(name);
    const problem = isText ? problemOfParent(value.text, isInHeader) : 'must be a text or a number';
    if (isText && problem === undefined) return value.text;
    const subject = path === '' ? 'The text' : `The value at ${path}`;
    throw unknownParents(parents, `${subject} of ${place}, which is {${name}}, ${problem}`);
  };
  const id = textAt(parents.id, 'parent');
  // Coverage must not depend on the order in the settings.
  const also = Object.entries(parents.also).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return { id, also: Object.fromEntries(also.map(([name, path]) => [name, textAt(path, `parent.${name}`)])) };
}

export const tooManyError = ({ export: name }: ExportedParents, limit: string): ExportError =>
  new ExportError(
    'ConfigurationError',
    `Export ${name} has more than ${limit}, too many for one run with their children. Divide them among several exports, ` +
      'by filters of their own or by parents.where',
  );

const unknownParents = ({ export: name }: ExportedParents, reason: string): ExportError =>
  new ExportError(
    'ContractError',
    `${reason}. So the parents in export ${name} are not known, and nothing is requested. Correct parents in the settings; ` +
      'where excludes reports without a value',
  );
