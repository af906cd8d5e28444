/** A backfill in a directory, from its first request to its last window. Its export has run once, from the end of the period on. */

import { systemRuntime } from '../../lib/core/clock.ts';
import type { Instant } from '../../lib/core/model.ts';
import { openLocalDeployment, startLocalExport } from '../../lib/local/directory.ts';
import { startMeasurement } from '../harness/processes.ts';
import { readBackfillStatus } from '../../lib/backfill/status.ts';

const [baseUrl = '', out = '', parallel = '1', windows = '1'] = process.argv.slice(2);
const local = { out, env: { BENCH_API_KEY: 'bench' }, runtime: systemRuntime };
const { signal } = new AbortController();
const silent = { follow: true, emit: () => {}, onRetry: () => {}, say: () => {}, signal };
// Later than all reports: this run has a single, empty page.
const since = new Date().toISOString() as Instant;
const settings = {
  service: { baseUrl, filterUntil: 'date.lt' },
  export: { name: 'reports' },
  apiKeyEnv: 'BENCH_API_KEY',
};
await startLocalExport(local, settings, { since }, silent);

await using deployment = openLocalDeployment(local);
const deployed = await deployment.open('reports');
const day = 86_400_000;
const from = Date.UTC(2020, 0, 1);
const request = {
  from: new Date(from).toISOString().replace('.000', '') as Instant,
  to: new Date(from + Number(windows) * day).toISOString().replace('.000', '') as Instant,
  windowMs: day,
  parallel: Number(parallel),
};
const { finish } = startMeasurement();
await deployed.startBackfill(request, { ...silent, onProgress: () => {} });
const status = await readBackfillStatus(deployed, 'reports');
if (status?.state !== 'completed') throw new Error(`The backfill ended as ${status?.state}`);
finish(status.pages);
