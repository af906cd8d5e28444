/** Each mutant still applies: its function has the text that it replaces once. `npm run simulate:mutants` runs them. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { applyEdit, editsByFile, parse } from './mutants/apply-edit.ts';
import { mutants } from './mutants/mutants.ts';

const root = join(import.meta.dirname, '../..');

describe('the mutants of the protocol', () => {
  it('have unique names', () => {
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
  });

  it.each(mutants)('$name', (mutant) => {
    for (const [file, edits] of editsByFile(mutant)) {
      const source = readFileSync(join(root, file), 'utf8');
      expect(() => parse(edits.reduce(applyEdit, source))).not.toThrow();
    }
  });
});
