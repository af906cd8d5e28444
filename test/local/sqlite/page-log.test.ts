import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { createSqlitePageLog, openSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';
import { editedPageLogContract, editStored, type StoredRecord } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { anExportState, aPageEntry, aRun, collect } from '../../support/builders.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

// The page log reads 500 entries per query.
const entriesForThreeQueries = { manyEntries: 1_200 };

pageLogContract(
  'The SQLite page log',
  async () => {
    const directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const log = createSqlitePageLog(file);
    const another = openSqlitePageLog(file);
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
  entriesForThreeQueries,
);

editedPageLogContract('The SQLite page log', async () => {
  const directory = await temporaryDirectory();
  const file = join(directory.path, 'state.sqlite');
  const log = createSqlitePageLog(file);
  const database = new DatabaseSync(file);
  const edit = (table: string, column: string, where: string, change: (kept: StoredRecord) => StoredRecord) => {
    const row = database.prepare(`SELECT ${column} AS json, checksum FROM ${table} WHERE ${where}`).get();
    const { json, checksum } = editStored({ ...row }, change);
    database.prepare(`UPDATE ${table} SET ${column} = ?, checksum = ? WHERE ${where}`).run(json, checksum);
  };
  return {
    log,
    name: file,
    editState: async (name, change) => edit('export_states', 'state', `export = '${name}'`, change),
    editPage: async ({ export: name, run, page }, change) =>
      edit('pages', 'entry', `export = '${name}' AND run = '${run}' AND page = ${page}`, change),
    async cleanup() {
      database.close();
      log.close();
      await directory.remove();
    },
  };
});

describe('the SQLite page log', () => {
  it('creates its file and directories, keeps its content, and leaves a single file when closed', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'new', 'directory', 'state.sqlite');
    const state = anExportState();
    const first = createSqlitePageLog(file);
    await first.replaceState(state);
    first.close();
    first.close();

    const second = createSqlitePageLog(file);
    expect(await second.exportState(state.export)).toEqual(state);
    second.close();
    expect(await readdir(join(directory.path, 'new', 'directory'))).toEqual(['state.sqlite']);
  });

  it.each(['', 'x'])(
    'refuses a file that was truncated to %j beside runs, and takes none for a new one',
    async (content) => {
      await using directory = await temporaryDirectory();
      const file = join(directory.path, 'state.sqlite');
      await writeFile(file, content);
      createSqlitePageLog(file).close();
      await mkdir(join(directory.path, 'nightly', 'date=2026-11-20', 'run=20261120T020000Z-1f3a5c'), {
        recursive: true,
      });
      createSqlitePageLog(file).close();

      await writeFile(file, content);
      expect(() => createSqlitePageLog(file)).toThrow(
        /state\.sqlite is empty, although .* has runs.*Restore.*or move it away.*--since/,
      );
      await rm(file);
      createSqlitePageLog(file).close();
    },
  );

  it('creates nothing while it is only read, and reads what other connections write meanwhile', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const { export: exportName } = anExportState();
    const write = async (version: number) => {
      const writer = createSqlitePageLog(file);
      expect(await writer.replaceState(anExportState({ export: exportName, version }))).toBe(true);
      return writer;
    };
    (await write(1)).close();
    const reader = openSqlitePageLog(file);
    const versionRead = async () => (await reader.exportState(exportName))?.version;
    expect(await versionRead()).toBe(1);
    expect(await readdir(directory.path)).toEqual(['state.sqlite']);

    (await write(2)).close();
    expect(await versionRead()).toBe(2);
    const writer = await write(3);
    expect(await versionRead()).toBe(3);
    reader.close();
    writer.close();
    expect(await versionRead()).toBe(3);
    expect(await readdir(directory.path)).toEqual(['state.sqlite']);
    reader.close();
  });

  it('can be written while another connection is reading', async () => {
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

  it('keeps no read transaction open while a slow reader iterates, so that checkpoints are possible', async () => {
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

  describe('with columns that contradict the JSON', () => {
    const editedLog = async (sql: string) => {
      const directory = await temporaryDirectory();
      const file = join(directory.path, 'state.sqlite');
      const log = createSqlitePageLog(file);
      const { run } = aRun();
      for (const page of [1, 2, 3]) await log.append(aPageEntry({ export: 'reports', run, page }));
      await log.replaceState(anExportState({ export: 'reports' }));
      const database = new DatabaseSync(file);
      database.exec('PRAGMA ignore_check_constraints = ON');
      database.exec(sql);
      database.close();
      const dispose = async () => {
        log.close();
        await directory.remove();
      };
      return { log, run: { export: 'reports', run }, [Symbol.asyncDispose]: dispose };
    };

    it('rejects a state with two versions, which could never be replaced', async () => {
      await using state = await editedLog('UPDATE export_states SET version = 7');
      await expect(state.log.exportState('reports')).rejects.toMatchObject({
        name: 'PageConflictError',
        message: expect.stringMatching(
          /its version is 1, but stored as 7.*delete the row of reports from its table export_states/,
        ),
      });
    });

    it.each([
      ['later page', 'UPDATE pages SET page = 9 WHERE page = 2', 'page 9'],
      ['page number too large for JavaScript', 'UPDATE pages SET page = 9007199254740993 WHERE page = 3', 'too large'],
    ])('rejects an entry whose column has a %s, and does not loop', async (_, sql, message) => {
      await using state = await editedLog(sql);
      await expect(collect(state.log.entries(state.run))).rejects.toThrow(message);
    });

    it('skips an entry with a negative page number, so that FinishRun finds it missing', async () => {
      await using state = await editedLog('UPDATE pages SET page = -9 WHERE page = 1');
      expect((await collect(state.log.entries(state.run))).map(({ page }) => page)).toEqual([2, 3]);
    });
  });
});

describe('a file that cannot be used as a page log', () => {
  const opening = (file: string) => () => createSqlitePageLog(file).close();
  const rejected = (message: RegExp) =>
    expect.objectContaining({ name: 'ConfigurationError', message: matching(message) });
  const matching = (message: RegExp) => expect.stringMatching(message) as unknown as string;

  it('that is not a database is rejected', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    await writeFile(file, 'a letter to the editor\n'.repeat(500));
    expect(opening(file)).toThrow(
      rejected(
        /state\.sqlite is not a SQLite database\. Move it away, or choose another directory\. If you move it away, published pages stay, and the next run starts at the beginning$/,
      ),
    );
  });

  it('that belongs to another program is rejected', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const other = new DatabaseSync(file);
    other.exec('CREATE TABLE bookmarks (address TEXT)');
    other.close();
    expect(opening(file)).toThrow(rejected(/state\.sqlite is the SQLite file of another program/));
  });

  it.each([0, 1, -1])('with schema %i, which was never released, is rejected', async (version) => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    opening(file)();
    const older = new DatabaseSync(file);
    older.exec(`PRAGMA user_version = ${version}`);
    older.close();
    expect(opening(file)).toThrow(rejected(/state\.sqlite has schema -?\d, which .*Move it away/));
  });

  it.each([
    ['without a table', 'DROP TABLE pages'],
    ['with a renamed column', 'ALTER TABLE export_states RENAME COLUMN checksum TO stamp'],
  ])('%s is rejected on use', async (_, sql) => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    opening(file)();
    const edited = new DatabaseSync(file);
    edited.exec(sql);
    edited.close();
    const log = createSqlitePageLog(file);
    const use = log.exportState('reports').then(() => log.append(aPageEntry()));
    await expect(use).rejects.toEqual(rejected(/state\.sqlite: no such .*\. .*Restore it from a backup/));
    log.close();
  });

  it('of a newer version is rejected', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    opening(file)();
    const newer = new DatabaseSync(file);
    newer.exec('PRAGMA user_version = 99');
    newer.close();
    expect(opening(file)).toThrow(
      rejected(/state\.sqlite was written by a newer report-exporter \(schema 99; .* \d+\)/),
    );
  });

  it('that is a directory is rejected', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    await mkdir(file);
    expect(opening(file)).toThrow(rejected(/state\.sqlite is a directory, not a file\. Move it away/));
  });

  it('that was cut off is rejected, with what it costs to move it away', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    opening(file)();
    await writeFile(file, (await readFile(file)).subarray(0, 8_192));
    expect(opening(file)).toThrow(rejected(/state\.sqlite: .*malformed.*If you move it away, published pages stay/));
  });

  it('that is damaged beyond its header is rejected on use', async () => {
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
    await expect(collect(damaged.entries(run))).rejects.toEqual(rejected(/state\.sqlite: .*malformed.*damaged/));
    damaged.close();
  });
});
