/** Keeps docs/security.md true: the footnote of each statement names test files, or says why there are none. */

import { existsSync } from 'node:fs';
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

/** Whether the footnote names test files, or says why there are none. */
const isEvidence = (text: string): boolean =>
  /^not tested: .{10,}/.test(text) ||
  text.split(', ').every((file) => /^`test\/.+`$/.test(file) && existsSync(join(root, file.slice(1, -1))));

describe('docs/security.md', () => {
  const statements = sections.flatMap(statementsOf);
  const labelOf = (statement: string): string => /\.\[\^([\w-]+)\]$/.exec(statement)?.[1] ?? 'none';

  it('has a footnote at the end of each statement', () => {
    expect(statements.filter((statement) => !footnotes.has(labelOf(statement)))).toEqual([]);
    expect(new Set(statements.map(labelOf))).toEqual(new Set(footnotes.keys()));
  });

  it('names test files in each footnote, or says why there are none', () => {
    expect([...footnotes.values()].filter((text) => !isEvidence(text))).toEqual([]);
  });
});
