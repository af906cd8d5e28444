/** The local export as `npm start` makes it, from its first page to its manifest, but for the terminal. */

import { systemRuntime } from '../../lib/core/clock.ts';
import { startLocalExport } from '../../lib/local/deployment.ts';
import { measuring } from '../harness/measured-process.ts';

const [baseUrl = '', out = '', more = '{}'] = process.argv.slice(2);
/** Settings beyond those that a first export needs. */
const { service = {}, ...exported } = JSON.parse(more) as { readonly service?: object };
const settings = {
  service: { ...service, baseUrl },
  export: { name: 'reports', ...exported },
  apiKeyEnv: 'BENCH_API_KEY',
};
const env = { BENCH_API_KEY: 'bench' };
const silent = { follow: true, emit: () => {}, onRetry: () => {}, say: () => {}, signal: new AbortController().signal };

const { tell } = measuring();
const end = await startLocalExport({ out, env, runtime: systemRuntime }, settings, {}, silent);
if (end.status !== 'completed') throw new Error(`The export ended as ${JSON.stringify(end)}`);
tell({ pages: end.result.pages });
