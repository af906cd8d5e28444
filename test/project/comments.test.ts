/** Comments fit in a line of 120 characters, and no comment switches off the limits of functions. */

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const maxLength = 120;
const linesOf = (folder: string) =>
  globSync(`${folder}/**/*.{ts,mjs,js}`, { cwd: root, exclude: ['**/node_modules'] }).flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .map((text, index) => ({ text, place: `${file}:${index + 1}` })),
  );

it.each(['lib', 'bin', 'functions', 'test', 'bench'])('comments in %s have at most 120 characters a line', (folder) => {
  const wide = linesOf(folder).filter(({ text }) => /^\s*(\*|\/[/*])/.test(text) && text.length > maxLength);
  expect(wide.map(({ place }) => place)).toEqual([]);
});

it('no comment switches off the limits of functions', () => {
  const disabled = ['lib', 'functions', 'bin'].flatMap(linesOf).filter(({ text }) => {
    const [, rules = ''] = /oxlint-disable(.*)/.exec(text) ?? [];
    return /max-lines|complexity|max-params|^\s*(\*\/)?$/.test(rules) && text.includes('oxlint-disable');
  });
  expect(disabled.map(({ place }) => place)).toEqual([]);
});
