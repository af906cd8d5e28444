/**
 * A period exported into a directory with N slices at the same time, against a bare loop that follows one cursor and
 * pipelines its requests. The number of pages is that of the loop times N, so that all take about as long: a slice has
 * about eight pages.
 */

import {
  type Benchmark,
  figureOf,
  formatNumber,
  formatRatio,
  formatSpread,
  measureRounds,
  ratioOf,
} from './harness/benchmark.ts';
import { msPerPage } from './harness/exports.ts';
import { createOutputFolders } from './harness/output-folders.ts';
import { measureContender, startPageService } from './harness/processes.ts';

const period = { since: '2020-01-01T00:00:00Z', until: '2020-05-08T00:00:00Z' };

interface Case {
  readonly label: string;
  readonly latencyMs: number;
  readonly bodyMs: number;
  readonly pageBytes: number;
  /** The number of pages of the loop. */
  readonly pages: number;
  readonly isDense?: boolean;
}

const fast = { latencyMs: 50, bodyMs: 20, pages: 128 };
const slow = { latencyMs: 300, bodyMs: 50, pages: 64 };
const cases: readonly Case[] = [
  { label: '50 + 20 ms, 10 KB', ...fast, pageBytes: 10_000 },
  { label: '50 + 20 ms, 100 KB', ...fast, pageBytes: 100_000 },
  { label: '50 + 20 ms, 1 MB', ...fast, pageBytes: 1_000_000, pages: 32 },
  { label: '300 + 50 ms, 10 KB', ...slow, pageBytes: 10_000 },
  { label: '300 + 50 ms, 100 KB', ...slow, pageBytes: 100_000 },
  { label: '300 + 50 ms, 1 MB', ...slow, pageBytes: 1_000_000, pages: 32 },
  { label: '50 + 20 ms, 100 KB, dense', ...fast, pageBytes: 100_000, isDense: true },
];
const quickCases: readonly Case[] = [
  { label: '5 + 0 ms, 10 KB, dense', latencyMs: 5, bodyMs: 0, pageBytes: 10_000, pages: 8, isDense: true },
];

const loop = 'bare pipelined loop';

export const slices: Benchmark = {
  name: 'slices',
  title: 'A period in slices, in a directory',
  async run(options) {
    await using outputs = await createOutputFolders();
    const { measured, parallels } = options.quick
      ? { measured: quickCases, parallels: [1, 4] }
      : { measured: cases, parallels: [1, 2, 4, 8, 16] };
    const rows: string[][] = [];
    for (const { label, pages, isDense = false, ...response } of measured) {
      await using services = new AsyncDisposableStack();
      const start = async (count: number) =>
        services.use(await startPageService({ ...response, pages: count, period: { ...period, isDense } }));
      const single = await start(pages);
      const contenders = [
        {
          name: loop,
          measure: async () =>
            await measureContender(['bare-loop.ts', single.baseUrl, await outputs.next(), 'pipelined'], pages),
        },
        ...(await Promise.all(
          parallels.map(async (parallel) => {
            const count = pages * parallel;
            const { baseUrl } = parallel === 1 ? single : await start(count);
            const args = [period.since, period.until, `${parallel}`];
            return {
              name: `${parallel}`,
              measure: async () =>
                await measureContender(['local-export.ts', baseUrl, await outputs.next(), 'slices', ...args], count),
            };
          }),
        )),
      ];
      const rounds = await measureRounds(contenders, options, `slices, ${label}`);
      for (const { name } of contenders) {
        const speedUp = ratioOf(rounds, loop, name, msPerPage);
        rows.push([
          label,
          name,
          formatSpread(figureOf(rounds, name, msPerPage)),
          formatNumber(figureOf(rounds, name, ({ cpuMs, pages: count }) => cpuMs / count).median),
          formatNumber(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
          formatRatio(speedUp),
          name === loop ? '' : formatNumber(speedUp.median / Number(name)),
        ]);
      }
    }
    const columns = [
      'service, page',
      'N',
      'ms per page',
      'CPU ms per page',
      'peak RSS, MB',
      `${loop} / N slices`,
      '/ N',
    ];
    return { columns, rows };
  },
};
