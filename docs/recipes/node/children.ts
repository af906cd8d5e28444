/**
 * Prints the reports of a run with parents of another export, each with the report of its parent, as lines of JSON:
 * {"parent": …, "report": …}. The pages may be JSON or NDJSON.
 * Usage: node children.ts DIRECTORY MANIFEST ID, where DIRECTORY has both exports, such as a copy of catch-up.ts,
 * MANIFEST is `manifest` of latest.json, run.json, bounded.json or an event, and ID is `parents.id` of the settings.
 * Verify the pages first, as catch-up.ts does. The parents are in memory.
 * Needs Node.js 22.19 and the package report-exporter. Ends with status 1 and a message if something is missing.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { Manifest } from 'report-exporter';

const [directory = '', manifest = '', id = ''] = process.argv.slice(2);
if (process.argv.length !== 5) {
  console.error('Usage: node children.ts DIRECTORY MANIFEST ID');
  process.exit(2);
}

/** A number that JavaScript would round or rewrite becomes a text: a parent is named as it was written. */
const parse = (text: string): unknown =>
  JSON.parse(text, ((_: string, value: unknown, { source }: { source?: string }) =>
    typeof value === 'number' && String(value) !== source ? source : value) as (
    key: string,
    value: unknown,
  ) => unknown);

/** The value at a JSON Pointer. */
const valueAt = (value: unknown, pointer: string): unknown =>
  pointer
    .split('/')
    .slice(1)
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((object: unknown, name) => (object as Record<string, unknown> | null | undefined)?.[name], value);

async function readManifest(key: string): Promise<Manifest> {
  const read: Manifest = JSON.parse(await readFile(join(directory, key), 'utf8'));
  if (read.manifestVersion !== 1) throw new Error(`${key} has an unknown version`);
  return read;
}

/** The reports of a run, page by page, each with the `parent` of its page. */
async function* reportsOf({ pages, reportsAt }: Manifest): AsyncGenerator<{ parent?: string; report: unknown }> {
  for (const { key, compression, parent, reports: count } of pages) {
    // An empty page need not have a place for reports.
    if (count === 0) continue;
    const bytes = await readFile(join(directory, key));
    const text = new TextDecoder().decode(compression === 'gzip' ? gunzipSync(bytes) : bytes);
    if (reportsAt.kind !== 'json' && reportsAt.kind !== 'ndjson') throw new Error(`${key} has no JSON`);
    const lines = () => text.split('\n').filter((line) => line.trim() !== '');
    const reports = reportsAt.kind === 'json' ? valueAt(parse(text), reportsAt.list) : lines().map(parse);
    for (const report of reports as readonly unknown[]) yield { ...(parent !== undefined && { parent }), report };
  }
}

/** The folder of a run is that of the day in its ID. */
const manifestOf = (name: string, run: string): string =>
  `${name}/date=${run.replace(/^(....)(..)(..).*/, '$1-$2-$3')}/run=${run}/manifest.json`;

async function printChildren(): Promise<void> {
  const children = await readManifest(manifest);
  const { export: parentExport, run } = children.parents ?? {};
  if (parentExport === undefined || run === undefined) throw new Error(`${manifest} has no parents of another export`);
  const parents = new Map<string, unknown>();
  for await (const { report } of reportsOf(await readManifest(manifestOf(parentExport, run)))) {
    parents.set(String(valueAt(report, id)), report);
  }
  for await (const { parent = '', report } of reportsOf(children)) {
    if (!parents.has(parent)) throw new Error(`No report in run ${run} of ${parentExport} has ${parent} at ${id}`);
    console.log(JSON.stringify({ parent: parents.get(parent), report }));
  }
}

await printChildren().catch((error: Error) => {
  console.error(String(error));
  process.exitCode = 1;
});
