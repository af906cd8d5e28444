/** Makes histories of a broken protocol until one shows it; a child of `simulate-mutants.ts`. */

import { makeHistory } from '../histories/history.ts';

const [first = '0', most = '1', pages = '12'] = process.argv.slice(2);

let histories = 0;
let found: object | undefined;
for (let seed = Number(first); histories < Number(most) && found === undefined; seed += 1) {
  histories += 1;
  const { violation } = await makeHistory({ seed: String(seed), pages: Number(pages) });
  if (violation !== undefined) found = { seed, ...violation };
}
process.stdout.write(`${JSON.stringify({ histories, found })}\n`);
