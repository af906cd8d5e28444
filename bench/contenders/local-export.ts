/**
 * The local export as `npm start` runs it, from the first page to the manifest, without terminal output. Its further
 * arguments may be
 * - `identity`: accepts no compressed responses;
 * - `stored`: compresses the pages that it stores;
 * - `slices`, with the bounds of a period, how many slices of it are exported at the same time, and their length.
 */

import { readFile } from 'node:fs/promises';
import { systemRuntime } from '../../lib/core/clock.ts';
import type { Instant } from '../../lib/core/model.ts';
import { openLocalDeployment } from '../../lib/local/directory.ts';
// Loaded on demand, as commands that only read do not need them. The times of all contenders start when everything is
// loaded.
import '../../lib/service/client/client.ts';
import { deploymentOf } from '../harness/deployment.ts';
import { startMeasurement } from '../harness/processes.ts';

const [baseUrl = '', out = '', mode, since, until, parallel, slice] = process.argv.slice(2);
const given = { baseUrl, compression: mode !== 'identity', filterUntil: mode === 'slices' ? 'date.lt' : undefined };
const { service, exports } = deploymentOf(given, { name: 'reports' });
const settings = {
  service,
  export: exports[0],
  apiKeyEnv: 'BENCH_API_KEY',
  compression: mode === 'stored' ? ('gzip' as const) : undefined,
};
const request =
  mode === 'slices' ? { since: since as Instant, until: until as Instant, parallel: Number(parallel), slice } : {};
const env = { BENCH_API_KEY: 'bench' };
const silent = {
  follow: true,
  emit: () => {},
  onRetry: () => {},
  notify: () => {},
  signal: new AbortController().signal,
};

const { finish } = startMeasurement();
await using target = openLocalDeployment({ out, env, runtime: systemRuntime, exports: [{ settings }] });
const opened = await target.open(settings.export.name);
const end = await opened.start(request, silent);
if (end.status !== 'completed') throw new Error(`The export ended as ${JSON.stringify(end)}`);
finish(mode === 'slices' ? await countPages(end.manifest) : end.result.pages);

/** The pages with reports: a slice without reports has an empty page. */
async function countPages(manifest: string | null): Promise<number> {
  const { pages } = JSON.parse(await readFile(manifest ?? '', 'utf8')) as { pages: { reports: number }[] };
  return pages.filter(({ reports }) => reports > 0).length;
}
