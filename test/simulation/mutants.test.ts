/** The mutants still break what they are said to break: their texts stand where they look for them. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mutants } from './mutants/mutants.ts';

const root = join(import.meta.dirname, '../..');

describe('the mutants of the protocol', () => {
  it('have names of their own', () => {
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
  });

  it.each(mutants)('$name', ({ edits }) => {
    const texts = new Map<string, string>();
    for (const { file, find, replace } of edits) {
      const text = texts.get(file) ?? readFileSync(join(root, file), 'utf8');
      expect(text.split(find), `${file} holds what is replaced once`).toHaveLength(2);
      texts.set(
        file,
        text.replace(find, () => replace),
      );
    }
  });
});
