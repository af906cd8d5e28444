/** Each mutant replaces functions that exist. `npm run simulate:mutants` runs them. */

import { expect, it } from 'vitest';
import { mutants } from './mutants/mutants.ts';

it('have unique names', () => {
  expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
});

it.each([...new Set(mutants.flatMap(({ faults }) => faults.map(({ at }) => at)))])('%s is a function', async (at) => {
  const [file = '', name = ''] = at.split('#');
  const exported = (await import(new URL(`../../${file}`, import.meta.url).href)) as Record<string, unknown>;
  expect(exported[name]).toBeTypeOf('function');
});
