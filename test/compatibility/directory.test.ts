/** An output directory of an earlier version: commands show it, and the next start resumes what is unfinished. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import { exportDefinition } from '../../lib/core/settings/settings.ts';
import { runLocally, stateFileIn } from '../../lib/local/run.ts';
import { createSqlitePageLog } from '../../lib/local/sqlite/page-log.ts';
import { openRunNotes } from '../../lib/local/sqlite/run-notes.ts';
import { runInProcess } from '../support/process/command-line.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { expectPublished } from './expect-published.ts';
import { copyDirectory, filesOf, fixture, versions } from './fixtures.ts';
import { createService, type Situation, situations, source } from './scenario.ts';

const local = situations.filter(({ onlyOnAws }) => onlyOnAws !== true);

async function aCopy(version: string) {
  const directory = await temporaryDirectory();
  await copyDirectory(version, directory.path);
  return directory;
}

/** The state of the export, and the definition that the directory has of it. */
async function readExport(out: string, name: string) {
  const log = createSqlitePageLog(stateFileIn(out));
  const notes = openRunNotes(stateFileIn(out));
  const state = await log.exportState(name);
  const settings = notes.settings(name);
  log.close();
  notes.close();
  if (state === undefined || settings === undefined) throw new Error(`${name} has no state or no settings`);
  return { state, definition: exportDefinition(settings.export, source) };
}

/** Every page and manifest of the fixture, by path. */
async function publishedIn(version: string, read: (file: string) => Promise<Buffer>) {
  const files = filesOf(version).filter((file) => /^directory\/.*\/(page-\d+\.xml|manifest\.json)$/.test(file));
  const keys = files.map((file) => file.slice('directory/'.length));
  return new Map(await Promise.all(keys.map(async (key) => [key, (await read(key)).toString()] as const)));
}

describe.each(versions)('a directory of version %s', (version) => {
  it.each(local)('is resumed: $export', async (situation: Situation) => {
    await using directory = await aCopy(version);
    const out = directory.path;
    const before = await readExport(out, situation.export);
    const service = createService();
    const outcome = await runLocally({
      definition: before.definition,
      service,
      out,
      startInput: {},
      runtime: systemRuntime,
      openObserver: () => ({ emit: () => {}, onRetry: () => {}, close: () => {} }),
    });

    expect(outcome).toMatchObject({ status: 'completed' });
    const { state } = await readExport(out, situation.export);
    await expectPublished(
      situation,
      before.state,
      state,
      service,
      async (key) => await readFile(join(out, key), 'utf8'),
    );
    // Nothing that was there before has changed.
    expect(await publishedIn(version, (key) => readFile(join(out, key)))).toEqual(
      await publishedIn(version, (key) => readFile(fixture(version, `directory/${key}`))),
    );
  });

  it('is shown by status', async () => {
    await using directory = await aCopy(version);
    const { status, stdout, stderr } = await runInProcess(['status', '--out', directory.path, '--json']);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const { exports } = JSON.parse(stdout) as { readonly exports: readonly { export: string; state: string }[] };
    expect(Object.fromEntries(exports.map(({ export: name, state }) => [name, state]))).toEqual({
      completed: 'completed',
      interrupted: 'stopped',
      stored: 'stopped',
      failed: 'failed',
      abandoned: 'failed',
      unpublished: 'stopped',
      unlisted: 'stopped',
    });
  });

  it.each(local)('is shown by the commands that read one export: $export', async ({ export: name, next }) => {
    await using directory = await aCopy(version);
    const on = [name, '--out', directory.path];
    const runsOf = async () => {
      const { status, stdout, stderr } = await runInProcess(['status', ...on, '--json']);
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      const { exports } = JSON.parse(stdout) as { readonly exports: readonly { runs: readonly { state: string }[] }[] };
      return exports.flatMap(({ runs }) => runs.map(({ state }) => state));
    };
    const published = name === 'completed' || name === 'interrupted' ? ['completed'] : [];
    const unpublished = { failed: ['failed'], abandoned: ['abandoned'], completed: [] }[name] ?? ['stopped'];
    expect(await runsOf()).toEqual([...unpublished, ...published]);

    const plan = await runInProcess(['plan', ...on, '--json']);
    expect(plan).toMatchObject({ status: 0, stderr: '' });
    expect((JSON.parse(plan.stdout) as { plan: { act: string } }).plan.act).toBe(next.resumes ? 'resume' : 'start');
    const report = await runInProcess(['report', ...on, '--to', join(directory.path, 'report.html')]);
    expect(report).toMatchObject({ status: 0, stderr: '' });
    // An abandoned run is not verified.
    expect((await runInProcess(['verify', ...on])).status).toBe(name === 'abandoned' ? 2 : 0);
    const pages = await runInProcess(['pages', ...on, '--json']);
    const lines = pages.status === 0 ? pages.stdout.trim().split('\n').length : 0;
    expect({ status: pages.status, lines }).toEqual(
      published.length > 0 ? { status: 0, lines: 5 } : { status: 2, lines: 0 },
    );
  });

  it('has the incidents of its runs', async () => {
    await using directory = await aCopy(version);
    const { state } = await readExport(directory.path, 'failed');
    const notes = openRunNotes(stateFileIn(directory.path));
    const incidents = state.active === undefined ? [] : [...notes.incidents(state.active)];
    notes.close();
    expect(incidents).toMatchObject([
      { kind: 'wait', page: 2, seconds: 5 },
      { kind: 'failed-attempt', page: 3, error: 'RequestRejectedError' },
      { kind: 'failed-run', page: 3, error: 'RequestRejectedError' },
    ]);
  });
});
