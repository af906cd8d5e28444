/** The local export of the children of all parents, from the plan to the manifest. The parents are exported before. */

import { systemRuntime } from '../../lib/core/clock.ts';
import { openLocalDeployment } from '../../lib/local/directory.ts';
import '../../lib/service/client/client.ts';
import { parseDeployment, type ServiceDeploymentSettings } from '../../lib/settings/deployment-settings.ts';
import { valueDocument } from '../../lib/settings/settings-document.ts';
import { childrenSettings } from '../harness/children.ts';
import { startMeasurement } from '../harness/processes.ts';

const [baseUrl = '', out = '', parallel] = process.argv.slice(2);
const settings = childrenSettings(baseUrl, Number(parallel));
const [{ service, exports }] = parseDeployment(valueDocument(settings, 'bench')).services as [
  ServiceDeploymentSettings,
];
const silent = {
  follow: true,
  emit: () => {},
  onRetry: () => {},
  notify: () => {},
  signal: new AbortController().signal,
};
await using target = openLocalDeployment({
  out,
  env: {},
  runtime: systemRuntime,
  exports: exports.map((each) => ({ settings: { service, export: each, apiKeyEnv: 'BENCH_API_KEY' } })),
});

async function run(name: string): Promise<number> {
  const end = await (await target.open(name)).start({}, silent);
  if (end.status !== 'completed') throw new Error(`The export ended as ${JSON.stringify(end)}`);
  return end.result.pages;
}

await run('parents');
const { finish } = startMeasurement();
finish(await run('children'));
