/** Loaded with `--import`: applies the mutant named by the environment variable MUTANT to the modules as they are loaded. */

import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { mutants } from './mutants.ts';

const root = new URL('../../../', import.meta.url);
const mutant = mutants.find(({ name }) => name === process.env.MUTANT);
if (mutant === undefined) throw new Error(`There is no mutant ${JSON.stringify(process.env.MUTANT)}`);

const edits = Map.groupBy(mutant.edits, ({ file }) => new URL(file, root).href);

registerHooks({
  load(url, context, nextLoad) {
    const module = nextLoad(url, context);
    const fileEdits = edits.get(url);
    if (fileEdits === undefined) return module;
    let source = Buffer.from(module.source as Uint8Array).toString();
    for (const { find, replace } of fileEdits) {
      const count = source.split(find).length - 1;
      if (count !== 1) {
        throw new Error(`${fileURLToPath(url)} must contain this text once, not ${count} times: ${find}`);
      }
      source = source.replace(find, () => replace);
    }
    return { ...module, source };
  },
});
