/**
 * Copies the published runs, bounded ones included, that are not in the copy yet to a directory of the same layout,
 * lowest sequence first. Verifies each page. A run becomes visible there at once, after all its pages. An interrupted
 * copy is continued by the next start.
 * Usage: node catch-up.ts SOURCE EXPORT COPY, where SOURCE is s3://BUCKET/PREFIX or a directory. Do not start two at
 * the same time.
 * Needs Node.js 22.19 and the packages report-exporter, ajv and @aws-sdk/client-s3. Ends with status 1 and a message at
 * a run that it cannot read or verify.
 */

import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { GetObjectCommand, paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { LatestPointer, ManifestHeader, ManifestPage, RunSummary } from 'report-exporter';
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
const staging = join(copy, '.incoming-node');
const root = prefix === '' ? '' : `${prefix}/`;
const client = new S3Client();

/** The keys in a directory that begin with `start`, up to the next slash. */
async function listFiles(directory: string, start: string): Promise<string[]> {
  const folder = start.slice(0, start.lastIndexOf('/'));
  const names = await readdir(join(directory, folder));
  return names.map((name) => `${folder}/${name}`).filter((key) => key.startsWith(start));
}

/** The same of the source. */
async function list(start: string): Promise<string[]> {
  if (Bucket === undefined) return await listFiles(source, start);
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

const summaryOf = ({ bounded }: Pick<RunSummary, 'bounded'>) => (bounded ? 'bounded.json' : 'run.json');

/**
 * The published runs that are not in the copy, lowest sequence first. A run may appear late, and its clock may have
 * been wrong. So all days are listed.
 */
async function newRuns(): Promise<RunSummary[]> {
  const found = await list(`${exportName}/`).catch((cause: unknown) => {
    throw new Error(`The export ${exportName} cannot be listed in ${source}. Check both names.`, { cause });
  });
  if (found.length === 0) throw new Error(`${source} has nothing of the export ${exportName}. Check both names.`);
  const days = found.filter((key) => key.startsWith(`${exportName}/date=`));
  const runs: RunSummary[] = [];
  while (days.length > 0) runs.push(...(await Promise.all(days.splice(0, 16).map(newRunsOf))).flat());
  return runs.sort((one, other) => one.sequence - other.sequence);
}

async function newRunsOf(day: string): Promise<RunSummary[]> {
  const runs: RunSummary[] = [];
  for (const folder of await list(`${day}/run=`)) {
    if (existsSync(join(copy, folder))) continue;
    for (const name of ['run.json', 'bounded.json']) {
      const key = `${folder}/${name}`;
      // A run without a summary is in progress, or was abandoned.
      if ((await list(key)).includes(key)) runs.push(await readRun(key));
    }
  }
  return runs;
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

type NamedObject = Pick<ManifestPage, 'key' | 'bytes' | 'sha256' | 'storedBytes' | 'storedSha256'>;

/** The list of parents without pages, if the manifest names one before its pages. */
async function missingParentsIn(manifest: string): Promise<NamedObject | undefined> {
  let header = '';
  for await (const line of (await open(manifest)).readLines()) {
    if (/^ {2}"(reportsAt|pages)":/.test(line)) break;
    header += line;
  }
  const { parents }: Partial<ManifestHeader> = JSON.parse(header.replace(/,$/, '}'));
  return parents?.missing;
}

async function hashOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}

type Step = (chunks: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;

/** Writes an object of the source to a file, through `step`. */
async function download(key: string, target: string, step: Step = (chunks) => chunks): Promise<void> {
  try {
    await pipeline(await read(key), step, createWriteStream(target));
  } catch (cause) {
    throw new Error(`${key} cannot be read. Restore it, and start again.`, { cause });
  }
}

/** Verifies the object, such as a page or a compressed one, while it is written. It gets its name afterwards. */
async function copyObject(object: NamedObject): Promise<void> {
  const { key, storedBytes: bytes = object.bytes, storedSha256: sha256 = object.sha256 } = object;
  const target = join(staging, key);
  // An earlier start has copied it.
  if (existsSync(target) && (await hashOf(createReadStream(target))) === sha256) return;
  const hash = createHash('sha256');
  let size = 0;
  const measure: Step = async function* (chunks) {
    for await (const chunk of chunks) {
      hash.update(chunk);
      size += chunk.length;
      // Stops at once if the object has become larger.
      if (size > bytes) return;
      yield chunk;
    }
  };
  await download(key, `${target}.part`, measure);
  if (size !== bytes || hash.digest('hex') !== sha256) throw new Error(`${key} does not match its manifest`);
  await rename(`${target}.part`, target);
}

async function copyRun(run: RunSummary): Promise<void> {
  const folder = dirname(run.manifest);
  const staged = join(staging, folder);
  await mkdir(staged, { recursive: true });
  for (const name of ['manifest.json', summaryOf(run)]) {
    await download(`${folder}/${name}`, join(staged, name));
  }
  let copied = 0;
  const remaining = pagesIn(join(staged, 'manifest.json'));
  const copyPages = async () => {
    for await (const page of remaining) {
      await copyObject(page);
      copied += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, copyPages));
  if (copied !== run.pages) throw new Error(`The manifest in ${folder} has ${copied} pages, not ${run.pages}`);
  const missing = await missingParentsIn(join(staged, 'manifest.json'));
  if (missing !== undefined) await copyObject(missing);
  // Process the run in the folder `staged` here, before it counts as copied.
  await mkdir(join(copy, dirname(folder)), { recursive: true });
  await rename(staged, join(copy, folder));
  console.log(`run ${run.run}: ${run.pages} pages`);
}

/** Points latest.json to the newest regular run of the copy. */
async function point(): Promise<void> {
  if (!existsSync(join(copy, exportName))) return;
  let newest: RunSummary | undefined;
  for (const day of await listFiles(copy, `${exportName}/date=`)) {
    for (const folder of await listFiles(copy, `${day}/run=`)) {
      const summary = join(copy, folder, 'run.json');
      if (!existsSync(summary)) continue;
      const run: RunSummary = JSON.parse(await readFile(summary, 'utf8'));
      if (run.sequence > (newest?.sequence ?? -1)) newest = run;
    }
  }
  if (newest === undefined) return;
  const { run, sequence, completedAt, manifest } = newest;
  const pointer: LatestPointer = { export: exportName, run, sequence, completedAt, manifest };
  const latest = join(copy, exportName, 'latest.json');
  await writeFile(`${latest}.new`, JSON.stringify(pointer));
  await rename(`${latest}.new`, latest);
}

async function catchUp(): Promise<void> {
  try {
    for (const run of await newRuns()) await copyRun(run);
  } finally {
    await point();
  }
}

await catchUp().catch((error: Error) => {
  const { cause } = error;
  console.error(cause instanceof Error ? `${String(error)} (${String(cause)})` : String(error));
  process.exitCode = 1;
});
