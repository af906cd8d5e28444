/** The recipes for the shell and for Node.js, on directories. */

import { execFile, execFileSync, spawn } from 'node:child_process';
import { cp, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { RunSummary } from '../../lib/core/storage/published-schemas.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import { problemsIn } from '../support/docs/published-schemas.ts';
import { recipe } from '../support/docs/recipes.ts';
import type { Manifest } from '../support/export/export-bench.ts';
import { aTreeExport } from '../support/export/tree-export.ts';
import { aDirectory, jsonOf, readManifest, runInProcess } from '../support/process/command-line.ts';
import { someReports } from '../support/service/simulator-client.ts';

const hasJq = await promisify(execFile)('jq', ['--version']).then(
  () => true,
  () => false,
);

interface PublishedRun {
  readonly manifest: Manifest;
  readonly summary: RunSummary;
  /** Relative to the directory. */
  readonly folder: string;
}

/** A directory into which an export of five reports, two on a page, runs as often as the test wants. */
async function anExport() {
  const out = await aDirectory();
  const apiKey = 'the-key-of-this-service';
  const service = await startSimulator({ vendor: 'ACME', apiKey, reports: inMemoryReports(someReports(5)) });
  onTestFinished(() => service.close());
  const file = join(await aDirectory(), 'settings.json');
  const services = { acme: { baseUrl: service.baseUrl, vendor: 'ACME', filterUntil: 'date.lt' } };
  const exports = [{ name: 'daily', size: 2, since: { overlap: 'P365D' } }];
  const env = { REPORT_EXPORT_API_KEY: apiKey };
  /** Each run also has the reports of the one before. Runs with and without compression, or slices, may alternate. */
  const run = async (...more: readonly string[]): Promise<PublishedRun> => {
    const bucket = more.includes('compressed') ? { compression: 'gzip' } : {};
    await writeFile(file, JSON.stringify({ services, exports, bucket }));
    const flags = more.filter((word) => word !== 'compressed');
    const ended = await runInProcess(['local', '--out', out, '--settings', file, ...flags, '--json'], env);
    expect(ended).toMatchObject({ status: 0 });
    const path = jsonOf(ended).manifest ?? '';
    const manifest = await readManifest(path);
    const name = manifest.bounded ? 'bounded.json' : 'run.json';
    const summary = JSON.parse(await readFile(join(dirname(path), name), 'utf8')) as RunSummary;
    return { manifest, summary, folder: dirname(summary.manifest) };
  };
  return {
    out,
    run,
    /** Exports the five reports again, in a bounded run with two slices. */
    boundedRun: (...more: readonly string[]): Promise<PublishedRun> => {
      const bounds = ['--since', '2026-11-19T23:59:00Z', '--until', '2026-11-20T00:01:00Z'];
      return run(...bounds, '--parallel', '2', '--slice', 'PT1M', ...more);
    },
    /** Adds the folder of a run that was abandoned after its first page, as that of a later run. */
    abandonRun: async ({ folder }: PublishedRun): Promise<string> => {
      const abandoned = join(dirname(folder), 'run=20991231T235959Z-ffffffb2d407');
      await mkdir(join(out, abandoned));
      await cp(join(out, folder, 'page-000001.xml'), join(out, abandoned, 'page-000001.xml'));
      return abandoned;
    },
  };
}

interface Outcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts a program without a terminal, in a process group of its own. */
function startProgram([command = '', ...args]: readonly string[], cwd: string, env: Record<string, string> = {}) {
  const child = spawn(command, args, {
    cwd,
    env: { PATH: process.env.PATH, AWS_REGION: 'us-east-1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
    });
  }
  const ended = new Promise<Outcome>((resolve) => child.on('close', (status) => resolve({ status, ...output })));
  const kill = () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, 'SIGKILL');
  };
  return { ended, kill };
}

const visibleFiles = async (folder: string): Promise<string[]> =>
  (await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .filter((file) => !file.split('/').some((part) => part.startsWith('.')))
    .sort();

const linesOf = (text: string) => text.split('\n').sort();

const lineOf = ({ summary }: PublishedRun) => `run ${summary.run}: ${summary.pages} pages\n`;

const programs = [
  ['shell/catch-up.sh', ['bash', recipe('shell/catch-up.sh')], hasJq],
  ['node/catch-up.ts', [process.execPath, recipe('node/catch-up.ts')], true],
] as const;

describe.each(programs.filter(([, , isPossible]) => isPossible))('%s', (_, command) => {
  const incoming = command[0] === 'bash' ? '.incoming' : '.incoming-node';

  async function aCopy(out: string) {
    const folder = await aDirectory();
    const copy = join(folder, 'copy');
    const start = () => startProgram([...command, out, 'daily', copy], folder);
    return { copy, start, run: () => start().ended };
  }

  /** The copy has these runs whole, with the newest in latest.json, and nothing else. */
  async function expectCopy(copy: string, out: string, runs: readonly PublishedRun[]) {
    const files = runs.flatMap(({ manifest, folder }) => [
      ...manifest.pages.map(({ key }) => key),
      `${folder}/manifest.json`,
      `${folder}/${manifest.bounded ? 'bounded' : 'run'}.json`,
    ]);
    const [newest] = runs
      .filter(({ manifest }) => !manifest.bounded)
      .sort((one, other) => other.summary.sequence - one.summary.sequence);
    expect(await visibleFiles(copy)).toEqual([...files, ...(newest ? ['daily/latest.json'] : [])].sort());
    for (const file of files) expect(await readFile(join(copy, file))).toEqual(await readFile(join(out, file)));
    if (newest === undefined) return;
    const latest = JSON.parse(await readFile(join(copy, 'daily/latest.json'), 'utf8'));
    expect(problemsIn('latest.v1', latest)).toEqual([]);
    expect(latest).toMatchObject({ run: newest.summary.run, sequence: newest.summary.sequence });
  }

  it('copies the published runs in order, each once, and no others', async () => {
    const { out, run, boundedRun, abandonRun } = await anExport();
    const { copy, run: copyRuns } = await aCopy(out);
    const first = await run();
    const bounded = await boundedRun();
    const second = await run('--since', '2026-10-15T00:00:00Z', '--parallel', '2', '--slice', 'P30D', 'compressed');
    expect(second.manifest.pages.map(({ key }) => basename(key)).slice(0, 3)).toEqual([
      'page-000001-000001.xml.gz',
      'page-000002-000001.xml.gz',
      'page-000002-000002.xml.gz',
    ]);
    const abandoned = await abandonRun(first);
    await cp(join(out, first.folder, 'run.json'), join(out, abandoned, 'run.json.bak'));
    const { stdout, ...ended } = await copyRuns();
    expect(ended).toEqual({ status: 0, stderr: '' });
    expect(linesOf(stdout)).toEqual(linesOf(lineOf(first) + lineOf(bounded) + lineOf(second)));
    await expectCopy(copy, out, [first, bounded, second]);
    expect(await copyRuns()).toEqual({ status: 0, stdout: '', stderr: '' });

    // A program that was interrupted has not written latest.json.
    await rm(join(copy, 'daily/latest.json'));
    const third = await run();
    expect(third.summary.reports).toBe(5);
    expect(await copyRuns()).toEqual({ status: 0, stdout: lineOf(third), stderr: '' });
    await expectCopy(copy, out, [first, bounded, second, third]);
    await rm(join(copy, 'daily/latest.json'));
    expect(await copyRuns()).toEqual({ status: 0, stdout: '', stderr: '' });
    await expectCopy(copy, out, [first, bounded, second, third]);
  });

  it('copies each run of a replica, whose runs appear in any order', async () => {
    const { out, run } = await anExport();
    const { copy, run: copyRuns } = await aCopy(out);
    const [first, second] = [await run(), await run()];
    await rename(join(out, first.folder), join(out, '.late'));
    expect(await copyRuns()).toMatchObject({ status: 0, stdout: lineOf(second) });
    // Its manifest arrives before a page.
    await rename(join(out, '.late'), join(out, first.folder));
    const page = join(out, first.manifest.pages[1]?.key ?? '');
    await rename(page, `${page}.moved`);
    expect((await copyRuns()).status).toBeGreaterThan(0);
    await expectCopy(copy, out, [second]);
    await rename(`${page}.moved`, page);
    expect(await copyRuns()).toEqual({ status: 0, stdout: lineOf(first), stderr: '' });
    await expectCopy(copy, out, [first, second]);
  });

  it('copies each run in the order of the sequence, although clocks were wrong by months', async () => {
    const { out, run } = await anExport();
    const { copy, run: copyRuns } = await aCopy(out);
    const runs: PublishedRun[] = [];
    for (const day of ['2027-06-01', '2026-11-20', '2026-01-01', '2026-11-21']) {
      const moved = await moveTo(out, day, await run());
      runs.push(moved);
      expect(await copyRuns()).toEqual({ status: 0, stdout: lineOf(moved), stderr: '' });
    }
    await expectCopy(copy, out, runs);
    await rm(copy, { recursive: true });
    expect(await copyRuns()).toEqual({ status: 0, stdout: runs.map(lineOf).join(''), stderr: '' });
    await expectCopy(copy, out, runs);
  });

  it('fetches a page again that an interrupted start has left with other content', async () => {
    const { out, run } = await anExport();
    const { copy, run: copyRuns } = await aCopy(out);
    const first = await run();
    const key = first.manifest.pages[1]?.key ?? '';
    const staged = join(copy, incoming, key);
    await mkdir(dirname(staged), { recursive: true });
    await writeFile(staged, (await readFile(join(out, key), 'utf8')).replace('r3', 'r9'));
    expect(await copyRuns()).toEqual({ status: 0, stdout: lineOf(first), stderr: '' });
    await expectCopy(copy, out, [first]);
  });

  it('shows nothing of a run with a damaged page, and copies it once that is restored', async () => {
    const { out, run } = await anExport();
    const { copy, run: copyRuns } = await aCopy(out);
    const [first, second, third] = [await run(), await run('compressed'), await run()];
    const damaged = join(out, second.manifest.pages[1]?.key ?? '');
    const original = await readFile(damaged);
    await writeFile(damaged, gzipSync(gunzipSync(original), { level: 0 }));
    const failed = await copyRuns();
    expect(failed).toMatchObject({ status: 1, stdout: lineOf(first) });
    expect(failed.stderr).toContain(basename(damaged));
    await expectCopy(copy, out, [first]);

    await writeFile(damaged, original);
    expect(await copyRuns()).toEqual({ status: 0, stdout: lineOf(second) + lineOf(third), stderr: '' });
    await expectCopy(copy, out, [first, second, third]);
  });

  it('shows nothing of a run until all its pages are copied, and continues after it was killed', async () => {
    const { out, run } = await anExport();
    const { copy, start, run: copyRuns } = await aCopy(out);
    const first = await run();
    // A reader of this page waits until someone writes it.
    const paused = join(out, first.folder, 'page-000003.xml');
    await rename(paused, `${paused}.moved`);
    execFileSync('mkfifo', [paused]);
    const { ended, kill } = start();
    onTestFinished(kill);
    const staged = join(copy, incoming, first.folder);
    await expect.poll(() => readdir(staged).catch(() => [])).toContain('page-000002.xml');
    await expectCopy(copy, out, []);
    kill();
    expect(await ended).toMatchObject({ status: null, stdout: '' });
    // A temporary file of the AWS CLI.
    await writeFile(join(staged, 'page-000003.xml.part'), '<repo');

    await rm(paused);
    await rename(`${paused}.moved`, paused);
    expect(await copyRuns()).toEqual({ status: 0, stdout: lineOf(first), stderr: '' });
    await expectCopy(copy, out, [first]);
  });

  it('copies the list of parents without pages, verified, and runs without a page', async () => {
    const { out, publish } = await aTreeExport();
    const { summary, issues } = await publish({ 'a/b': [{ id: 1, title: 'x' }], 'a/gone': [] }, ['a/gone']);
    const { key } = (issues.parents as { readonly missing: { readonly key: string } }).missing;
    const copy = join(await aDirectory(), 'copy');
    const copyRuns = () => startProgram([...command, out, 'issues', copy], out).ended;
    const list = await readFile(join(out, key), 'utf8');
    await writeFile(join(out, key), list.replace('a/gone', 'a/none'));
    const failed = await copyRuns();
    expect(failed).toMatchObject({ status: 1, stdout: '' });
    expect(failed.stderr).toContain(key);
    expect(await visibleFiles(copy)).toEqual([]);
    await writeFile(join(out, key), list);
    expect(await copyRuns()).toEqual({ status: 0, stdout: `run ${summary.run}: 1 pages\n`, stderr: '' });
    expect(await readFile(join(copy, key), 'utf8')).toBe(list);
    expect(await visibleFiles(copy)).toHaveLength(5);

    const empty = await publish({});
    expect(empty.summary).toMatchObject({ pages: 0, reports: 0 });
    expect(await copyRuns()).toEqual({ status: 0, stdout: `run ${empty.summary.run}: 0 pages\n`, stderr: '' });
    expect(await visibleFiles(copy)).toHaveLength(7);
  });

  it('fails at a document that is damaged, and at a folder that it cannot list', async () => {
    const { out, run } = await anExport();
    const { copy, run: copyRuns } = await aCopy(out);
    const first = await run();
    await copyRuns();
    const second = await run();
    const fails = async (at: string) => {
      const failed = await copyRuns();
      expect(failed.status).toBeGreaterThan(0);
      expect(failed.stderr).toContain(at);
      await expectCopy(copy, out, [first]);
    };
    for (const [name, change] of [
      ['run.json', () => ''],
      ['run.json', (text: string) => text.replace('"runVersion":1', '"runVersion":2')],
      ['manifest.json', (text: string) => text.replaceAll(/^ {4}\{.*\n/gm, '')],
      ['manifest.json', (text: string) => text.slice(0, text.indexOf('    {"page":2'))],
      ['manifest.json', (text: string) => text.slice(0, text.indexOf('    {"page":3') + 80)],
      ['manifest.json', (text: string) => text.replace('Version": 1', 'Version": 2')],
    ] as const) {
      const file = join(out, second.folder, name);
      const intact = await readFile(file, 'utf8');
      await writeFile(file, change(intact));
      await fails(name === 'run.json' ? `${second.folder}/run.json` : second.folder);
      await writeFile(file, intact);
    }
    await rm(join(copy, incoming), { recursive: true, force: true });
    await rename(join(out, second.folder, 'manifest.json'), join(out, 'manifest.json'));
    await fails(`${second.folder}/manifest.json cannot be read. Restore it, and start again.`);
    await rm(join(copy, incoming), { recursive: true, force: true });
    await rm(join(out, second.folder, 'run.json'));
    for (const unreadable of [dirname(second.folder), second.folder]) {
      const path = join(out, unreadable.replace(/date=[^/]*/, 'date=2099-01-01'));
      await mkdir(dirname(path), { recursive: true });
      await symlink(path, path);
      await fails(unreadable.replace(/date=[^/]*/, 'date=2099-01-01'));
      await rm(path);
    }
  });

  it('fails for an export that does not exist, and without its arguments', async () => {
    const { out, run } = await anExport();
    await run();
    const folder = await aDirectory();
    const start = (...args: string[]) => startProgram([...command, ...args], folder).ended;
    await mkdir(join(out, 'empty'));
    for (const [source, name, message] of [
      [out, 'dialy', `The export dialy cannot be listed in ${out}. Check both names.`],
      [out, 'empty', `${out} has nothing of the export empty. Check both names.`],
      [`${out}x`, 'daily', `${out}x`],
    ] as const) {
      const { status, stderr } = await start(source, name, 'copy');
      expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining(message) });
      // No stack trace.
      expect(stderr).not.toMatch(/^ +at /m);
    }
    for (const args of [[], [out], [out, 'daily'], [out, 'daily', 'copy', 'more']]) {
      expect(await start(...args)).toEqual({ status: 2, stdout: '', stderr: expect.stringMatching(/^Usage: /) });
    }
    expect(await visibleFiles(join(folder, 'copy'))).toEqual([]);
    // It exists, but has no run yet.
    await mkdir(join(out, 'weekly/date=2026-11-20'), { recursive: true });
    expect(await start(out, 'weekly', 'copy')).toMatchObject({ status: 0 });
  });
});

describe('node/children.ts', () => {
  const command = [process.execPath, recipe('node/children.ts')];

  it.each(['json', 'ndjson'] as const)('prints each report with that of its parent: %s', async (format) => {
    const { out, publish } = await aTreeExport(format);
    const tree = {
      'a/b c': [1, 2, 3].map((id) => ({ id, title: `Ä ${id}` })),
      'a/ü': [{ id: 1, title: 'of another repository' }],
      'a/gone': [{ id: 4, title: 'deleted' }],
      'a/none': [],
    };
    const lines = (names: readonly (keyof typeof tree)[]) =>
      names.flatMap((name) =>
        tree[name].map((report) => ({ parent: { id: Object.keys(tree).indexOf(name) + 1, name }, report })),
      );
    const published = await publish(tree, ['a/gone']);
    // A run in which the parents are others.
    await publish({ 'a/b c': tree['a/b c'] });
    const print = async (manifest: string, id = '/name') =>
      await startProgram([...command, out, manifest, id], out).ended;
    const printed = await print(published.summary.manifest);
    expect(printed).toMatchObject({ status: 0, stderr: '' });
    expect(parseLines(printed.stdout)).toEqual(lines(['a/b c', 'a/ü']));

    const bounded = await publish(tree, [], '--parents', 'RUN');
    expect(basename(bounded.summary.manifest)).toBe('manifest.json');
    expect(bounded.summary.bounded).toBe(true);
    expect(parseLines((await print(bounded.summary.manifest)).stdout)).toEqual(lines(['a/b c', 'a/ü', 'a/gone']));

    const reposKey = published.repos.pages[0]?.key.replace(/[^/]*$/, 'manifest.json') ?? '';
    for (const [words, message] of [
      [[reposKey], `${reposKey} has no parents of another export`],
      [[published.summary.manifest, '/title'], `No report in run ${published.repos.run} of repos has a/b c at /title`],
      [['issues/manifest.json'], 'issues/manifest.json'],
    ] as const) {
      const failed = await print(...(words as readonly [string]));
      expect(failed).toEqual({ status: 1, stdout: '', stderr: expect.stringContaining(message) });
      expect(failed.stderr).not.toMatch(/^ +at /m);
    }
    expect(await startProgram(command, out).ended).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/^Usage: /),
    });
  });
});

const parseLines = (text: string): unknown[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);

/** Moves a run to the folder of another day, as if its clock had been wrong. */
async function moveTo(out: string, day: string, run: PublishedRun): Promise<PublishedRun> {
  const folder = run.folder.replace(/date=[^/]*/, `date=${day}`);
  await mkdir(dirname(join(out, folder)), { recursive: true });
  if (folder !== run.folder) await rename(join(out, run.folder), join(out, folder));
  for (const name of ['manifest.json', 'run.json']) {
    const text = await readFile(join(out, folder, name), 'utf8');
    await writeFile(join(out, folder, name), text.replaceAll(run.folder, folder));
  }
  const { manifest, summary } = JSON.parse(JSON.stringify(run).replaceAll(run.folder, folder)) as PublishedRun;
  return { manifest, summary, folder };
}
