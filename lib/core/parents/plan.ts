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
  /** Only if chains begin where their parents are covered: up to where completed runs have its children. */
  readonly covered?: Instant | undefined;
  /** Where its chain begins. Absent: with the run. */
  readonly since?: Instant | undefined;
}

export const maxParents = 100_000;
const maxPlanBytes = 32 * 1024 * 1024;
/** How many parents a part of the plan has; the last one has fewer. */
export const parentsPerPart = 2_000;

/** Collects the parents, report by report. */
export function createPlan(parents: ExportedParents) {
  const { id: idAt, also, where, inHeaders } = parents;
  // Coverage must not depend on the order in the settings.
  const alsoByName = Object.entries(also).toSorted(([one], [other]) => (one < other ? -1 : 1));
  const paths = pathsOf(parents);
  const found = new Set<string>();
  /** The paths at which no report has had anything so far. */
  const missing = new Set(paths);
  /** The error of the first report that lacks a value. It tells what is wrong once all reports are read. */
  let incomplete: { readonly path: string; readonly error: ExportError } | undefined;
  let reports = 0;
  let bytes = 0;

  /** `place` names the report in messages, which must not have its values. */
  function parentIn(valueAt: (path: string) => ReportValues[number], place: string): Parent {
    const textAt = (path: string, name: string): string => {
      const value = valueAt(path);
      const isText = value?.type === 'string' || value?.type === 'number';
      const problem = isText ? problemOfParent(value.text, inHeaders.includes(name)) : 'must be a text or a number';
      if (isText && problem === undefined) return value.text;
      const subject = path === '' ? 'The text' : `The value at ${path}`;
      const error = problemError('ContractError', parents, `${subject} of ${place}, which is {${name}}, ${problem}`);
      if (value !== undefined) throw error;
      // If all reports lack it, the path is wrong, not this report.
      incomplete ??= { path, error };
      return '';
    };
    const id = textAt(idAt, 'parent');
    const values = alsoByName.map(([name, path]) => [name, textAt(path, `parent.${name}`)] as const);
    return values.length === 0 ? { id } : { id, also: Object.fromEntries(values) };
  }

  return {
    paths,
    /** @throws ContractError if the report is a parent without an ID; ConfigurationError if there are too many */
    add(values: ReportValues, place: string): void {
      reports += 1;
      paths.forEach((path, index) => {
        if (values[index] !== undefined) missing.delete(path);
      });
      const valueAt = (path: string) => values[paths.indexOf(path)];
      if (!isSelected(where, valueAt)) return;
      const line = `${JSON.stringify(parentIn(valueAt, place))}\n`;
      if (incomplete !== undefined || found.has(line)) return;
      found.add(line);
      bytes += Buffer.byteLength(line);
      if (found.size > maxParents) throw tooManyError(parents, `${maxParents.toLocaleString('en')} parents`);
      if (bytes > maxPlanBytes) throw tooManyError(parents, '32 MiB of parents');
    },
    /** The first line. Undefined: no report is a parent so far. */
    first(): string | undefined {
      if (incomplete !== undefined && !missing.has(incomplete.path)) throw incomplete.error;
      return found.values().next().value;
    },
    /**
     * The lines.
     * @throws ConfigurationError if no report has anything at one of the paths; ContractError if only some lack a value
     */
    lines(): readonly string[] {
      const [path] = missing;
      if (path !== undefined && reports > 0) {
        throw problemError(
          'ConfigurationError',
          parents,
          `None of ${reports.toLocaleString('en')} reports has anything at ${path}, which parents name`,
        );
      }
      if (incomplete !== undefined) throw incomplete.error;
      return [...found];
    },
  };
}

const tooManyError = ({ export: name }: ExportedParents, limit: string): ExportError =>
  new ExportError(
    'ConfigurationError',
    `Export ${name} has more than ${limit}. Select fewer with parents.where, in several exports`,
  );

const problemError = (
  error: 'ContractError' | 'ConfigurationError',
  { export: name }: ExportedParents,
  reason: string,
): ExportError =>
  new ExportError(
    error,
    `${reason}. So the parents in export ${name} are not known, and nothing is requested. Correct parents in the settings; ` +
      'where excludes reports without a value',
  );
