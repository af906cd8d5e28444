/**
 * Copies the published runs above the newest one in the copy, in order, to a directory of the same layout. Verifies
 * each page. A run becomes visible there at once, after all its pages. An interrupted copy is continued by the next
 * start.
 * Usage: node catch-up.ts SOURCE EXPORT COPY, where SOURCE is s3://BUCKET/PREFIX or a directory. Do not start two at
 * the same time.
 * Needs Node.js 22.19 and the packages report-exporter, ajv and @aws-sdk/client-s3. Ends with status 1 and a message at
 * a run that it cannot read or verify.
 */

import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { GetObjectCommand, paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { LatestPointer, ManifestPage, RunSummary } from 'report-exporter';
import manifestSchema from 'report-exporter/schemas/manifest.v1.schema.json' with { type: 'json' };
import runSchema from 'report-exporter/schemas/run.v1.schema.json' with { type: 'json' };

const isRunSummary = new Ajv2020().compile<RunSummary>(runSchema);
const isManifestPage = new Ajv2020().compile<ManifestPage>(manifestSchema.properties.pages.items);
const [source = '', exportName = '', copy = ''] = process.argv.slice(2);
if (process.argv.length !== 5) {
  console.error('Usage: node catch-up.ts SOURCE EXPORT COPY');
  process.exit(2);
}
const [, Bucket, prefix = ''] = /^s3:\/\/([^/]+)(?:\/(.+?))?\/?$/.exec(source) ?? [];
// Has only pages that this program has verified, and unfinished ones.
const staging = join(copy, '.incoming-node');
const root = prefix === '' ? '' : `${prefix}/`;
const client = new S3Client();

/** The keys that begin with `start`, up to the next slash. */
async function list(start: string): Promise<string[]> {
  if (Bucket === undefined) {
    const folder = start.slice(0, start.lastIndexOf('/'));
    const names = await readdir(join(source, folder));
    return names.map((name) => `${folder}/${name}`).filter((key) => key.startsWith(start));
  }
  const keys: string[] = [];
  for await (const found of paginateListObjectsV2({ client }, { Bucket, Prefix: root + start, Delimiter: '/' })) {
    for (const { Prefix = '' } of found.CommonPrefixes ?? []) keys.push(Prefix.slice(root.length, -1));
    for (const { Key = '' } of found.Contents ?? []) keys.push(Key.slice(root.length));
  }
  return keys;
}

async function read(key: string): Promise<Readable> {
  if (Bucket === undefined) return createReadStream(join(source, key));
  return (await client.send(new GetObjectCommand({ Bucket, Key: root + key }))).Body as Readable;
}

async function readRun(key: string): Promise<RunSummary> {
  try {
    const run: unknown = JSON.parse(await text(await read(key)));
    if (isRunSummary(run)) return run;
    throw new Error(JSON.stringify(isRunSummary.errors));
  } catch (cause) {
    const advice = 'Nothing was copied. Restore this file, or update this program, and start again.';
    throw new Error(`${key} cannot be used. ${advice}`, { cause });
  }
}

/** The runs above `last`, lowest first. Reads one day more than that of `last`: around midnight, clocks may differ. */
async function newRuns(last: Pick<LatestPointer, 'sequence' | 'manifest'>): Promise<RunSummary[]> {
  const runs: RunSummary[] = [];
  const found = await list(`${exportName}/`).catch((cause: unknown) => {
    throw new Error(`The export ${exportName} cannot be listed in ${source}. Check both names.`, { cause });
  });
  if (found.length === 0) throw new Error(`${source} has nothing of the export ${exportName}. Check both names.`);
  const days = found.filter((key) => key.startsWith(`${exportName}/date=`));
  for (const day of days.sort().reverse()) {
    for (const folder of await list(`${day}/run=`)) {
      const key = `${folder}/run.json`;
      // A run without run.json is in progress, or was abandoned.
      if (!(await list(key)).includes(key)) continue;
      const run = await readRun(key);
      if (run.sequence > last.sequence) runs.push(run);
    }
    if (day < dirname(dirname(last.manifest))) break;
  }
  return runs.sort((one, other) => one.sequence - other.sequence);
}

/** The pages in a manifest, one at a time: each is on a line of its own. */
async function* pagesIn(manifest: string): AsyncGenerator<ManifestPage> {
  let isKnown = false;
  for await (const line of (await open(manifest)).readLines()) {
    if (line === '  "manifestVersion": 1,') isKnown = true;
    const [, object] = /^ {4}(\{"page":.*\}),?$/.exec(line) ?? [];
    if (object === undefined) continue;
    const page: unknown = JSON.parse(object);
    if (!isKnown || !isManifestPage(page)) throw new Error(`${manifest} has an unknown format: ${line}`);
    yield page;
  }
}

/** Verifies the page, or the file that it is compressed in, while it is written. It gets its name afterwards. */
async function copyPage(page: ManifestPage): Promise<void> {
  const { key, storedBytes: bytes = page.bytes, storedSha256: sha256 = page.sha256 } = page;
  const target = join(staging, key);
  if (existsSync(target) && (await stat(target)).size === bytes) return;
  const hash = createHash('sha256');
  let size = 0;
  const measure = async function* (chunks: AsyncIterable<Uint8Array>) {
    for await (const chunk of chunks) {
      hash.update(chunk);
      size += chunk.length;
      // Stops at once if the page has become larger.
      if (size > bytes) return;
      yield chunk;
    }
  };
  await pipeline(await read(key), measure, createWriteStream(`${target}.part`));
  if (size !== bytes || hash.digest('hex') !== sha256) throw new Error(`${key} does not match its manifest`);
  await rename(`${target}.part`, target);
}

async function copyRun(folder: string, pages: number): Promise<void> {
  const staged = join(staging, folder);
  await mkdir(staged, { recursive: true });
  for (const name of ['manifest.json', 'run.json']) {
    await pipeline(await read(`${folder}/${name}`), createWriteStream(join(staged, name)));
  }
  let copied = 0;
  const remaining = pagesIn(join(staged, 'manifest.json'));
  const copyPages = async () => {
    for await (const page of remaining) {
      await copyPage(page);
      copied += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, copyPages));
  if (copied !== pages) throw new Error(`The manifest in ${folder} has ${copied} pages, not ${pages}`);
  await mkdir(join(copy, dirname(folder)), { recursive: true });
  await rename(staged, join(copy, folder));
}

async function catchUp(): Promise<void> {
  const latest = join(copy, exportName, 'latest.json');
  const last = existsSync(latest) ? JSON.parse(await readFile(latest, 'utf8')) : { sequence: 0, manifest: '' };
  for (const { export: name, run, sequence, completedAt, manifest, pages } of await newRuns(last)) {
    if (!existsSync(join(copy, dirname(manifest)))) await copyRun(dirname(manifest), pages);
    // Process the run here, before it is recorded as processed.
    const pointer: LatestPointer = { export: name, run, sequence, completedAt, manifest };
    await writeFile(`${latest}.new`, JSON.stringify(pointer));
    await rename(`${latest}.new`, latest);
    console.log(`run ${run}: ${pages} pages`);
  }
}

await catchUp().catch((error: Error) => {
  const { cause } = error;
  console.error(cause instanceof Error ? `${String(error)} (${String(cause)})` : String(error));
  process.exitCode = 1;
});
