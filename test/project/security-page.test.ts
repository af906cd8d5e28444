/** Keeps docs/security.md true: the footnotes of each statement name tests that exist, or say why there is none. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sectionOf, textOf } from '../support/docs/doc-pages.ts';

const root = join(import.meta.dirname, '../..');
const page = 'docs/security.md';

const sections = [
  'If a role is compromised',
  'Who has permissions',
  'An attacker at the service',
  'An attacker in the network',
  'An attacker in the bucket or the table',
  'Compromised settings or dependencies',
  'Logs',
  'Secrets',
];

/** The list items of a section, each on one line. */
const statementsOf = (section: string): string[] =>
  [...sectionOf(page, 2, section).matchAll(/^- (.+(?:\n {2}.+)*)/gm)].map(([, item = '']) =>
    item.replaceAll(/\n +/g, ' '),
  );

const footnotes = new Map(
  [...textOf(page).matchAll(/^\[\^([\w-]+)\]: (.+)$/gm)].map(([, label = '', text = '']) => [label, text]),
);

/** What is wrong with the reference to a test: `` `test/cdk/x.test.ts`: "name" ``. */
function problemOf(reference: string): string | undefined {
  if (/^not tested: .{10,}/.test(reference)) return undefined;
  const [, path, name = ''] = /^`(test\/[^`]+)`: "(.+)"$/.exec(reference) ?? [];
  if (path === undefined) return `not a reference to a test: ${reference}`;
  if (!existsSync(join(root, path))) return `no such file: ${reference}`;
  const literals = [`'${name.replaceAll("'", "\\'")}'`, `"${name}"`, `\`${name}\``];
  const source = readFileSync(join(root, path), 'utf8');
  return literals.some((literal) => source.includes(literal)) ? undefined : `${path} has no test "${name}"`;
}

describe('docs/security.md', () => {
  const statements = sections.flatMap(statementsOf);
  const labelOf = (statement: string): string => /\.\[\^([\w-]+)\]$/.exec(statement)?.[1] ?? 'none';

  it('has a footnote at the end of each statement', () => {
    expect(statements.filter((statement) => !footnotes.has(labelOf(statement)))).toEqual([]);
    expect(new Set(statements.map(labelOf))).toEqual(new Set(footnotes.keys()));
  });

  it.each([...footnotes])('names a test in the footnote %s, or why there is none', (_, text) => {
    expect(text.split(/; (?=`|not tested)/).flatMap((reference) => problemOf(reference) ?? [])).toEqual([]);
  });
});
