/** The same cases every time: what fails here fails everywhere. `FUZZ_SEED=$RANDOM npm test` looks for new ones. */

import fc from 'fast-check';

fc.configureGlobal({ seed: Number(process.env.FUZZ_SEED ?? 20_261_120) });
