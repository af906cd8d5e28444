/** Loaded with `--import`: applies the mutant in the environment variable MUTANT to modules as they are loaded. */

import { registerHooks } from 'node:module';
import { applyEdit, editsByFile } from './apply-edit.ts';
import { mutants } from './mutants.ts';

const root = new URL('../../../', import.meta.url);
const mutant = mutants.find(({ name }) => name === process.env.MUTANT);
if (mutant === undefined) throw new Error(`There is no mutant ${JSON.stringify(process.env.MUTANT)}`);

const edits = new Map([...editsByFile(mutant)].map(([file, edits]) => [new URL(file, root).href, edits]));

registerHooks({
  load(url, context, nextLoad) {
    const module = nextLoad(url, context);
    const source = edits.get(url)?.reduce(applyEdit, Buffer.from(module.source as Uint8Array).toString());
    return source === undefined ? module : { ...module, source };
  },
});
