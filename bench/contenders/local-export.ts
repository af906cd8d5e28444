/**
 * The local export as `npm start` runs it, from the first page to the manifest, without terminal output. Its further arguments may be
 * - `identity`: accepts no compressed responses;
 * - `stored`: compresses the pages that it stores.
 */

import { systemRuntime } from '../../lib/core/clock.ts';
import { startLocalExport } from '../../lib/local/directory.ts';
import { startMeasurement } from '../harness/processes.ts';

const [baseUrl = '', out = '', mode] = process.argv.slice(2);
const settings = {
  service: { baseUrl, compression: mode !== 'identity' },
  export: { name: 'reports' },
  apiKeyEnv: 'BENCH_API_KEY',
  ...(mode === 'stored' && { compression: 'gzip' as const }),
};
const env = { BENCH_API_KEY: 'bench' };
const silent = { follow: true, emit: () => {}, onRetry: () => {}, say: () => {}, signal: new AbortController().signal };

const { finish } = startMeasurement();
const end = await startLocalExport({ out, env, runtime: systemRuntime }, settings, {}, silent);
if (end.status !== 'completed') throw new Error(`The export ended as ${JSON.stringify(end)}`);
finish(end.result.pages);
