/** Runs a translated stream against the server that is made from its manifest, and compares what it stored. */

import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { systemRuntime } from '../../lib/core/clock.ts';
import { openLocalDeployment } from '../../lib/local/directory.ts';
import { parseDeployment } from '../../lib/settings/deployment-settings.ts';
import { valueDocument } from '../../lib/settings/settings-document.ts';
import type { ManifestStream } from './manifest.ts';
import { recordPathOf, splitAtList } from './requests.ts';
import { isPlain, type Plain } from './templates.ts';
import { periodOf, runTime, type Translation } from './translate.ts';
import { placeOfHost } from './vendor-auth.ts';
import { createVendor, type Mode, type Vendor } from './vendor.ts';

/** A server on the loopback interface whose API changes with every run. */
export async function startVendors() {
  let current: Vendor | undefined;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url: target = '' } = request;
      const headers = request.headers as Record<string, string | undefined>;
      const body = Buffer.concat(chunks).toString();
      const answer = current?.answer({ method, target, headers, body });
      response.writeHead(answer?.status ?? 500, answer?.headers).end(answer?.body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    use: (vendor: Vendor) => void (current = vendor),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export type Vendors = Awaited<ReturnType<typeof startVendors>>;

/** Why a translated stream does not count; undefined if it exports what it should, and nothing else. */
export async function findFailure(
  given: ManifestStream,
  translation: Translation,
  { vendors, out }: { vendors: Vendors; out: string },
): Promise<string | undefined> {
  const { settings, nodes } = translation;
  try {
    parseDeployment(valueDocument(settings, 'settings'));
  } catch (error) {
    return `refused by the settings: ${(error as Error).message}`;
  }
  const { next } = (settings.exports.at(-1)?.api ?? { next: {} }) as { readonly next: Plain };
  const hasNext = next.from !== 'none';
  const modes: readonly Mode[] = [
    'pages',
    'quiet',
    'error on page 1',
    ...(hasNext ? (['error on page 2'] as const) : []),
  ];
  for (const mode of modes) {
    const since = nodes.map((node, index) =>
      isPlain(settings.exports[index]?.since)
        ? periodOf(node, { config: given.config, now: runTime })?.from
        : undefined,
    );
    let vendor: Vendor;
    try {
      vendor = createVendor(given, nodes, { mode, origin: vendors.origin, now: runTime, since });
    } catch (error) {
      return `no server, ${mode}: ${(error as Error).message}`;
    }
    vendors.use(vendor);
    const problem = await findProblem(given, translation, { mode, vendor, origin: vendors.origin, out });
    if (problem !== undefined) return `${mode}: ${problem}`;
  }
  return undefined;
}

interface OneRun {
  readonly mode: Mode;
  readonly vendor: Vendor;
  readonly origin: string;
  readonly out: string;
}

/** What is wrong with one run of all exports of the description. */
async function findProblem(
  given: ManifestStream,
  { settings, secret, nodes }: Translation,
  { mode, vendor, origin, out }: OneRun,
): Promise<string | undefined> {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const { services } = parseDeployment(valueDocument(onThisMachine(settings, origin), 'settings'));
  const [deployed] = services;
  if (deployed === undefined) return 'no service';
  const runtime = { ...systemRuntime, now: () => runTime };
  const exports = deployed.exports.map((each) => ({
    settings: { service: deployed.service, export: each, apiKeyEnv: 'SECRET' },
  }));
  await using target = openLocalDeployment({ out, env: { SECRET: JSON.stringify(secret) }, runtime, exports });
  for (const [index, { name }] of settings.exports.entries()) {
    const isLeaf = index === nodes.length - 1;
    const opened = await target.open(name);
    const end = await opened.start({}, { ...silent(), maxAttempts: 1 });
    if (isLeaf && mode.startsWith('error')) {
      if (end.status === 'completed') return 'published an error document';
      return end.status === 'failed' && end.failed.error !== 'ConfigurationError'
        ? undefined
        : `ended as ${JSON.stringify(end)}`;
    }
    if (end.status !== 'completed') {
      const [refused] = vendor.refused;
      return `${isLeaf ? '' : 'parent: '}${refused === undefined ? JSON.stringify(end) : `refused ${refused}`}`;
    }
    const stored = recordsIn(
      out,
      end.manifest ?? '',
      recordPathOf(nodes[index] as Plain, { config: given.config, now: runTime }),
    );
    const expected = vendor.recordsOf(index).map((record) => JSON.stringify(record));
    if (stored.length !== expected.length || stored.some((record, at) => record !== expected[at]))
      return `${stored.length} records, not ${expected.length}`;
    if (end.result.reports !== null && end.result.reports !== expected.length)
      return `counted ${end.result.reports} reports, not ${expected.length}`;
  }
  return undefined;
}

const silent = () => ({
  follow: true,
  emit: () => {},
  onRetry: () => {},
  notify: () => {},
  signal: new AbortController().signal,
});

/** The same description with the server of this machine in the place of the vendor's. */
function onThisMachine(settings: Translation['settings'], origin: string): unknown {
  const [[name, service] = ['', {}]] = Object.entries(settings.services) as [string, Plain][];
  const api = service.api as { readonly auth: Plain };
  const urls = ['tokenUrl', 'url'].filter((field) => typeof api.auth[field] === 'string');
  const moved = urls.map((field) => [field, `${origin}${placeOfHost(new URL(String(api.auth[field])))}`]);
  const auth = { ...api.auth, ...(Object.fromEntries(moved) as Plain) };
  return { services: { [name]: { ...service, baseUrl: origin, api: { ...api, auth } } }, exports: settings.exports };
}

/** The records of all pages of a published run, as the interpreter extracts them. */
function recordsIn(out: string, manifest: string, recordPath: readonly string[]): readonly string[] {
  const { pages } = JSON.parse(readFileSync(manifest, 'utf8')) as {
    readonly pages: readonly { readonly key: string }[];
  };
  return pages.flatMap(({ key }) => {
    const text = readFileSync(join(out, key), 'utf8');
    if (key.endsWith('.ndjson')) return text.split('\n').filter((line) => line !== '');
    const { list, inner } = splitAtList(recordPath);
    const at = (value: unknown, path: readonly string[]) => path.reduce((part, name) => (part as Plain)[name], value);
    return (at(JSON.parse(text), list) as readonly unknown[]).map((item) => JSON.stringify(at(item, inner)));
  });
}
