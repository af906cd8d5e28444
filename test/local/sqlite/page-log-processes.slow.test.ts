/** The SQLite page log, used by several processes at the same time, and by processes that are killed. */

import { spawnSync } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { anExportName, aRun, collect } from '../../support/builders.ts';
import { startScript } from '../../support/process/child-script.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { createSqlitePageLog } from '../../support/export/directory-store.ts';

describe('the SQLite page log', () => {
  const counter = new URL('../children/count-in-page-log.ts', import.meta.url);
  const opener = new URL('../children/open-page-logs.ts', import.meta.url);
  const pageLogger = new URL('../children/log-pages.ts', import.meta.url);

  it('loses no update when two processes replace the same state', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const exportName = anExportName();
    const counters = [1, 2].map(() => startScript(counter, file, exportName, '100'));
    expect(await Promise.all(counters.map(({ ended }) => ended))).toEqual([0, 0]);

    const log = createSqlitePageLog(file);
    expect(await log.exportState(exportName)).toEqual({ export: exportName, version: 200, sequence: 200 });
    log.close();
  });

  it('can be created by several processes at the same moment', async () => {
    await using directory = await temporaryDirectory();
    // SQLite reports a conflict for about one file in a hundred, hence so many files.
    const start = String(Date.now() + 500);
    const openers = [1, 2, 3].map(() => startScript(opener, directory.path, start));
    expect(await Promise.all(openers.map(({ ended }) => ended))).toEqual([0, 0, 0]);
    // If two processes close a file at the same time, SQLite may leave its temporary files.
    const files = (await readdir(directory.path)).filter((name) => name.endsWith('.sqlite'));
    expect(files).toHaveLength(150);
  });

  it('has every page that a process logged before it was killed', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const run = aRun();
    const parameters = [file, run.export, run.run];
    await using writer = startScript(pageLogger, ...parameters);
    await writer.waitForLine(/^20$/);
    await writer.kill();

    const log = createSqlitePageLog(file);
    const pages = (await collect(log.entries(run))).map(({ page }) => page);
    expect(pages.length).toBeGreaterThanOrEqual(writer.lines.length);
    expect(pages).toEqual(Array.from(pages, (_, index) => index + 1));
    log.close();
  });

  it('prints nothing, not even a warning about experimental features', () => {
    const script = `await import(${JSON.stringify(import.meta.resolve('../../../lib/local/sqlite/page-log.ts'))})`;
    const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '--eval', script]);
    expect({ stdout: String(stdout), stderr: String(stderr), status }).toEqual({ stdout: '', stderr: '', status: 0 });
  });
});
