/** Each mutant still applies: the text that it replaces occurs once in its file. `npm run simulate:mutants` runs them. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mutants } from './mutants/mutants.ts';

const root = join(import.meta.dirname, '../..');

describe('the mutants of the protocol', () => {
  it('have unique names', () => {
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
  });

  it.each(mutants)('$name', ({ edits }) => {
    const sources = new Map<string, string>();
    for (const { file, find, replace } of edits) {
      const source = sources.get(file) ?? readFileSync(join(root, file), 'utf8');
      expect(source.split(find), `${file} contains the replaced text once`).toHaveLength(2);
      sources.set(
        file,
        source.replace(find, () => replace),
      );
    }
  });
});
