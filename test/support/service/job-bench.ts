/** An export of a vendor with report jobs: its description, its client over HTTP, and the rest in memory. */

import { join } from 'node:path';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { Auth } from '../../../lib/service/api/auth/kinds.ts';
import type { Description } from '../../../lib/service/api/description.ts';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { type ClientOptions, createServiceClient } from '../../../lib/service/client/client.ts';
import { parseDeployment } from '../../../lib/settings/deployment-settings.ts';
import { fileDocument } from '../../../lib/settings/settings-document.ts';
import { exportDefinition, sourceOf } from '../../../lib/settings/settings.ts';
import { anExportBench, type Bench, type BenchOptions, pageAt } from '../export/export-bench.ts';
import { type JobVendor, type Row, startJobVendor } from './job-vendors.ts';

export { completed, failed } from '../export/export-bench.ts';

const secret = 'S3cr3t-key-of-the-vendor';

/** Longer than any test: what is not ended otherwise does not end. */
const timeouts = { headersTimeout: 3_600_000, bodyTimeout: 3_600_000, totalTimeout: 3_600_000 };

/** Within the first two weeks of November, some hours from midnight. */
const someRows: readonly Row[] = ['a', 'b', 'c', 'd', 'e'].map((id, index) => ({
  id,
  at: Date.UTC(2026, 10, 3 + index, 12),
}));

interface JobsOptions {
  readonly rows?: readonly Row[];
  readonly fault?: Parameters<typeof startJobVendor>[2]['fault'];
  readonly bench?: BenchOptions;
  /** Changes the description. */
  readonly change?: (api: Description) => Description;
  readonly auth?: Auth;
  readonly connection?: Pick<ClientOptions, 'network' | 'createPool'>;
  /** Fields of the settings of the export. */
  readonly settings?: object;
}

const bearer = { kind: 'bearer' } as const;

/** Starts the servers of the vendor, and a bench with the export that its description has. */
export async function startJobs(
  vendor: JobVendor,
  {
    rows = someRows,
    fault,
    bench: options = {},
    change = (api) => api,
    auth = bearer,
    connection = {},
    settings = {},
  }: JobsOptions = {},
) {
  let bench: Bench | undefined;
  const now = () => bench?.deps.runtime.now() ?? 0;
  const server = await startJobVendor(vendor, rows, { now, ...(fault && { fault }) });
  const file = join(import.meta.dirname, '../../../docs/apis', vendor.file);
  const document = fileDocument(file);
  const { services } = parseDeployment(document);
  const [{ service, exports }] = services as [(typeof services)[number]];
  const own = exports[0] as (typeof exports)[number];
  const { job } = own.api;
  const hosts = job?.result?.hosts && { result: { ...job.result, hosts: [server.filesHost] } };
  const api = change({ ...own.api, auth, job: job && { ...job, ...hosts } });
  const definition = exportDefinition({ ...own, ...settings, api }, sourceOf(server.url), service);
  const { limits: _limits, ...given } = definition;
  bench = anExportBench({ ...options, definition: { ...given, ...options.definition } });
  const clock = { ...systemRuntime, now, monotonicNow: bench.deps.runtime.monotonicNow };
  const client = { apiKey: fixedApiKey(secret), clock, ...connection };
  const connect = () => createServiceClient({ ...service, ...timeouts, baseUrl: server.url, auth }, client);
  const clients = [connect()];
  const describe = () => Object.assign(bench?.deps ?? {}, { service: clients.at(-1)?.describedBy(api) });
  describe();
  return {
    vendor: server,
    bench,
    secret,
    definition,
    api,
    /** As another process: nothing is remembered. */
    reconnect() {
      clients.push(connect());
      describe();
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
      await server[Symbol.asyncDispose]();
    },
  };
}

/** The IDs of the reports in all pages, in order. */
export const reportIds = (bench: Bench, manifestKey: string | null): string[] =>
  bench
    .manifest(manifestKey)
    .pages.flatMap(({ key }) =>
      [...pageAt(bench, key).matchAll(/(?:^|"id":")([a-z0-9]{1,3})(?=[",\t])/gm)].map(([, id]) => id ?? ''),
    )
    .filter((id) => id !== 'id');
