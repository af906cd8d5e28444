/** Runs histories until one violates an invariant. A child process of simulate-mutants.ts, with a mutant applied. */

import { runHistory } from '../histories/history.ts';

const [firstSeed = '0', maxHistories = '1', pages = '12'] = process.argv.slice(2);

let histories = 0;
let violation: object | undefined;
for (let seed = Number(firstSeed); histories < Number(maxHistories) && violation === undefined; seed += 1) {
  histories += 1;
  const history = await runHistory({ seed: String(seed), pages: Number(pages) });
  if (history.violation !== undefined) violation = { seed, ...history.violation };
}
process.stdout.write(`${JSON.stringify({ histories, violation })}\n`);
