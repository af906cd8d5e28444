/**
 * The processor time of the deployed function ExportPage, by the number of slices that it exports at the same time. It
 * limits how many pages a second a function exports: Lambda gives it one vCPU for each 1,769 MB of memory.
 */

import type { Instant } from '../lib/core/model.ts';
import { chooseSlices } from '../lib/core/slices.ts';
import { type FunctionSettings, settingsVersion } from '../lib/settings/deployed-settings.ts';
import { exportDefinition, sourceOf } from '../lib/settings/settings.ts';
import { deploymentOf } from './harness/deployment.ts';
import { functionEnvironment } from './finish.ts';
import { type Benchmark, figureOf, formatNumber, formatSpread, measureRounds } from './harness/benchmark.ts';
import { measureContender, startPageService, startServer } from './harness/processes.ts';
import { run, type SlicedRun } from './servers/run-of-pages.ts';

const period = { since: '2020-01-01T00:00:00Z' as Instant, until: '2020-05-08T00:00:00Z' as Instant };
const memory = [512, 1_024, 1_769];

export const functionOfSlices: Benchmark = {
  name: 'function',
  title: 'ExportPage for several slices',
  async run(options) {
    const sizes = options.quick ? [10_000] : [10_000, 100_000, 1_000_000];
    const rows: string[][] = [];
    for (const pageBytes of sizes) {
      const perSlice = options.quick ? 2 : 8;
      const contenders = (options.quick ? [2] : [2, 8, 16]).map((parallel) => ({
        parallel,
        name: `${parallel}`,
        measure: async () => await measureFunction(parallel, { pageBytes, pages: parallel * 8 * perSlice }),
      }));
      const rounds = await measureRounds(contenders, options, `function, ${pageBytes} bytes`);
      for (const { name } of contenders) {
        const cpuMs = figureOf(rounds, name, (figures) => figures.cpuMs / figures.pages);
        rows.push([
          `${formatNumber(pageBytes / 1_000)} KB`,
          name,
          formatSpread(cpuMs),
          formatNumber(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
          ...memory.map((megabytes) => formatNumber(((megabytes / 1_769) * 1_000) / cpuMs.median)),
        ]);
      }
    }
    const columns = ['page', 'slices', 'CPU ms per page', 'peak RSS, MB'];
    return { columns: [...columns, ...memory.map((megabytes) => `pages a second, ${megabytes} MB`)], rows };
  },
};

async function measureFunction(parallel: number, page: { readonly pageBytes: number; readonly pages: number }) {
  await using server = await startPageService({
    ...page,
    latencyMs: 50,
    bodyMs: 20,
    period: { ...period, isDense: false },
  });
  const { baseUrl } = server;
  const settings = {
    version: settingsVersion,
    ...deploymentOf(
      { baseUrl, filterUntil: 'date.lt' },
      { name: run.export, slices: { parallel }, pagesPerInvocation: 100 },
    ),
  } as const satisfies FunctionSettings;
  const { request } = exportDefinition(settings.exports[0], sourceOf(baseUrl), settings.service);
  const slices = chooseSlices({ ...period, startedAt: run.startedAt }, { parallel }, { unitMs: 1_000, zone: 'UTC' });
  const slicedRun: SlicedRun = { ...period, request, slices };
  await using stores = await startServer('stores.ts', { slicedRun });
  return await measureContender(
    ['export-page.ts', JSON.stringify(settings)],
    page.pages,
    functionEnvironment(stores.baseUrl),
  );
}
