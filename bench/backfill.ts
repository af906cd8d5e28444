/** The past of an export in a directory, walked with one cursor, and by windows in parallel. */

import {
  type Benchmark,
  figureOf,
  formatNumber,
  formatRatio,
  formatSpread,
  measureRounds,
  ratioOf,
} from './harness/benchmark.ts';
import { createOutputFolders } from './harness/output-folders.ts';
import { measureContender, type ProcessFigures, startPageService } from './harness/processes.ts';

const oneWalk = 'one walk';

const fullCase = { latencyMs: 200, windows: 64, pagesPerWindow: 16, parallels: [1, 2, 4, 8, 16] };
const quickCase = { latencyMs: 5, windows: 4, pagesPerWindow: 2, parallels: [2] };

export const backfill: Benchmark = {
  name: 'backfill',
  title: 'A backfill with windows in parallel, in a directory',
  async run(options) {
    const { latencyMs, windows, pagesPerWindow, parallels } = options.quick ? quickCase : fullCase;
    const pages = windows * pagesPerWindow;
    const common = { pageBytes: 100_000, latencyMs, filters: true };
    await using whole = await startPageService({ ...common, pages });
    await using window = await startPageService({ ...common, pages: pagesPerWindow });
    await using outputs = await createOutputFolders();
    const contenders = [
      {
        name: oneWalk,
        measure: async () => await measureContender(['local-export.ts', whole.baseUrl, await outputs.next()], pages),
      },
      ...parallels.map((parallel) => ({
        name: `${parallel}`,
        async measure() {
          const args = [window.baseUrl, await outputs.next(), `${parallel}`, `${windows}`];
          return await measureContender(['local-backfill.ts', ...args], pages);
        },
      })),
    ];
    const rounds = await measureRounds(contenders, options, 'backfill');
    const wallMs = (figures: ProcessFigures) => figures.wallMs;
    const rows = contenders.map(({ name }) => {
      const speedUp = ratioOf(rounds, oneWalk, name, wallMs);
      return [
        name,
        formatSpread(figureOf(rounds, name, (figures) => wallMs(figures) / 1_000)),
        formatRatio(speedUp),
        name === oneWalk ? '' : formatNumber(speedUp.median / Number(name)),
      ];
    });
    return { columns: ['windows in parallel', 'seconds', 'faster than one walk', 'per window in parallel'], rows };
  },
};
