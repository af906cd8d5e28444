/** The commands that act on a deployment, on a directory. */

import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { RunSummary } from '../../lib/core/storage/published-schemas.ts';
import { errorResponse, onPage } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import {
  aDirectory,
  type CommandResult,
  jsonOf,
  readManifest,
  runInProcess,
  start,
} from '../support/process/command-line.ts';
import { someReports } from '../support/service/simulator-client.ts';

const key = 'the-key-of-this-service';
const env = { REPORT_EXPORT_API_KEY: key };

/** A service with `count` reports. If broken, it rejects page 2. */
async function aService(count: number, { broken = false, port = 0 } = {}) {
  const faults = broken ? onPage(2, errorResponse(403)) : undefined;
  return await startSimulator({
    vendor: 'ACME',
    apiKey: key,
    reports: inMemoryReports(someReports(count)),
    faults,
    port,
  });
}
const runLocalExport = (out: string, url: string) =>
  runInProcess(
    ['local', '--out', out, '--base-url', url, '--vendor', 'ACME', '--size', '2', '--export', 'daily', '--json'],
    env,
  );

/** A directory with a completed run of three pages and five reports. */
async function aCompletedRun() {
  const out = await aDirectory();
  await using service = await aService(5);
  const result = jsonOf(await runLocalExport(out, service.baseUrl));
  expect(result).toMatchObject({ status: 'completed', pages: 3, reports: 5 });
  const manifest = await readManifest(result.manifest ?? '');
  return { out, result, pages: manifest.pages.map((page) => join(out, page.key)), run: String(result.run) };
}

/** A directory whose run failed after its first page. */
async function anUnfinishedRun() {
  const out = await aDirectory();
  await using service = await aService(5, { broken: true });
  const result = jsonOf(await runLocalExport(out, service.baseUrl));
  expect(result).toMatchObject({ status: 'failed', pages: 1 });
  return { out, run: String(result.run), port: Number(new URL(service.baseUrl).port) };
}
const runOn = (out: string, ...args: string[]): Promise<CommandResult> => runInProcess([...args, '--out', out], env);
const lines = ({ stdout }: CommandResult) => stdout.replace(/\n$/, '').split('\n');
const parseJson = ({ stdout }: CommandResult) => JSON.parse(stdout.trimEnd()) as Readonly<Record<string, unknown>>;

describe('start', () => {
  it('resumes a run with the settings of the directory, and not those of a start that was rejected', async () => {
    const { out, run: id, port } = await anUnfinishedRun();
    const rejected = await runInProcess(['local', '--out', out, '--size', '3', '--json'], env);
    expect(rejected.status).toBe(2);
    await using service = await aService(5, { port });
    const ended = await runOn(out, 'start', '--json');
    expect(ended.status).toBe(0);
    expect(jsonOf(ended)).toMatchObject({ status: 'completed', export: 'daily', run: id, pages: 3, reports: 5 });
    expect(service.exchanges).toHaveLength(2);
    expect(ended.stderr).toMatch(/^20\S+Z Resuming run .* after page 1 /m);

    const again = jsonOf(await runOn(out, 'start', 'daily', '--since', '2026-11-20T00:00:04Z', '--json'));
    expect(again).toMatchObject({ status: 'completed', since: '2026-11-20T00:00:04Z', reports: 2 });
  });
});

describe('verify', () => {
  it('reports that the manifest of a published run does not exist, as status and doctor do', async () => {
    const { out, result, run: id } = await aCompletedRun();
    const manifest = result.manifest ?? '';
    await rm(manifest);
    const missing = `The manifest ${manifest} is missing, although its run was published. Restore it`;
    const listed = await runOn(out, 'status', '--runs');
    expect(listed).toMatchObject({ status: 1, stderr: expect.stringContaining(missing) });
    expect(listed.stdout).not.toContain(id);
    const verified = await runOn(out, 'verify', '--json');
    expect([verified.status, parseJson(verified)]).toMatchObject([
      1,
      { status: 'failed', run: id, findings: [{ page: null, message: expect.stringContaining(missing) }] },
    ]);
    expect(lines(await runOn(out, 'status', 'daily')).find((line) => line.includes(id))).toMatch(/ damaged /);
    const doctor = await runOn(out, 'doctor', '--json');
    expect(doctor.status).toBe(1);
    expect(parseJson(doctor)).toMatchObject({
      findings: expect.arrayContaining([
        expect.objectContaining({
          check: 'store',
          state: 'problem',
          message: expect.stringContaining(`${manifest} is missing`),
        }),
        expect.objectContaining({
          check: 'runs',
          state: 'problem',
          message: `run ${id} is damaged: its manifest is missing or was changed`,
          remedy: expect.stringContaining(`verify daily --run ${id} --out ${out}`),
        }),
      ]),
    });
    await runOn(out, 'start');
    expect((await runOn(out, 'verify', '--run', id)).status).toBe(1);
  });

  it('verifies the unfinished run if none is published, and rejects what is no run', async () => {
    const { out, run: id } = await anUnfinishedRun();
    expect(await runOn(out, 'verify')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`(unfinished run ${id}, `),
    });
    for (const [run, problem] of [
      ['../..', 'Invalid run ID'],
      ['20260101T000000Z-aaaaaab2d407', 'is not published'],
    ] as const) {
      const stderr = expect.stringContaining(problem);
      expect(await runOn(out, 'verify', '--run', run)).toMatchObject({ status: 2, stderr });
    }
  });
});

describe('status --runs', () => {
  it('prints the published runs in order; those before one whose run.json was changed, and then fails', async () => {
    const out = await aDirectory();
    const runs: RunSummary[] = [];
    await using service = await aService(5);
    for (const _ of [1, 2, 3]) {
      const { manifest } = jsonOf(await runLocalExport(out, service.baseUrl));
      runs.push(JSON.parse(await readFile(join(dirname(manifest ?? ''), 'run.json'), 'utf8')));
    }
    const ended = await runOn(out, 'status', '--runs', '--json');
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    expect(lines(ended).map((line) => JSON.parse(line))).toEqual(
      runs.map((run) => ({ ...run, location: join(out, run.manifest) })),
    );

    const [first, second] = runs;
    const changed = join(out, dirname(second?.manifest ?? ''), 'run.json');
    await writeFile(changed, '{}\n');
    const failed = await runOn(out, 'status', '--runs', '--json');
    expect(failed.status).toBe(1);
    expect(failed.stderr).toContain(`Error: PageConflictError: ${changed} does not match what this exporter wrote`);
    const [printed, failure] = lines(failed).map((line) => JSON.parse(line));
    expect([printed.run, failure.status]).toEqual([first?.run, 'failed']);
  });
});

describe('plan, abandon and doctor', () => {
  it('show what the next start requests; once the run is abandoned, that is a new run', async () => {
    const { out, run: id } = await anUnfinishedRun();
    const planned = parseJson(await runOn(out, 'plan', '--json'));
    expect(planned).toMatchObject({
      plan: { act: 'resume', run: id, page: 2 },
      request: { method: 'POST', headers: { 'X-ACME-API-KEY': '(environment variable REPORT_EXPORT_API_KEY)' } },
    });
    expect(JSON.stringify(planned)).not.toContain(key);

    // There is no terminal on which to confirm.
    expect(await runOn(out, 'abandon')).toMatchObject({ status: 2, stderr: expect.stringContaining('--yes') });
    expect(parseJson(await runOn(out, 'plan', '--json'))).toMatchObject({ plan: { act: 'resume' } });
    expect(await runOn(out, 'abandon', '--yes')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`Abandoned: run ${id}`),
    });
    expect(parseJson(await runOn(out, 'plan', '--json'))).toMatchObject({
      plan: { act: 'start', since: '1970-01-01T00:00:00Z' },
    });
    expect(parseJson(await runOn(out, 'status', '--json'))).toMatchObject({ exports: [{ state: 'never', runs: [] }] });
    expect(await runOn(out, 'abandon', '--yes')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('no unfinished run'),
    });
  });

  it('doctor finds that a run cannot write', async () => {
    const { out } = await aCompletedRun();
    await rename(join(out, 'daily'), join(out, '.moved'));
    // Root may write everywhere, but not below a file.
    await writeFile(join(out, 'daily'), '');
    const ended = await runOn(out, 'doctor', '--json');
    expect(ended.status).toBe(1);
    const message = `^ConfigurationError: Could not .*${join(out, 'daily')}/.*: part of its path is a file, not a directory`;
    expect((parseJson(ended) as { findings: unknown[] }).findings).toContainEqual({
      check: 'store',
      export: 'daily',
      state: 'problem',
      message: expect.stringMatching(message) as unknown,
      remedy: expect.stringContaining('can be read and written') as unknown,
    });
  });

  it('doctor says how to fix a service that is down, and a key that is missing or rejected', async () => {
    const { out } = await aCompletedRun();
    const problemsOf = (ended: CommandResult) =>
      (parseJson(ended) as { findings: { check: string; state: string; remedy: string }[] }).findings.filter(
        ({ state }) => state === 'problem',
      );
    const down = await runOn(out, 'doctor', '--json');
    expect(down.status).toBe(1);
    expect(problemsOf(down)).toMatchObject([{ check: 'service', remedy: expect.stringContaining('can be reached') }]);
    const keyless = await runInProcess(['doctor', '--out', out, '--json']);
    expect(problemsOf(keyless)).toMatchObject([
      { check: 'key', remedy: expect.stringContaining('REPORT_EXPORT_API_KEY') },
    ]);

    const own = await aDirectory();
    await using service = await aService(3);
    await runLocalExport(own, service.baseUrl);
    const before = service.exchanges.length;
    expect(await runOn(own, 'doctor')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('a valid page with'),
    });
    expect(service.exchanges.slice(before)).toHaveLength(1);
    const rejected = await runInProcess(['doctor', '--out', own, '--json'], {
      REPORT_EXPORT_API_KEY: 'another-key-altogether',
    });
    expect(problemsOf(rejected)).toMatchObject([{ check: 'key', remedy: expect.stringContaining('key is correct') }]);
    expect(rejected.stdout).not.toContain('another-key-altogether');
  });
});

describe('several exports in a directory', () => {
  it('that need attention are listed with --failed, which the exit status says', async () => {
    const out = await aDirectory();
    await using service = await aService(5, { broken: true });
    const settings = {
      services: { acme: { baseUrl: service.baseUrl, vendor: 'ACME' } },
      exports: ['broken', 'daily'].map((name) => ({ name, size: 2 })),
    };
    await writeFile(join(out, 'report-exporter.json'), JSON.stringify(settings));
    for (const [name, status] of [['broken', 1] as const, ['daily', 0] as const]) {
      expect(await runInProcess(['local', name, '--out', out], env)).toMatchObject({ status });
    }
    const ended = await runOn(out, 'status', '--failed', '--json');
    const broken = { export: 'broken', state: 'failed', pages: 1, lastFailure: { error: 'ConfigurationError' } };
    expect([ended.status, parseJson(ended)]).toMatchObject([1, { exports: [broken] }]);
    expect(await runOn(out, 'abandon', 'broken', '--yes')).toMatchObject({ status: 0 });
    expect(await runOn(out, 'status', '--failed')).toMatchObject({
      status: 0,
      stdout:
        'No export has failed, was interrupted, or is stale or unreadable (2 exports: 1 completed, 1 never completed)\n',
    });
    const stderr = expect.stringContaining('--failed: selects among all exports');
    expect(await runOn(out, 'status', 'daily', '--failed')).toMatchObject({ status: 2, stderr });
  });
});

describe('a command that only reads', () => {
  it('ends at once when it is interrupted, with 130', async () => {
    const { out, port } = await anUnfinishedRun();
    const reached = Promise.withResolvers<void>();
    const silent = createServer(() => reached.resolve());
    await new Promise<void>((resolve) => silent.listen(port, '127.0.0.1', resolve));
    onTestFinished(() => {
      silent.closeAllConnections();
      silent.close();
    });
    const doctor = start(['doctor', '--out', out], env);
    await reached.promise;
    doctor.process.kill('SIGINT');
    expect(await doctor.ended).toMatchObject({ status: 130, stderr: 'Interrupted\n' });
  });
});

describe('report', () => {
  it('writes one file about a run, published or not', async () => {
    const unfinished = await anUnfinishedRun();
    const completed = await aCompletedRun();
    for (const { out, run } of [unfinished, completed]) {
      const file = join(out, 'report.html');
      expect(await runOn(out, 'report', '--to', file)).toMatchObject({ status: 0, stdout: `${file}\n` });
      const html = await readFile(file, 'utf8');
      expect(html).toContain(run);
      expect(html).toContain(String.raw`{\"date\":{\"gte\":\"1970-01-01T00:00:00Z\"}}`);
      expect(html).not.toContain(key);
    }
    expect(await readFile(join(unfinished.out, 'report.html'), 'utf8')).toContain('ConfigurationError');
  });

  it('says why it cannot be written', async () => {
    const { out } = await anUnfinishedRun();
    const stderr = expect.stringMatching(/^Error: --to: cannot write .*: it is a directory\. Move it away\n$/);
    expect(await runOn(out, 'report', '--to', out)).toMatchObject({ status: 2, stderr });
  });
});

describe('every command', () => {
  const commands = ['status', 'start', 'verify', 'plan', 'abandon', 'doctor', 'report'];

  it.each(commands)('%s reports all problems of its usage at once, as text and as JSON', async (command) => {
    const ended = await runInProcess([command, 'daily', 'again', '--nope', '--out', 'x', '--stack', 'y', '--json']);
    expect(ended.status).toBe(2);
    const excess = ['start', 'plan'].includes(command) ? [] : ['again: unexpected argument'];
    for (const problem of [...excess, '--nope: no such option', '--out, --stack: use only one of them']) {
      expect(ended.stderr).toContain(`  ${problem}\n`);
      expect(parseJson(ended)).toMatchObject({ error: { message: expect.stringContaining(problem) } });
    }
  });

  it.each(commands)('%s explains itself with --help', async (command) => {
    const { status, stdout } = await runInProcess([command, '--help']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/Examples?:\n {2}\$ npx --no -- report-exporter /);
    expect(stdout).toContain('Exit status: ');
  });
});
