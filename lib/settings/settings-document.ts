/** Where settings come from: a value in the context of a CDK app, or a file, in which each problem has a line. */

import { parse as parsePositions } from '@humanwhocodes/momoa';
import type * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { whyUnreadable } from './text-file.ts';
import { formatPath, problemLines } from '../core/validation-errors.ts';

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

/**
 * The settings file `path`, whose text `read` returns.
 * @throws ConfigurationError if it cannot be read, is not JSON, or has a field twice
 */
export function fileDocument(path: string, read: (path: string) => string): SettingsDocument {
  const file = truncate(toPrintable(path), 200);
  const text = readText(file, () => read(path));
  const value = parseJson(text, `${file}:`);
  const root = positionsIn(text);
  const duplicates = root === undefined ? [] : findDuplicates(root);
  if (duplicates.length > 0) {
    const lines = duplicates.map(
      ({ path: field, line, first }) => `${file}:${line} ${formatPath(field)}: is already set on line ${first}`,
    );
    throw new ExportError('ConfigurationError', lines.slice(0, 100).join('\n'));
  }
  return {
    value,
    describe: (issues) => problemLines(file, issues, (issue) => (root === undefined ? '' : `:${lineOf(root, issue)}`)),
  };
}

/** Parses JSON text that `subject` names. @throws ConfigurationError with line and column */
export function parseJson(text: string, subject: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ExportError('ConfigurationError', describeSyntaxError(text, subject, error));
  }
}

function readText(file: string, read: () => string): string {
  try {
    // Some editors begin a file with a byte order mark.
    return read().replace(/^\uFEFF/, '');
  } catch (error) {
    throw new ExportError('ConfigurationError', `${file}: ${whyUnreadable(error)}`);
  }
}

/** The position comes from another parser: whether the message of JSON.parse has one depends on the problem. */
function describeSyntaxError(text: string, subject: string, error: unknown): string {
  const reason = (error as Error).message.replace(/( in JSON)? at position \d+.*$|, .* is not valid JSON$/s, '');
  try {
    parsePositions(text, { mode: 'json' });
  } catch (found) {
    const { line, column } = found as { line?: number; column?: number };
    if (line !== undefined && column !== undefined) {
      return `${subject}${line}:${column} is not valid JSON: ${toPrintable(reason)}. Correct it there or just before`;
    }
  }
  return `${subject.replace(/:$/, '')} is not valid JSON: ${toPrintable(reason)}`;
}

type Node = ReturnType<typeof parsePositions>['body'];

/** Undefined for JSON that is nested too deeply for the parser. Its problems are reported without lines. */
function positionsIn(text: string): Node | undefined {
  try {
    return parsePositions(text, { mode: 'json' }).body;
  } catch {
    return undefined;
  }
}

type Member = Extract<Node, { readonly type: 'Object' }>['members'][number];
const nameOf = ({ name }: Member): string => (name.type === 'String' ? name.value : name.name);

/** The line of the field, or of the object that lacks it. */
function lineOf(root: Node, issue: Issue): number {
  const path = issue.code === 'unrecognized_keys' ? [...issue.path, ...issue.keys.slice(0, 1)] : issue.path;
  let { line } = root.loc.start;
  let node: Node | undefined = root;
  for (const key of path) {
    const found: { readonly loc: Node['loc']; readonly value: Node } | undefined =
      node.type === 'Object'
        ? node.members.find((member) => nameOf(member) === key)
        : node.type === 'Array'
          ? node.elements[Number(key)]
          : undefined;
    if (found === undefined) return line;
    line = found.loc.start.line;
    node = found.value;
  }
  return line;
}

interface Duplicate {
  readonly path: readonly (string | number)[];
  readonly line: number;
  readonly first: number;
}

/** Fields that an object has twice. JSON.parse ignores the first of them, which may be a whole service. */
function findDuplicates(root: Node): Duplicate[] {
  const duplicates: Duplicate[] = [];
  const pending: { readonly path: Duplicate['path']; readonly node: Node }[] = [{ path: [], node: root }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { path, node } = next;
    if (node.type === 'Array') {
      pending.push(...node.elements.map(({ value }, index) => ({ path: [...path, index], node: value })));
    }
    if (node.type !== 'Object') continue;
    const lines = new Map<string, number>();
    for (const member of node.members) {
      const name = nameOf(member);
      const { line } = member.loc.start;
      const first = lines.get(name);
      if (first === undefined) lines.set(name, line);
      else duplicates.push({ path: [...path, name], line, first });
      pending.push({ path: [...path, name], node: member.value });
    }
  }
  return duplicates.toSorted((one, other) => one.line - other.line);
}
