/** `verify` and `plan`, of one export and of all, on a directory. */

import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it, onTestFinished } from 'vitest';
import { aDirectory, jsonOf, readManifest, runInProcess } from '../../support/process/command-line.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { simulatorApiKey, someReports, startTestSimulator } from '../../support/service/simulator-client.ts';

const env = { REPORT_EXPORT_API_KEY: simulatorApiKey };

/** A directory, and a function that runs an export there. The first run has five reports. */
async function aDirectoryOfExports() {
  const out = await aDirectory();
  const simulator = await startTestSimulator({ reports: inMemoryReports(someReports(5)) });
  onTestFinished(() => simulator.close());
  const names = new Set<string>();
  const runExport = async (name: string) => {
    names.add(name);
    const settings = {
      services: { service: { baseUrl: simulator.baseUrl, vendor: 'SERVICE', filterUntil: 'date.lt' } },
      exports: [...names].map((each) => ({ name: each, size: 2 })),
    };
    await writeFile(join(out, 'report-exporter.json'), JSON.stringify(settings));
    const { run, manifest } = jsonOf(await runInProcess(['local', name, '--out', out, '--json'], env));
    const [page] = (await readManifest(manifest ?? '')).pages;
    return { run, page: join(out, page?.key ?? '') };
  };
  return { out, runExport };
}

const damage = async (page: string) => await writeFile(page, (await readFile(page, 'utf8')).replace('r1', 'r9'));

/** The state of the export can no longer be read. */
function damageState(out: string, name: string): void {
  const database = new DatabaseSync(join(out, 'state.sqlite'));
  database.prepare(`UPDATE export_states SET state = json_set(state, '$.sequence', 1) WHERE export = ?`).run(name);
  database.close();
}

describe('verify', () => {
  it('checks the newest published run, also without a latest.json that names it', async () => {
    const { out, runExport } = await aDirectoryOfExports();
    const full = await runExport('reports');
    const pointer = join(out, 'reports/latest.json');
    const older = await readFile(pointer);
    const { run } = await runExport('reports');
    const words = ['verify', '--out', out];
    const verified = await runInProcess([...words, '--json'], env);
    expect(JSON.parse(verified.stdout)).toMatchObject({ status: 'ok', run, reports: 0, published: true });
    expect((await runInProcess(words, env)).stdout).toMatch(
      new RegExp(`^Verified: reports \\(run ${run}, 1 page, .*\\)\n$`),
    );

    await damage(full.page);
    const failed = await runInProcess([...words, '--run', full.run ?? '', '--json'], env);
    expect(failed.status).toBe(1);
    expect(JSON.parse(failed.stdout)).toMatchObject({ status: 'failed', findings: [{ page: 1 }], findingCount: 1 });

    for (const change of [() => writeFile(pointer, older), () => rm(pointer)]) {
      await change();
      const { status, stdout } = await runInProcess(words, env);
      expect({ status, stdout }).toEqual({
        status: 1,
        stdout: expect.stringMatching(`Verification failed: .*run ${run}`),
      });
      expect(stdout).toMatch(/latest\.json (is missing|points to run .*, not to this run)/);
    }
  });

  it('checks every published run with --all, and only the newest ones with --newest', async () => {
    const { out, runExport } = await aDirectoryOfExports();
    const [first, second] = [await runExport('reports'), await runExport('reports')];
    const bounds = ['--since', '2026-11-01', '--until', '2026-11-02'];
    const bounded = jsonOf(await runInProcess(['start', 'reports', '--out', out, ...bounds, '--json'], env));
    expect(bounded).toMatchObject({ status: 'completed' });
    await mkdir(join(out, 'reports/date=2026-11-20/run=20261120T020000Z-abcdefabcdef'), { recursive: true });
    const verify = async (...words: string[]) => {
      const { status, stdout, stderr } = await runInProcess(['verify', ...words, '--out', out, '--json'], env);
      return { status, runs: JSON.parse(stdout).runs, stderr };
    };
    const intact = await verify('--all');
    const expected = [first, second, bounded].map(({ run }) => ({ run, status: 'ok' }));
    expect(intact).toMatchObject({
      status: 0,
      runs: expected.sort((a, b) => ((a.run ?? '') < (b.run ?? '') ? -1 : 1)),
    });
    expect(intact.stderr.split('\n').at(-2)).toBe('3 runs: 3 ok');

    await damage(first.page);
    const older = expect.objectContaining({ run: first.run, status: 'failed', findingCount: 1 });
    const changed = await verify('--all');
    expect(changed).toMatchObject({ status: 1, runs: expect.arrayContaining([older]) });
    expect(changed.runs).toHaveLength(3);
    expect(await verify('--newest')).toMatchObject({ status: 0, runs: [{ run: second.run, status: 'ok' }] });

    // A manifest that was changed or deleted does not hide the other runs.
    const manifest = join(dirname(second.page), 'manifest.json');
    for (const change of [() => writeFile(manifest, '{'), () => rm(manifest)]) {
      await change();
      const { status, runs } = await verify('--all');
      const lost = { run: second.run, status: 'failed', findings: [{ page: null, message: expect.any(String) }] };
      expect({ status, runs }).toEqual({ status: 1, runs: expect.arrayContaining([expect.objectContaining(lost)]) });
      expect(runs).toHaveLength(3);
    }
  });

  it('checks every export with --newest, and fails if one of them does', async () => {
    const { out, runExport } = await aDirectoryOfExports();
    const words = ['verify', '--newest', '--out', out];
    await runExport('a-intact');
    const empty = await runInProcess([...words, '--json'], env);
    expect(empty.status).toBe(0);
    expect(JSON.parse(empty.stdout)).toMatchObject({ status: 'ok', runs: [{ status: 'ok', pages: 3 }] });

    const { page } = await runExport('b-changed');
    await damage(page);
    await runExport('c-unreadable');
    damageState(out, 'c-unreadable');
    const failed = await runInProcess([...words, '--json'], env);
    expect(failed.status).toBe(1);
    expect(JSON.parse(failed.stdout)).toMatchObject({
      status: 'failed',
      runs: [
        { export: 'a-intact', status: 'ok' },
        { export: 'b-changed', status: 'failed', findings: [{ page: 1 }] },
        { export: 'c-unreadable', error: { name: 'PageConflictError' } },
      ],
    });

    const piped = await runInProcess(words, env);
    expect(piped.status).toBe(1);
    const lines = piped.stdout.split('\n');
    expect(lines.filter((line) => !line.startsWith(' '))).toEqual([
      expect.stringMatching(/^Verified: a-intact \(run /),
      expect.stringMatching(/^Verification failed: b-changed \(run .*, 3 pages, 5 reports, /),
      'Unreadable: c-unreadable',
      '3 exports: 1 unreadable, 1 failed, 1 ok',
      '',
    ]);
  });
});

it.each([
  ['verify', /--all: verifies every[^]*--run: selects/],
  ['plan', /--all: plans every/],
])('%s takes no name with --all', async (command, message) => {
  const run = command === 'verify' ? ['--run', '20261120T020000Z-1f3a5cb2d407'] : [];
  const ended = await runInProcess([command, 'daily', '--all', ...run]);
  expect(ended).toMatchObject({ status: 2, stderr: expect.stringMatching(message) });
});
