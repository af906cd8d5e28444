/** Keeps docs/recipes complete: each file is explained on the page, says how to use it, and is tested. */

import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, it } from 'vitest';
import { textOf } from '../support/docs/doc-pages.ts';
import { recipe, recipeFiles } from '../support/docs/recipes.ts';

const root = join(import.meta.dirname, '../..');
const textOfRecipe = (file: string) => readFileSync(recipe(file), 'utf8');

it('each recipe is linked from the page', () => {
  expect(recipeFiles.length).toBeGreaterThan(15);
  const page = textOf('docs/recipes.md');
  expect(recipeFiles.filter((file) => !page.includes(`](recipes/${file})`))).toEqual([]);
});

it('each recipe is named in a test, or used by a recipe that is', () => {
  const tests = globSync('test/**/*.ts', { cwd: root, exclude: ['test/project/**'] })
    .map((file) => readFileSync(join(root, file), 'utf8'))
    .join('\n');
  const tested = recipeFiles.filter((file) => tests.includes(file));
  // './formats.js' in an import, or 'process-pages.ts' as the entry of a function.
  const namesOf = (file: string) => [`/${basename(file).replace(/ts$/, 'js')}'`, `'${basename(file)}'`];
  const isUsed = (file: string) =>
    tested.some((other) => namesOf(file).some((name) => textOfRecipe(other).includes(name)));
  expect(recipeFiles.filter((file) => !tested.includes(file) && !isUsed(file))).toEqual([]);
});
