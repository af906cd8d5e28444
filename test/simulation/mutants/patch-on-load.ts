/** Loaded before anything else: breaks what is loaded then in the way that the environment names. */

import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { mutants } from './mutants.ts';

const root = new URL('../../../', import.meta.url);
const mutant = mutants.find(({ name }) => name === process.env.MUTANT);
if (mutant === undefined) throw new Error(`there is no mutant ${JSON.stringify(process.env.MUTANT)}`);

const edits = Map.groupBy(mutant.edits, ({ file }) => new URL(file, root).href);

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const here = edits.get(url);
    if (here === undefined) return loaded;
    let text = Buffer.from(loaded.source as Uint8Array).toString();
    for (const { find, replace } of here) {
      const places = text.split(find).length - 1;
      if (places !== 1)
        throw new Error(`${fileURLToPath(url)} holds ${places} times what the mutant replaces: ${find}`);
      text = text.replace(find, () => replace);
    }
    return { ...loaded, source: text };
  },
});
