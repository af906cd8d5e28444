/**
 * FinishRun for runs of many pages: it reads all log entries and lists all objects, at the same time, and writes the
 * manifest. With the deployed step and adapters; only the stores at the other end of the sockets are local.
 */

import { environmentVariable, settingsVersion } from '../lib/settings/deployed-settings.ts';
import { type Benchmark, figureOf, formatNumber, formatSpread, measureRounds } from './harness/benchmark.ts';
import { measureContender, startServer } from './harness/processes.ts';
import { serviceName } from './servers/run-of-pages.ts';

export const finish: Benchmark = {
  name: 'finish',
  title: 'FinishRun for runs of many pages',
  async run(options) {
    const contenders = (options.quick ? [2_000] : [10_000, 100_000, 1_000_000]).map((pages) => ({
      pages,
      name: new Intl.NumberFormat('en').format(pages),
      async measure() {
        await using stores = await startServer('stores.ts', { pages });
        return await measureContender(['finish-run.ts'], pages, functionEnvironment(stores.baseUrl));
      },
    }));
    const rounds = await measureRounds(contenders, options, 'finish');
    const rows = contenders.map(({ name, pages }) => [
      name,
      formatSpread(figureOf(rounds, name, ({ wallMs }) => wallMs / 1_000)),
      formatSpread(figureOf(rounds, name, ({ cpuMs }) => cpuMs / 1_000)),
      formatNumber(figureOf(rounds, name, ({ cpuMs }) => (cpuMs * 1_000) / pages).median),
      formatNumber(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
    ]);
    return { columns: ['pages', 'wall, s', 'CPU, s', 'CPU µs per page', 'peak RSS, MB'], rows };
  },
};

export const functionEnvironment = (endpoint: string) => ({
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'access-key',
  AWS_SECRET_ACCESS_KEY: 'secret-key',
  AWS_ENDPOINT_URL: endpoint,
  [environmentVariable]: JSON.stringify({
    version: settingsVersion,
    deployment: 'Bench',
    service: serviceName,
    table: 'table',
    bucket: 'bucket',
    prefix: '',
    apiKeySecret: 'reports/api-key',
  }),
});
