/**
 * The past of an export, walked with one cursor, and by windows in parallel, with a service that takes 200 ms for a page: in a directory
 * over real sockets, and on AWS as a model in simulated time.
 */

import { parseLatencies } from '../aws-loop/latencies.ts';
import type { Benchmark, BenchmarkOptions, Table } from '../harness/benchmark.ts';
import { measureScript, type ProcessFigures } from '../harness/measured-process.ts';
import { createOutputFolders } from '../harness/output-folders.ts';
import { startPageService } from '../harness/page-service.ts';
import { figureOf, measureRounds, ratioOf } from '../harness/rounds.ts';
import { formatNumber, formatRatio } from '../harness/tables.ts';
import { modelBackfill, modelOneWalk } from './modelled-backfill.ts';

const latencyMs = 200;
const pageBytes = 100_000;

const oneWalk = 'one walk';
const inParallel = (parallel: number) => `windows, ${parallel} in parallel`;

export const backfill: Benchmark = {
  name: 'backfill',
  title: 'A backfill, several windows at the same time',
  async run(options) {
    const { windows, pagesPerWindow, parallels } = options.quick
      ? { windows: 4, pagesPerWindow: 2, parallels: [1, 2] }
      : { windows: 64, pagesPerWindow: 16, parallels: [1, 2, 4, 8, 16] };
    const local = await measureLocal(options, { windows, pagesPerWindow, parallels });
    const modelled: Modelled[] = [];
    for (const pages of options.quick ? [pagesPerWindow] : [pagesPerWindow, 128, 512]) {
      options.reportProgress(`backfill on AWS, ${pages} pages per window`);
      modelled.push(await measureModel({ windows, pagesPerWindow: pages, parallels }));
    }
    return {
      tables: [local.table, modelTable(modelled)],
      measured: { local: local.measured, modelled },
      notes: [
        ...local.notes,
        `Modelled with ${JSON.stringify(latencies())}. BENCH_LOOP sets other latencies.`,
        'A backfill includes its two requests for the check of the service, and publishing each window.',
      ],
    };
  },
};

interface Backfill {
  readonly windows: number;
  readonly pagesPerWindow: number;
  readonly parallels: readonly number[];
}

async function measureLocal(options: BenchmarkOptions, { windows, pagesPerWindow, parallels }: Backfill) {
  const common = { pageBytes, latencyMs, numbered: true };
  await using whole = await startPageService({ ...common, pages: windows * pagesPerWindow });
  await using window = await startPageService({ ...common, pages: pagesPerWindow });
  await using outputs = await createOutputFolders();
  const measure = (script: string, ...args: string[]) =>
    measureScript(new URL(script, import.meta.url), args) as Promise<ProcessFigures>;
  const rounds = await measureRounds(
    [
      {
        name: oneWalk,
        measure: async () => await measure('../floor/local-export.ts', whole.baseUrl, await outputs.next()),
      },
      ...parallels.map((parallel) => ({
        name: inParallel(parallel),
        measure: async () =>
          await measure('local-backfill.ts', window.baseUrl, await outputs.next(), `${parallel}`, `${windows}`),
      })),
    ],
    { ...options, warmUp: false },
    'backfill',
  );
  const seconds = (name: string) => figureOf(rounds, name, ({ wallMs }) => wallMs / 1_000).median;
  const table: Table = {
    title: `In a directory: ${windows} windows of ${pagesPerWindow} pages of 100 KB, ${latencyMs} ms to the first byte`,
    columns: ['windows in parallel', 'seconds', 'faster than one walk', 'per window in parallel'],
    rows: parallels.map((parallel) => {
      const name = inParallel(parallel);
      const speedUp = ratioOf(rounds, oneWalk, name, ({ wallMs }) => wallMs);
      return [
        `${parallel}`,
        formatNumber(seconds(name)),
        formatRatio(speedUp),
        `${(speedUp.median / parallel).toFixed(2)}×`,
      ];
    }),
  };
  const notes = [`One walk of the same ${windows * pagesPerWindow} pages takes ${formatNumber(seconds(oneWalk))} s.`];
  return { table, notes, measured: Object.fromEntries(rounds) };
}

interface Modelled extends Backfill {
  readonly walkMs: number;
  /** By the number in parallel. */
  readonly backfillMs: readonly (readonly [parallel: number, ms: number])[];
}

const latencies = () => parseLatencies(process.env.BENCH_LOOP, { serviceFirstByteMs: latencyMs, serviceBodyMs: 0 });

async function measureModel({ parallels, ...model }: Backfill): Promise<Modelled> {
  const common = { ...model, latencies: latencies() };
  const walkMs = await modelOneWalk(common);
  const backfillMs: (readonly [number, number])[] = [];
  for (const parallel of parallels) backfillMs.push([parallel, await modelBackfill({ ...common, parallel })]);
  return { ...model, parallels, walkMs, backfillMs };
}

const modelTable = (modelled: readonly Modelled[]): Table => ({
  title: 'On AWS, modelled: seconds in simulated time',
  columns: [
    'windows',
    'pages per window',
    'one walk',
    'in parallel',
    'seconds',
    'faster than one walk',
    'per window in parallel',
  ],
  rows: modelled.flatMap(({ windows, pagesPerWindow, walkMs, backfillMs }) =>
    backfillMs.map(([parallel, ms]) => [
      `${windows}`,
      `${pagesPerWindow}`,
      formatNumber(walkMs / 1_000),
      `${parallel}`,
      formatNumber(ms / 1_000),
      `${(walkMs / ms).toFixed(2)}×`,
      `${(walkMs / ms / parallel).toFixed(2)}×`,
    ]),
  ),
});
