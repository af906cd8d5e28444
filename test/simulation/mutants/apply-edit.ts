/** Changes the source of one function, so that the rest of its file can change without a mutant noticing. */

import { parseSync, Visitor } from 'oxc-parser';

export interface Edit {
  /** A function or a constant, at any depth of a file relative to the root of the repository: `lib/file.ts#name`. */
  readonly at: string;
  /** Occurs there once. White space does not count. */
  readonly replace: string;
  readonly with: string;
}

/** Each file is relative to the root of the repository. */
export const editsByFile = ({ also = [], ...edit }: Edit & { readonly also?: readonly Edit[] }) =>
  Map.groupBy([edit, ...also], (each) => targetOf(each).file);

function targetOf({ at }: Edit): { readonly file: string; readonly name: string } {
  const [file = '', name = ''] = at.split('#');
  return { file, name };
}

/** @throws Error that says what to correct, unless the replaced text occurs once in what the edit names */
export function applyEdit(source: string, edit: Edit): string {
  const { file, name } = targetOf(edit);
  const ranges = rangesOf(source, name);
  if (ranges.length === 0)
    throw new Error(`${file} has no function or constant ${name}. Name the one that does it now`);
  const matches = source
    .matchAll(ignoringWhiteSpace(edit.replace))
    .map(({ index, 0: text }) => ({ start: index, end: index + text.length }))
    .filter(({ start, end }) => ranges.some((range) => range.start <= start && end <= range.end))
    .toArray();
  const [match] = matches;
  if (match === undefined || matches.length > 1) {
    throw new Error(`${name} of ${file} must contain this text once, not ${matches.length} times: ${edit.replace}`);
  }
  return source.slice(0, match.start) + edit.with + source.slice(match.end);
}

function rangesOf(source: string, name: string): readonly { readonly start: number; readonly end: number }[] {
  const ranges: { readonly start: number; readonly end: number }[] = [];
  const add = (node: { readonly start: number; readonly end: number }, id: object | null) => {
    if (id !== null && 'name' in id && id.name === name) ranges.push(node);
  };
  new Visitor({
    FunctionDeclaration: (node) => add(node, node.id),
    VariableDeclarator: (node) => add(node, node.id),
    Property: (node) => {
      if (/Function/.test(node.value.type)) add(node, node.key);
    },
  }).visit(parse(source));
  return ranges;
}

/** @throws Error if `source` is no TypeScript */
export function parse(source: string) {
  const { program, errors } = parseSync('source.ts', source);
  if (errors[0] !== undefined) throw new Error(errors[0].codeframe ?? errors[0].message);
  return program;
}

const ignoringWhiteSpace = (text: string): RegExp =>
  new RegExp((text.match(/\S/gu) ?? []).map((character) => RegExp.escape(character)).join(String.raw`\s*`), 'g');
