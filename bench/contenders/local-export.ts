/** The local export as `npm start` runs it, from the first page to the manifest, without terminal output. */

import { systemRuntime } from '../../lib/core/clock.ts';
import { startLocalExport } from '../../lib/local/directory.ts';
import { startMeasurement } from '../harness/processes.ts';

const [baseUrl = '', out = ''] = process.argv.slice(2);
const settings = { service: { baseUrl }, export: { name: 'reports' }, apiKeyEnv: 'BENCH_API_KEY' };
const env = { BENCH_API_KEY: 'bench' };
const silent = { follow: true, emit: () => {}, onRetry: () => {}, say: () => {}, signal: new AbortController().signal };

const { finish } = startMeasurement();
const end = await startLocalExport({ out, env, runtime: systemRuntime }, settings, {}, silent);
if (end.status !== 'completed') throw new Error(`The export ended as ${JSON.stringify(end)}`);
finish(end.result.pages);
