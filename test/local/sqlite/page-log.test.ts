import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';
import { editedPageLogContract, type Kept } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { aHead, anExportName, aPageEntry, aRun, collect } from '../../support/builders.ts';
import { startScript } from '../../support/child-script.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

// Batches hold 500 entries; each append waits for the disk.
const enoughForThreeBatches = { manyEntries: 1_200 };

pageLogContract(
  'The SQLite page log',
  async () => {
    const directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const log = createSqlitePageLog(file);
    const another = createSqlitePageLog(file);
    return {
      log,
      another,
      async cleanup() {
        log.close();
        another.close();
        await directory.remove();
      },
    };
  },
  enoughForThreeBatches,
);

editedPageLogContract('The SQLite page log', async () => {
  const directory = await temporaryDirectory();
  const file = join(directory.path, 'state.sqlite');
  const log = createSqlitePageLog(file);
  const hand = new DatabaseSync(file);
  const edit = (table: string, column: string, where: string, change: (kept: Kept) => Kept) => {
    const row = hand.prepare(`SELECT ${column} AS json, checksum FROM ${table} WHERE ${where}`).get();
    const { checksum, ...kept } = change({ ...JSON.parse(String(row?.json)), checksum: row?.checksum });
    // The column takes text only, and no nothing.
    const text = typeof checksum === 'string' ? checksum : String(checksum);
    hand.prepare(`UPDATE ${table} SET ${column} = ?, checksum = ? WHERE ${where}`).run(JSON.stringify(kept), text);
  };
  return {
    log,
    name: file,
    editHead: async (name, change) => edit('export_states', 'state', `export = '${name}'`, change),
    editPage: async ({ export: name, run, page }, change) =>
      edit('pages', 'entry', `export = '${name}' AND run = '${run}' AND page = ${page}`, change),
    async cleanup() {
      hand.close();
      log.close();
      await directory.remove();
    },
  };
});

describe('the SQLite page log', { timeout: 60_000 }, () => {
  const counter = new URL('../children/count-in-page-log.ts', import.meta.url);
  const opener = new URL('../children/open-page-logs.ts', import.meta.url);
  const pageLogger = new URL('../children/log-pages.ts', import.meta.url);

  it('makes its file and the directories on the way, remembers, and leaves one file when closed', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'new', 'directory', 'state.sqlite');
    const head = aHead();
    const first = createSqlitePageLog(file);
    await first.replaceState(head);
    first.close();
    first.close();

    const second = createSqlitePageLog(file);
    expect(await second.exportState(head.export)).toEqual(head);
    second.close();
    expect(await readdir(join(directory.path, 'new', 'directory'))).toEqual(['state.sqlite']);
  });

  it('loses no update of two processes that change the same head', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const exportName = anExportName();
    const counters = [1, 2].map(() => startScript(counter, file, exportName, '100'));
    expect(await Promise.all(counters.map(({ ended }) => ended))).toEqual([0, 0]);

    const log = createSqlitePageLog(file);
    expect(await log.exportState(exportName)).toEqual({ export: exportName, version: 200, sequence: 200 });
    log.close();
  });

  it('may be made by several processes at the very same moment', async () => {
    await using directory = await temporaryDirectory();
    // SQLite refuses the second of them about once in a hundred times: hence so many files.
    const start = String(Date.now() + 500);
    const openers = [1, 2, 3].map(() => startScript(opener, directory.path, start));
    expect(await Promise.all(openers.map(({ ended }) => ended))).toEqual([0, 0, 0]);
    // Where two close at once, SQLite may leave its own files beside one of them.
    const files = (await readdir(directory.path)).filter((name) => name.endsWith('.sqlite'));
    expect(files).toHaveLength(150);
  });

  it('is written to while another connection is in the midst of reading', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const log = createSqlitePageLog(file);
    const reader = new DatabaseSync(file);
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM pages').get();

    const entry = aPageEntry();
    expect(await log.append(entry)).toEqual(entry);
    reader.close();
    log.close();
  });

  it('has every page that a killed process knew to be logged', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const run = aRun();
    const parameters = [file, run.export, run.run];
    await using writer = startScript(pageLogger, ...parameters);
    await writer.said(/^20$/);
    await writer.kill();

    const log = createSqlitePageLog(file);
    const pages = (await collect(log.entries(run))).map(({ page }) => page);
    expect(pages.length).toBeGreaterThanOrEqual(writer.lines.length);
    expect(pages).toEqual(Array.from(pages, (_, index) => index + 1));
    log.close();
  });

  it('holds nothing open between two pages that a slow reader takes, so that writers can clear up', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const log = createSqlitePageLog(file);
    const { export: exportName, run } = aRun();
    for (const page of [1, 2, 3]) await log.append(aPageEntry({ export: exportName, run, page }));

    const other = new DatabaseSync(file);
    for await (const _ of log.entries({ export: exportName, run })) {
      expect(other.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()).toMatchObject({ busy: 0 });
    }
    other.close();
    log.close();
  });

  describe('with columns that say otherwise than what they stand beside', () => {
    const edited = async (sql: string) => {
      const directory = await temporaryDirectory();
      const file = join(directory.path, 'state.sqlite');
      const log = createSqlitePageLog(file);
      const { run } = aRun();
      for (const page of [1, 2, 3]) await log.append(aPageEntry({ export: 'reports', run, page }));
      await log.replaceState(aHead({ export: 'reports' }));
      const hand = new DatabaseSync(file);
      hand.exec('PRAGMA ignore_check_constraints = ON');
      hand.exec(sql);
      hand.close();
      const dispose = async () => {
        log.close();
        await directory.remove();
      };
      return { log, run: { export: 'reports', run }, [Symbol.asyncDispose]: dispose };
    };

    it('refuses a head of two versions, which could never be replaced', async () => {
      await using state = await edited('UPDATE export_states SET version = 7');
      await expect(state.log.exportState('reports')).rejects.toMatchObject({
        name: 'PageConflictError',
        message: expect.stringMatching(/it has two versions.*delete the row of reports from its table export_states/),
      });
    });

    it.each([
      ['that comes later', 'UPDATE pages SET page = 9 WHERE page = 2', 'page 9'],
      ['no number can hold', 'UPDATE pages SET page = 9007199254740993 WHERE page = 3', 'too large'],
    ])('does not take an entry for that of a page %s, nor goes on for ever', async (_, sql, says) => {
      await using state = await edited(sql);
      await expect(collect(state.log.entries(state.run))).rejects.toThrow(says);
    });

    it('does not come to an entry before all others, which the manifest then misses', async () => {
      await using state = await edited('UPDATE pages SET page = -9 WHERE page = 1');
      expect((await collect(state.log.entries(state.run))).map(({ page }) => page)).toEqual([2, 3]);
    });

    it.each([
      ["UPDATE pages SET entry = '{\"page'", 'PageConflictError'],
      ["UPDATE pages SET entry = CAST(x'ff00fe' AS TEXT)", 'PageConflictError'],
      ["UPDATE pages SET entry = 'null'", 'PageConflictError'],
    ])('takes nothing from text that is no JSON: %s', async (sql, name) => {
      await using state = await edited(sql);
      await expect(state.log.last(state.run)).rejects.toMatchObject({ name });
    });
  });

  it('prints nothing of its own, no warning of an experiment either', () => {
    const script = `await import(${JSON.stringify(import.meta.resolve('../../../lib/local/sqlite/page-log.ts'))})`;
    const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '--eval', script]);
    expect({ stdout: String(stdout), stderr: String(stderr), status }).toEqual({ stdout: '', stderr: '', status: 0 });
  });
});

describe('a file that is no page log is named, with what to do', () => {
  const opening = (file: string) => () => createSqlitePageLog(file).close();
  const refused = (message: RegExp) =>
    expect.objectContaining({ name: 'ConfigurationError', message: matching(message) });
  const matching = (message: RegExp) => expect.stringMatching(message) as unknown as string;

  it('not a database at all', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    await writeFile(file, 'a letter to the editor\n'.repeat(500));
    expect(opening(file)).toThrow(refused(/state\.sqlite: .*not a database.*move it away/));
  });

  it("another program's database", async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const theirs = new DatabaseSync(file);
    theirs.exec('CREATE TABLE bookmarks (address TEXT)');
    theirs.close();
    expect(opening(file)).toThrow(refused(/state\.sqlite is another program's SQLite file/));
  });

  it.each([0, 1, -1])('one of schema %i, which was never released', async (version) => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    opening(file)();
    const older = new DatabaseSync(file);
    older.exec(`PRAGMA user_version = ${version}`);
    older.close();
    expect(opening(file)).toThrow(refused(/state\.sqlite is of schema -?\d, which .*move it away/));
  });

  it.each([
    ['a table dropped', 'DROP TABLE pages'],
    ['a column renamed', 'ALTER TABLE export_states RENAME COLUMN checksum TO stamp'],
  ])('one with %s', async (_, sql) => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    opening(file)();
    const edited = new DatabaseSync(file);
    edited.exec(sql);
    edited.close();
    expect(opening(file)).toThrow(refused(/state\.sqlite: no such .* — .*restore it from a backup/));
  });

  it('one of a newer version', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    opening(file)();
    const newer = new DatabaseSync(file);
    newer.exec('PRAGMA user_version = 4');
    newer.close();
    expect(opening(file)).toThrow(refused(/state\.sqlite was written by a newer report-exporter \(schema 4, .* 3\)/));
  });

  it('a directory', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    await mkdir(file);
    expect(opening(file)).toThrow(refused(/state\.sqlite: unable to open/));
  });

  it('one that is damaged further in', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const run = aRun();
    const log = createSqlitePageLog(file);
    for (let page = 1; page <= 50; page++) await log.append(aPageEntry({ export: run.export, run: run.run, page }));
    log.close();
    const pageSize = 4_096;
    const whole = await readFile(file);
    await writeFile(
      file,
      Buffer.concat([whole.subarray(0, 3 * pageSize), Buffer.alloc(whole.length - 3 * pageSize, 7)]),
    );

    const damaged = createSqlitePageLog(file);
    await expect(collect(damaged.entries(run))).rejects.toEqual(refused(/state\.sqlite: .*malformed.*damaged/));
    damaged.close();
  });
});
