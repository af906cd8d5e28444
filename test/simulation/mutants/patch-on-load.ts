/** Loaded with `--import`: replaces what the mutant in the environment variable MUTANT names, as modules are loaded. */

import { registerHooks } from 'node:module';
import type { Fault } from './fault.ts';
import { mutants } from './mutants.ts';

const root = new URL('../../../', import.meta.url);
const mutant = mutants.find(({ name }) => name === process.env.MUTANT);
if (mutant === undefined) throw new Error(`There is no mutant ${JSON.stringify(process.env.MUTANT)}`);

/** By the address of the module. */
const faults = Map.groupBy(mutant.faults, ({ at }) => new URL(at.replace(/#.*/, ''), root).href);
const nameOf = ({ at }: Fault): string => at.replace(/.*#/, '');

/** Called by the modules that replace a function. */
export const replaced = (url: string, name: string, real: unknown): unknown =>
  (faults.get(url) ?? [])
    .filter((fault) => nameOf(fault) === name)
    .reduce((before, { replace }) => replace(before as never), real);

registerHooks({
  load(url, context, nextLoad) {
    const names = [...new Set(faults.get(url)?.map(nameOf))];
    if (names.length === 0) return nextLoad(url, context);
    const real = JSON.stringify(`${url}?real`);
    const source = `import { replaced } from ${JSON.stringify(import.meta.url)};
      import * as real from ${real};
      export * from ${real};
      ${names.map((name) => `export const ${name} = replaced(${JSON.stringify(url)}, '${name}', real.${name});`).join('\n')}`;
    return { format: 'module', shortCircuit: true, source };
  },
});
