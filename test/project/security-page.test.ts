/** Keeps docs/security.md true: each statement names a test that exists, or says why there is none. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { textOf } from '../support/docs/doc-pages.ts';

const root = join(import.meta.dirname, '../..');

/** The rows of all tables whose last column is "Test". */
function statementsIn(markdown: string): { statement: string; tests: string }[] {
  const tables = markdown.split(/\n{2,}/).filter((block) => /^\|.*\| Test \|$/m.test(block.split('\n')[0] ?? ''));
  return tables.flatMap((table) =>
    table
      .trim()
      .split('\n')
      .slice(2)
      .map((line) => {
        const cells = line.replace(/^\| | \|$/g, '').split(' | ');
        return { statement: cells[0] ?? '', tests: cells.slice(1).join(' | ') };
      }),
  );
}

/** What is wrong with the reference to a test: `[cdk/x.test.ts](../test/cdk/x.test.ts): "name"`. */
function problemOf(reference: string): string | undefined {
  if (/^not tested: .{10,}/.test(reference)) return undefined;
  const [, label, path = '', name = ''] = /^\[([^\]]+)\]\(\.\.\/(test\/[^)]+)\): "(.+)"$/.exec(reference) ?? [];
  if (label === undefined) return `not a reference to a test: ${reference}`;
  if (`test/${label}` !== path || !existsSync(join(root, path))) return `no such file: ${reference}`;
  const literals = [`'${name.replaceAll("'", "\\'")}'`, `"${name}"`, `\`${name}\``];
  const source = readFileSync(join(root, path), 'utf8');
  return literals.some((literal) => source.includes(literal)) ? undefined : `${path} has no test "${name}"`;
}

const referencesOf = (tests: string): string[] => tests.split(/; (?=\[|not tested)/);

describe('docs/security.md', () => {
  const statements = statementsIn(textOf('docs/security.md'));

  it('has statements about every kind of attacker', () => {
    expect(statements.length).toBeGreaterThan(50);
  });

  it.each(statements)('names a test, or why there is none: $statement', ({ statement, tests }) => {
    expect(statement.length).toBeGreaterThan(20);
    expect(referencesOf(tests).flatMap((reference) => problemOf(reference) ?? [])).toEqual([]);
  });

  it.each([
    ['', 'not a reference to a test'],
    ['not tested: no', 'not a reference to a test'],
    ['[a.test.ts](../test/a.test.ts): "a name"', 'no such file'],
    ['[project/security-page.test.ts](../test/project/docs.test.ts): "start with a short README"', 'no such file'],
    ['[project/docs.test.ts](../test/project/docs.test.ts): "start with a short"', 'has no test "start with a short"'],
  ])('would be rejected with the reference %j', (reference, problem) => {
    expect(problemOf(reference)).toContain(problem);
  });
});
