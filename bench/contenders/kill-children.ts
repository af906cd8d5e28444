/**
 * Exports the children of very many parents into a directory, is killed again and again, and checks the result:
 *
 *     node bench/contenders/kill-children.ts --parents 10000 --pages 3 --kill-every 30 --out DIR
 *
 * A hundredth of the parents is deleted while their children are exported. Half of these are back in a second run,
 * which also has an update of each parent. No child may be lost, and none may be there twice.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { assertAllThere, childrenSettings, countPages } from '../harness/children.ts';
import { startServer } from '../harness/processes.ts';
import type { ParentServiceOptions } from '../servers/parent-service.ts';

const { values } = parseArgs({
  options: {
    parents: { type: 'string', default: '1000' },
    pages: { type: 'string', default: '3' },
    latency: { type: 'string', default: '2' },
    parallel: { type: 'string', default: '16' },
    'kill-every': { type: 'string', default: '30' },
    out: { type: 'string' },
  },
});
const parents = Number(values.parents);
const pages = Number(values.pages);
const killEveryMs = Number(values['kill-every']) * 1_000;
const out = values.out ?? '';
if (out === '') throw new Error('--out names an empty directory');
const service: ParentServiceOptions = {
  parents,
  pages,
  pageBytes: 200,
  latencyMs: Number(values.latency),
  bodyMs: 0,
};
const executable = fileURLToPath(new URL('../../bin/report-exporter.mjs', import.meta.url));
const settings = join(out, 'settings.json');

await mkdir(out, { recursive: true });
await using server = await startServer('parent-service.ts', service);
await writeFile(settings, JSON.stringify(childrenSettings(server.baseUrl, Number(values.parallel))));

/** What the process of an export was seen to need at most. */
const peak = { rssMb: 0, heapMb: 0 };
const resumeMs: number[] = [];

await exportOnce('parents');
const first = await exportKilled(true);
await post('/restore');
await post('/update');
await exportOnce('parents');
const second = await exportKilled(false);
report('peak RSS, MB', peak.rssMb);
report('live heap after a full collection, MB', peak.heapMb);
report('from the start of a process to its first request', resumeMs);
report('state.sqlite, MB', (await stat(join(out, 'state.sqlite'))).size / 1e6);
reportState();
await check(first, second);

/** Runs the command to its end. */
async function exportOnce(name: string): Promise<void> {
  const startedAt = performance.now();
  const child = start(name);
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`local ${name} ended with ${String(code)}`);
  report(`local ${name}, s`, (performance.now() - startedAt) / 1_000);
}

function start(name: string): ChildProcess {
  const args = ['--trace-gc', executable, 'local', name, '--settings', settings, '--out', out, '--json', '--quiet'];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env: process.env });
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [, live] = /Mark-Compact.* -> ([\d.]+) \(/.exec(line) ?? [];
    if (live !== undefined) peak.heapMb = Math.max(peak.heapMb, Number(live));
    if (line.startsWith('{')) process.stdout.write(`${line}\n`);
  });
  return child;
}

/** Exports the children. They are killed every `killEveryMs`, and once as soon as the run is being published. */
async function exportKilled(deletes: boolean): Promise<string> {
  const startedAt = performance.now();
  let kills = 0;
  let requests = 0;
  let isKilledInFinish = false;
  let hasDeleted = !deletes;
  let seenStatus = false;
  for (;;) {
    await times();
    const spawnedAt = Date.now();
    const child = start('children');
    const exited = once(child, 'exit');
    let firstRequest: number | undefined;
    let lastRequest = Date.now();
    let hasExited = false;
    void exited.then(() => {
      hasExited = true;
    });
    for (let isOver = false; !isOver && !hasExited;) {
      await Promise.race([sleep(500), exited]);
      await watchMemory(child);
      const seen = await times();
      firstRequest ??= seen.first;
      lastRequest = seen.last ?? lastRequest;
      requests += seen.requests;
      if (!hasDeleted && requests > (parents * pages) / 3) {
        await post('/delete');
        hasDeleted = true;
      }
      const isFinishing = firstRequest !== undefined && Date.now() - lastRequest > 3_000;
      const isDue = Date.now() - spawnedAt > killEveryMs;
      if (isFinishing && !isKilledInFinish) isKilledInFinish = isOver = true;
      else isOver = isDue;
      if (isDue && !seenStatus) {
        seenStatus = true;
        await timeStatus();
      }
    }
    if (firstRequest !== undefined) resumeMs.push(firstRequest - spawnedAt);
    if (!hasExited) {
      kills += 1;
      child.kill('SIGKILL');
    }
    const [code] = (await exited) as [number | null];
    if (code === null) continue;
    if (code !== 0) throw new Error(`local children ended with ${code}`);
    report('kills', kills);
    report('requests', requests);
    report('export of the children, s', (performance.now() - startedAt) / 1_000);
    report(
      'from the last request, or the last start, to the end, s',
      (Date.now() - Math.max(lastRequest, spawnedAt)) / 1_000,
    );
    const { manifest } = JSON.parse(await readFile(join(out, 'children', 'latest.json'), 'utf8')) as {
      manifest: string;
    };
    return manifest;
  }
}

async function timeStatus(): Promise<void> {
  const startedAt = performance.now();
  const args = [executable, 'status', 'children', '--out', out];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  await once(child, 'exit');
  report('status, s', (performance.now() - startedAt) / 1_000);
  reportState();
}

async function watchMemory({ pid }: ChildProcess): Promise<void> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const [, kilobytes = '0'] = /VmHWM:\s+(\d+)/.exec(status) ?? [];
  peak.rssMb = Math.max(peak.rssMb, Number(kilobytes) / 1e3);
}

async function times(): Promise<{ first?: number; last?: number; requests: number }> {
  return (await (await fetch(`${server.baseUrl}/times`)).json()) as Awaited<ReturnType<typeof times>>;
}

async function post(path: string): Promise<void> {
  await fetch(`${server.baseUrl}${path}`, { method: 'POST' });
}

function report(name: string, value: unknown): void {
  process.stdout.write(`${name}: ${JSON.stringify(value)}\n`);
}

function reportState(): void {
  const database = new DatabaseSync(join(out, 'state.sqlite'), { readOnly: true });
  for (const { export: name, length } of database
    .prepare('SELECT export, length(state) AS length FROM export_states')
    .all())
    report(`state of ${String(name)}, bytes`, length);
  for (const { name, length } of database.prepare('SELECT name, length(content) AS length FROM shared_records').all())
    report(`record ${String(name)}, bytes`, length);
  database.close();
}

async function check(one: string, two: string): Promise<void> {
  const pagesOf = async (manifest: string) =>
    await countPages(
      parents,
      createInterface({ input: createReadStream(join(out, manifest)) }),
      async (key) => await readFile(join(out, key), 'utf8'),
    );
  report('gone in the first run', assertAllThere(service, await pagesOf(one), await pagesOf(two)));
  const dates = await readdir(join(out, 'children'), { recursive: true });
  report('manifests', dates.filter((file) => file.endsWith('manifest.json')).length);
  process.stdout.write('Nothing is lost, and nothing is there twice.\n');
}
