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

describe('an edit of a mutant', () => {
  const source = `
    const other = () => call(1, 2);
    const outer = {
      inner: async () => {
        await call(1,
          2);
        await twice();
        await twice();
      },
    };`;
  const at = 'lib/file.ts#inner';

  it('changes the function that it names, wherever the formatter breaks lines', () => {
    expect(applyEdit(source, { at, replace: 'call(1, 2)', with: 'call()' })).toBe(
      source.replace(/1,\s+2(?=\);\n {8})/, ''),
    );
  });

  it.each([
    ['await once()', 'inner of lib/file.ts must contain this text once, not 0 times: await once()'],
    ['await twice()', 'inner of lib/file.ts must contain this text once, not 2 times: await twice()'],
  ])('is refused unless the function has the text once: %s', (replace, message) => {
    expect(() => applyEdit(source, { at, replace, with: '' })).toThrow(message);
  });

  it('is refused if there is no such function', () => {
    expect(() => applyEdit(source, { at: 'lib/file.ts#gone', replace: 'call', with: '' })).toThrow(
      'lib/file.ts has no function or constant gone. Name the one that does it now',
    );
  });
});
