/** The operator's commands on a directory, as a person or a script types them. */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it, onTestFinished } from 'vitest';
import { always, errorResponse, onPage } from '../../lib/report-service/simulator/faults.ts';
import { inMemoryReports } from '../../lib/report-service/simulator/report-source.ts';
import { startSimulator } from '../../lib/report-service/simulator/simulator.ts';
import { aDirectory, type Ended, jsonOf, readManifest, run, runHere, start } from '../support/process/command-line.ts';
import { someReports } from '../support/service/simulator-client.ts';

const key = 'the-key-of-this-service';
const env = { REPORT_EXPORT_API_KEY: key };

/** A service with so many reports; broken, it lets nobody go on to page 2, nor, where it is opened again, to any. */
async function aService(count: number, { broken = false, port = 0 } = {}) {
  const faults = broken ? (port === 0 ? onPage(2, errorResponse(403)) : always(errorResponse(403))) : undefined;
  return await startSimulator({
    vendor: 'ACME',
    apiKey: key,
    reports: inMemoryReports(someReports(count)),
    faults,
    port,
  });
}
const local = (out: string, url: string) =>
  run(
    ['local', '--out', out, '--base-url', url, '--vendor', 'ACME', '--size', '2', '--export', 'daily', '--json'],
    env,
  );

/** A directory with a completed run of three pages and five reports. */
async function aCompletedRun() {
  const out = await aDirectory();
  await using service = await aService(5);
  const report = jsonOf(await local(out, service.baseUrl));
  expect(report).toMatchObject({ status: 'completed', pages: 3, reports: 5 });
  const manifest = await readManifest(report.manifest ?? '');
  return { out, report, pages: manifest.pages.map((page) => join(out, page.key)), run: String(report.run) };
}

/** A directory whose run stopped behind its first page. */
async function anUnfinishedRun() {
  const out = await aDirectory();
  await using service = await aService(5, { broken: true });
  const report = jsonOf(await local(out, service.baseUrl));
  expect(report).toMatchObject({ status: 'failed', pages: 1 });
  return { out, run: String(report.run), port: Number(new URL(service.baseUrl).port) };
}
const on = (out: string, ...words: string[]): Promise<Ended> => runHere([...words, '--out', out], env);
const lines = ({ stdout }: Ended) => stdout.replace(/\n$/, '').split('\n');
const parsed = ({ stdout }: Ended) => JSON.parse(stdout.trimEnd()) as Readonly<Record<string, unknown>>;

describe('status', () => {
  it('is tab-separated values off a terminal, without a colour', async () => {
    const { out, report, run: id } = await aCompletedRun();
    const ended = await run(['status', '--out', out], env);
    const [heading = '', row = ''] = lines(ended);
    const values = Object.fromEntries(heading.split('\t').map((name, column) => [name, row.split('\t')[column]]));
    expect(values).toMatchObject({
      export: 'daily',
      run: id,
      state: 'completed',
      pages: '3',
      reports: '5',
      bytes: String(report.bytes),
      watermark: report.watermark,
      next: 'manual',
      last_error: '',
    });
    expect(ended.stdout + ended.stderr).not.toContain('\x1b');
  });

  it('says in words why a run stopped, for programs too', async () => {
    const { out, run: id } = await anUnfinishedRun();
    const { exports } = parsed(await on(out, 'status', 'daily', '--json')) as { exports: unknown };
    expect(exports).toMatchObject([
      {
        export: 'daily',
        runs: [
          { run: id, state: 'failed', pages: 1, lastIncident: { kind: 'failed-run', error: 'ConfigurationError' } },
        ],
      },
    ]);
  });

  it('looks again and again with --watch, until it is interrupted or nobody reads', async () => {
    const { out } = await aCompletedRun();
    const watching = start(['status', '--watch', '--json', '--out', out], env);
    await expect.poll(() => watching.stdout().split('\n').length).toBeGreaterThan(2);
    watching.process.kill('SIGINT');
    expect((await watching.ended).status).toBe(0);
  });

  it('ends --watch when whoever read has left', async () => {
    const { out } = await aCompletedRun();
    const watching = start(['status', '--watch', '--json', '--out', out], env);
    await expect.poll(() => watching.stdout()).not.toBe('');
    watching.process.stdout?.destroy();
    expect((await watching.ended).status).toBe(0);
  });

  it('shows a damaged export beside the others, and exits with 1', async () => {
    const { out } = await aCompletedRun();
    const database = new DatabaseSync(join(out, 'state.sqlite'));
    database.exec(`UPDATE export_states SET state = json_set(state, '$.sequence', 1)`);
    database.close();
    const ended = await on(out, 'status', '--json');
    expect(ended.status).toBe(1);
    expect(parsed(ended)).toMatchObject({ exports: [{ export: 'daily', error: { name: 'PageConflictError' } }] });
  });
});

describe('start', () => {
  it('does not take over the settings of a start that was refused', async () => {
    const { out, port } = await anUnfinishedRun();
    const refused = await runHere(['local', '--out', out, '--export', 'daily', '--json'], env);
    expect(refused.status).toBe(2);
    await using service = await aService(5, { port });
    expect(jsonOf(await on(out, 'start', '--json'))).toMatchObject({ status: 'completed', pages: 3 });
    expect(service.exchanges).toHaveLength(2);
  });

  it('goes on with a run as it was started, without being told how', async () => {
    const { out, run: id, port } = await anUnfinishedRun();
    await using service = await aService(5, { port });
    const ended = await on(out, 'start', '--json');
    expect(ended.status).toBe(0);
    expect(jsonOf(ended)).toMatchObject({ status: 'completed', export: 'daily', run: id, pages: 3, reports: 5 });
    expect(service.exchanges).toHaveLength(2);
    expect(ended.stderr).toMatch(/^Run .* goes on behind 1 page stored already/);

    const again = jsonOf(await on(out, 'start', 'daily', '--since', '2026-11-20T00:00:04Z', '--json'));
    expect(again).toMatchObject({ status: 'completed', since: '2026-11-20T00:00:04Z', reports: 2 });
  });

  it('exits as the run does', async () => {
    const { out, run: id, port } = await anUnfinishedRun();
    await using _ = await aService(5, { broken: true, port });
    const failed = await on(out, 'start', '--json');
    expect(failed.status).toBe(1);
    expect(jsonOf(failed)).toMatchObject({ status: 'failed', run: id, error: { name: 'ConfigurationError' } });
    expect(await on(out, 'start', '--since', 'yesterday')).toMatchObject({ status: 2 });
  });

  it('names the exports there are where the name is wrong, and where nothing is says what to do', async () => {
    const { out } = await aCompletedRun();
    const wrong = await on(out, 'start', 'dayly');
    expect(wrong).toMatchObject({ status: 2, stderr: expect.stringMatching(/no export dayly .*Its exports: daily/) });
    const nowhere = await on(join(out, 'nowhere'), 'start');
    expect(nowhere).toMatchObject({ status: 2, stderr: expect.stringContaining('npm start -- --out') });
  });
});

describe('verify', () => {
  it('misses latest.json, and one that was put back to an older run', async () => {
    const { out, run: older } = await aCompletedRun();
    const latest = join(out, 'daily/latest.json');
    const before = await readFile(latest);
    await using service = await aService(5);
    // Another port is another service, so the start has to say where to begin.
    const place = ['--out', out, '--base-url', service.baseUrl, '--vendor', 'ACME', '--export', 'daily'];
    const { run: newer } = jsonOf(await runHere(['local', ...place, '--since', '1970-01-01T00:00:00Z', '--json'], env));
    expect(newer).not.toBe(older);
    await writeFile(latest, before);
    expect(parsed(await on(out, 'verify', '--json'))).toMatchObject({ status: 'wrong', run: newer, findingsInAll: 1 });
    await rm(latest);
    expect(parsed(await on(out, 'verify', '--json'))).toMatchObject({ status: 'wrong', run: newer, findingsInAll: 1 });
  });

  it('finds an export as it was, and says what is wrong where, when it is not', async () => {
    const { out, pages, run: id } = await aCompletedRun();
    const [, second = ''] = pages;
    expect(await on(out, 'verify')).toMatchObject({ status: 0, stdout: expect.stringContaining(`OK: run ${id}`) });

    await writeFile(second, (await readFile(second, 'utf8')).replace('r3', 'r9'));
    const ended = await on(out, 'verify', '--json', '--run', id);
    expect(ended.status).toBe(1);
    expect(parsed(ended)).toMatchObject({ status: 'wrong', run: id, findings: [{ page: 2 }], findingsInAll: 1 });
    expect(ended.stderr).toContain(`${second} has other content`);

    await rm(second);
    expect(await on(out, 'verify')).toMatchObject({
      status: 1,
      stdout: expect.stringContaining(`${second} is missing`),
    });
  });

  it('leaves the folder as it was, and misses the facts of every page where their file is gone', async () => {
    const { out, pages } = await aCompletedRun();
    const folder = dirname(pages[0] ?? '');
    const before = await readdir(folder);
    expect((await on(out, 'verify')).status).toBe(0);
    expect(await readdir(folder)).toEqual(before);

    await rm(join(folder, '.page-metadata.sqlite'));
    const ended = await on(out, 'verify', '--json');
    expect(ended.status).toBe(1);
    const { findings } = parsed(ended) as { findings: { page: number; message: string }[] };
    expect(findings.map(({ page }) => page).toSorted((a, b) => a - b)).toEqual([1, 2, 3]);
    for (const { message } of findings)
      expect(message).toContain(`${join(folder, '.page-metadata.sqlite')}: the file does not exist`);
    expect(await readdir(folder)).toEqual(before.filter((name) => name !== '.page-metadata.sqlite'));
  });

  it('takes a pipe or a link in place of a page for a finding, and waits for neither', async () => {
    const { out, pages } = await aCompletedRun();
    const [first = '', second = ''] = pages;
    await rm(first);
    execFileSync('mkfifo', [first]);
    await rm(second);
    await symlink(second, second);
    const { findings } = parsed(await on(out, 'verify', '--json')) as { findings: { page: number; message: string }[] };
    expect(findings.toSorted((a, b) => a.page - b.page)).toMatchObject([
      { page: 1, message: expect.stringContaining('is missing') },
      { page: 2, message: expect.stringContaining('cannot be read') },
    ]);
  });

  it('says that the manifest of the newest run is gone, whether the run is named or not', async () => {
    const { out, report, run: id } = await aCompletedRun();
    await rm(report.manifest ?? '');
    for (const words of [[], ['--run', id]]) {
      const ended = await on(out, 'verify', ...words);
      expect(ended).toMatchObject({
        status: 1,
        stdout: expect.stringMatching(`run ${id} .*\\n.*manifest.json is gone`),
      });
    }
  });

  it('looks at an unfinished run where none is published', async () => {
    const { out, run: id } = await anUnfinishedRun();
    expect(await on(out, 'verify')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`OK: unfinished run ${id}`),
    });
  });

  it('refuses what is no run, and a run that is not there', async () => {
    const { out } = await aCompletedRun();
    expect(await on(out, 'verify', '--run', '../..')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('Invalid run ID'),
    });
    const gone = await on(out, 'verify', '--run', '20260101T000000Z-aaaaaa');
    expect(gone).toMatchObject({ status: 2, stderr: expect.stringContaining('has no manifest') });
  });
});

describe('pages', () => {
  it('prints where the pages of the newest published run lie, in order', async () => {
    const { out, pages } = await aCompletedRun();
    expect(lines(await on(out, 'pages'))).toEqual(pages);
    expect(lines(await on(out, 'pages', 'daily', '--json')).map((line) => JSON.parse(line))).toMatchObject(
      pages.map((location, index) => ({ page: index + 1, location })),
    );
  });

  it('streams their bytes, and their reports one by one', async () => {
    const { out, pages } = await aCompletedRun();
    const bytes = await Promise.all(pages.map((page) => readFile(page)));
    const { stdout } = await on(out, 'pages', '--cat');
    expect(createHash('sha256').update(stdout).digest('hex')).toBe(
      createHash('sha256').update(Buffer.concat(bytes)).digest('hex'),
    );
    const reports = lines(await on(out, 'pages', '--reports', '--json')).map((line) => JSON.parse(line));
    expect(reports.map(({ page, report }) => [page, report])).toEqual([
      [1, 1],
      [1, 2],
      [2, 1],
      [2, 2],
      [3, 1],
    ]);
    expect(reports.map(({ xml }) => /id="(r\d)"/.exec(xml)?.[1])).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
  });

  it('shows nothing of a run that is not published', async () => {
    const { out, run: id } = await anUnfinishedRun();
    for (const words of [[], ['--run', id]]) {
      expect(await on(out, 'pages', ...words)).toMatchObject({ status: 2, stdout: '' });
    }
  });
});

describe('plan, abandon and doctor', () => {
  it('tell what the next start asks for, give the run up, and the plan is another', async () => {
    const { out, run: id } = await anUnfinishedRun();
    const planned = parsed(await on(out, 'plan', '--json'));
    expect(planned).toMatchObject({
      plan: { act: 'resume', run: id, page: 2 },
      request: { method: 'POST', headers: { 'X-ACME-API-KEY': '(environment variable REPORT_EXPORT_API_KEY)' } },
    });
    expect(JSON.stringify(planned)).not.toContain(key);

    // Nobody can be asked here, and silence is no consent.
    expect(await on(out, 'abandon')).toMatchObject({ status: 2, stderr: expect.stringContaining('--yes') });
    expect(parsed(await on(out, 'plan', '--json'))).toMatchObject({ plan: { act: 'resume' } });
    expect(await on(out, 'abandon', '--yes')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`Given up: run ${id}`),
    });
    expect(parsed(await on(out, 'plan', '--json'))).toMatchObject({
      plan: { act: 'start', since: '1970-01-01T00:00:00Z' },
    });
    expect(parsed(await on(out, 'status', '--json'))).toMatchObject({
      exports: [{ runs: [{ run: id, state: 'abandoned' }] }],
    });
    expect(await on(out, 'abandon', '--yes')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('no unfinished run'),
    });
  });

  it('a doctor finds nothing wrong with a simulated service', async () => {
    const out = await aDirectory();
    await runHere(['local', '--out', out]);
    const ended = await on(out, 'doctor', '--json');
    expect(ended.status).toBe(0);
    const { status, findings } = parsed(ended) as { status: string; findings: { check: string }[] };
    expect(status).toBe('ok');
    expect(findings.map(({ check }) => check)).toEqual([
      'versions',
      'place',
      'settings',
      'state',
      'store',
      'runs',
      'schedule',
      'key',
      'service',
      'clock',
    ]);
  });

  it('a doctor names the remedy for a service that is down, a key that is missing, and one that is refused', async () => {
    const { out } = await aCompletedRun();
    const problemsOf = (ended: Ended) =>
      (parsed(ended) as { findings: { check: string; state: string; remedy: string }[] }).findings.filter(
        ({ state }) => state === 'problem',
      );
    const down = await on(out, 'doctor', '--json');
    expect(down.status).toBe(1);
    expect(problemsOf(down)).toMatchObject([{ check: 'service', remedy: expect.stringContaining('can be reached') }]);
    const keyless = await runHere(['doctor', '--out', out, '--json']);
    expect(problemsOf(keyless)).toMatchObject([
      { check: 'key', remedy: expect.stringContaining('REPORT_EXPORT_API_KEY') },
    ]);

    const own = await aDirectory();
    await using service = await aService(3);
    await local(own, service.baseUrl);
    const before = service.exchanges.length;
    expect(await on(own, 'doctor')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('good page of size 1'),
    });
    expect(service.exchanges.slice(before)).toHaveLength(1);
    const refused = await runHere(['doctor', '--out', own, '--json'], {
      REPORT_EXPORT_API_KEY: 'another-key-altogether',
    });
    expect(problemsOf(refused)).toMatchObject([{ check: 'key', remedy: expect.stringContaining('key is right') }]);
    expect(refused.stdout).not.toContain('another-key-altogether');
    expect(lines(await on(own, 'pages'))).toHaveLength(2);
  });
});

describe('a command that only looks', () => {
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
    expect((await doctor.ended).status).toBe(130);
  });

  it('blames nothing but the state where that is damaged', async () => {
    const { out } = await aCompletedRun();
    const database = new DatabaseSync(join(out, 'state.sqlite'));
    database.exec(`UPDATE export_states SET state = json_set(state, '$.sequence', 1)`);
    database.close();
    const { findings } = parsed(await on(out, 'doctor', '--json')) as { findings: { check: string; state: string }[] };
    expect(findings.filter(({ state }) => state === 'problem')).toMatchObject([
      { check: 'state' },
      { check: 'service' },
    ]);
  });
});

describe('report', () => {
  it('writes one file about a run, published or not', async () => {
    const { out, run: id } = await anUnfinishedRun();
    const file = join(out, 'report.html');
    expect(await on(out, 'report', '--to', file)).toMatchObject({ status: 0, stdout: `${file}\n` });
    const html = await readFile(file, 'utf8');
    expect(html).toContain(id);
    expect(html).toContain('ConfigurationError');
    expect(html).not.toContain(key);
    expect(await on(out, 'report', '--to', join(out, 'no/such/folder.html'))).toMatchObject({ status: 2 });
  });
});

describe('every command of an operator', () => {
  const commands = ['status', 'start', 'verify', 'pages', 'plan', 'abandon', 'doctor', 'report'];

  it.each(commands)('%s names every mistake in its usage at once, in words and as JSON', async (command) => {
    const ended = await runHere([command, 'daily', 'again', '--nope', '--out', 'x', '--stack', 'y', '--json']);
    expect(ended.status).toBe(2);
    for (const problem of [
      'again: unexpected argument',
      '--nope: no such option',
      '--out, --stack: name one of them',
    ]) {
      expect(ended.stderr).toContain(`  ${problem}\n`);
      expect(parsed(ended)).toMatchObject({ error: { message: expect.stringContaining(problem) } });
    }
  });

  it.each(commands)('%s teaches with --help', async (command) => {
    const { status, stdout } = await runHere([command, '--help']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/Examples?:\n {2}\$ npx report-exporter /);
    expect(stdout).toContain('Exit status: ');
  });
});
