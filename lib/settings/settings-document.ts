/** Where settings come from: a value in the context of a CDK app, or a file, in which each problem has a line. */

import { parse as parsePositions } from '@humanwhocodes/momoa';
import type * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { formatPath, problemLines } from '../core/validation-errors.ts';
import { readTextFile } from './text-file.ts';

type Issue = z.core.$ZodIssue;

export interface SettingsDocument {
  readonly value: unknown;
  /** A line for each issue: where it is, its path in the settings, and what is wrong. */
  readonly describe: (issues: readonly Issue[]) => string[];
}

/** `subject` names the place, such as `cdk.json`, and `path` leads from there to the value. */
export function valueDocument(value: unknown, subject: string, path: readonly string[] = []): SettingsDocument {
  return {
    value,
    describe: (issues) =>
      problemLines(
        subject,
        issues.map((issue) => ({ ...issue, path: [...path, ...issue.path] })),
      ),
  };
}

/** The settings file `path`. @throws ConfigurationError if it cannot be read, is no JSON, or has a field twice */
export function fileDocument(path: string): SettingsDocument {
  const file = truncate(toPrintable(path), 200);
  const text = readTextFile(path, `${file}:`);
  const value = parseJson(text, `${file}:`);
  const lines = new Map<string, number>();
  const problems = findLines(text, lines);
  if (problems.length > 0)
    throw new ExportError('ConfigurationError', problems.map((each) => `${file}:${each}`).join('\n'));
  const place = (issue: Issue) => (lines.size === 0 ? '' : `:${lineOf(issue, lines)}`);
  return { value, describe: (issues) => problemLines(file, issues, place) };
}

/** Parses JSON text that `subject` names. @throws ConfigurationError with line and column */
export function parseJson(text: string, subject: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const reason = (error as Error).message.replace(/( in JSON)? at position \d+.*$|, .* is not valid JSON$/s, '');
    const position = positionOfError(text);
    throw new ExportError(
      'ConfigurationError',
      position === undefined
        ? `${subject.replace(/:$/, '')} is not valid JSON: ${toPrintable(reason)}`
        : `${subject}${position} is not valid JSON: ${toPrintable(reason)}. Correct it there or just before`,
    );
  }
}

/** From another parser: whether the message of JSON.parse has a position depends on the problem. */
function positionOfError(text: string): string | undefined {
  try {
    parsePositions(text, { mode: 'json' });
    return undefined;
  } catch (error) {
    const { line, column } = error as { line?: number; column?: number };
    return line === undefined || column === undefined ? undefined : `${line}:${column}`;
  }
}

type Node = ReturnType<typeof parsePositions>['body'];

/**
 * Sets the line of each path, and returns where an object has a field twice, or `__proto__`, of at most a hundred:
 * JSON.parse ignores the first one, which may be a whole service, and the schema the other. There are no lines for JSON
 * that is nested too deeply for the parser.
 */
function findLines(text: string, lines: Map<string, number>): readonly string[] {
  const problems: string[] = [];
  const visit = (path: readonly (string | number)[], line: number, node: Node): void => {
    const key = JSON.stringify(path);
    const first = lines.get(key);
    if (first !== undefined) {
      if (problems.length < 100) problems.push(`${line} ${formatPath(path)}: is already set on line ${first}`);
      return;
    }
    if (path.at(-1) === '__proto__' && problems.length < 100) {
      problems.push(`${line} ${formatPath(path)}: cannot be the name of a field. Remove it, or use another name`);
    }
    lines.set(key, line);
    if (node.type === 'Array') {
      for (const [index, { loc, value }] of node.elements.entries()) visit([...path, index], loc.start.line, value);
    } else if (node.type === 'Object') {
      for (const { loc, name, value } of node.members) {
        visit([...path, name.type === 'String' ? name.value : name.name], loc.start.line, value);
      }
    }
  };
  try {
    const { body } = parsePositions(text, { mode: 'json' });
    visit([], body.loc.start.line, body);
  } catch {
    lines.clear();
  }
  return problems;
}

/** The line of the field, or of the object that lacks it. */
function lineOf(issue: Issue, lines: ReadonlyMap<string, number>): number {
  let path = issue.code === 'unrecognized_keys' ? [...issue.path, ...issue.keys.slice(0, 1)] : issue.path;
  for (; path.length > 0; path = path.slice(0, -1)) {
    const line = lines.get(JSON.stringify(path));
    if (line !== undefined) return line;
  }
  return lines.get('[]') ?? 1;
}
