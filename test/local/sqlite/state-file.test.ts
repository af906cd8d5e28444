/** The file of page log, page metadata and notes: who may use it, what survives a power loss, what is refused. */

import fs from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { anExportState, aPageEntry } from '../../support/builders.ts';
import { createSqlitePageLog, openSqlitePageLog } from '../../support/export/directory-store.ts';
import { tablesOf } from '../../support/export/state-rows.ts';
import { replaceInFs } from '../../support/replaced-fs.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** The path of a state file in a new directory. */
async function aStateFile() {
  const directory = await temporaryDirectory();
  onTestFinished(directory.remove);
  return { file: join(directory.path, 'state.sqlite'), folder: directory.path };
}

function edit(file: string, statements: string): void {
  using database = new DatabaseSync(file);
  database.exec(statements);
}

/** `statement` gets the name of the first table that a page log writes, and of its last column. */
function editTable(file: string, statement: (table: string, column: string) => string): void {
  using database = new DatabaseSync(file);
  const [table = ''] = tablesOf(database);
  const columns = database.prepare(`PRAGMA table_info(${table})`).all();
  database.exec(statement(table, String(columns.at(-1)?.name)));
}

describe('a state file', () => {
  it('is created with its directories, keeps its content, and is a single file when closed', async () => {
    const { folder } = await aStateFile();
    const file = join(folder, 'new', 'directory', 'state.sqlite');
    const state = anExportState();
    const first = createSqlitePageLog(file);
    await first.replaceState(state);
    first.close();
    first.close();

    using second = createSqlitePageLog(file);
    expect(await second.exportState(state.export)).toEqual(state);
    second.close();
    expect(await readdir(join(folder, 'new', 'directory'))).toEqual(['state.sqlite']);
  });

  it('is not created while it is only read, which sees what other connections write meanwhile', async () => {
    const { file, folder } = await aStateFile();
    const { export: exportName } = anExportState();
    using reader = openSqlitePageLog(file);
    const versionRead = async () => (await reader.exportState(exportName))?.version;
    expect(await versionRead()).toBeUndefined();
    expect(await readdir(folder)).toEqual([]);
    for (const version of [1, 2, 3]) {
      using writer = createSqlitePageLog(file);
      expect(await writer.replaceState(anExportState({ export: exportName, version }))).toBe(true);
      expect(await versionRead()).toBe(version);
      writer.close();
      expect(await versionRead()).toBe(version);
      expect(await readdir(folder)).toEqual(['state.sqlite']);
    }
  });

  it('can be read and written after its writer was killed while it created the tables', async () => {
    const { file: killed, folder } = await aStateFile();
    const file = join(folder, 'copy.sqlite');
    using writer = new DatabaseSync(killed);
    // A small cache moves changes to the file before they are committed.
    writer.exec('PRAGMA cache_size = 1; BEGIN IMMEDIATE; CREATE TABLE a (b TEXT); CREATE TABLE c (d TEXT)');
    writer.exec('INSERT INTO a SELECT hex(randomblob(9999)) FROM sqlite_schema');
    await copyFile(killed, file);
    await copyFile(`${killed}-journal`, `${file}-journal`);
    const { export: exportName } = anExportState();
    using reader = openSqlitePageLog(file);
    expect(await reader.exportState(exportName)).toBeUndefined();
    using next = createSqlitePageLog(file);
    expect(await next.replaceState(anExportState({ version: 1 }))).toBe(true);
  });

  it('can be written while another connection is reading', async () => {
    const { file } = await aStateFile();
    using log = createSqlitePageLog(file);
    using reader = new DatabaseSync(file);
    reader.exec('BEGIN; SELECT count(*) FROM sqlite_schema');
    const entry = aPageEntry();
    expect(await log.append(entry)).toEqual(entry);
  });

  it('has what was written on the disk before the write resolves, also for a writer that changes nothing', async () => {
    const { file } = await aStateFile();
    using one = createSqlitePageLog(file);
    using two = createSqlitePageLog(file);
    const { fdatasync } = fs;
    const pendingSyncs: (() => void)[] = [];
    // Delays every sync: the real disk is too fast to observe the order.
    const delayed = (...parameters: Parameters<typeof fdatasync>) =>
      void pendingSyncs.push(() => fdatasync(...parameters));
    const restore = replaceInFs({ fdatasync: delayed as typeof fdatasync });
    const state = anExportState();
    const written: boolean[] = [];
    const writing = [one, two].map(async (log) => void written.push(await log.replaceState(state)));
    await setImmediate();
    expect(written).toEqual([]);
    restore();
    for (const sync of pendingSyncs) sync();
    await Promise.all(writing);
    expect(new Set(written)).toEqual(new Set([true, false]));
  });

  it('has a log whose name is synced, too: a killed process may have created it without', async () => {
    const { folder } = await aStateFile();
    const [left, found] = ['left', 'found'].map((name) => join(folder, name)) as [string, string];
    for (const path of [left, found]) fs.mkdirSync(path);
    using killed = createSqlitePageLog(join(left, 'state.sqlite'));
    await killed.append(aPageEntry());
    // The state that a killed process leaves.
    for (const name of fs.readdirSync(left)) fs.copyFileSync(join(left, name), join(found, name));

    using next = createSqlitePageLog(join(found, 'state.sqlite'));
    const { fsyncSync, fdatasync } = fs;
    const synced: string[] = [];
    const pathOf = (descriptor: number) => fs.readlinkSync(`/proc/self/fd/${descriptor}`);
    const observed = (...parameters: Parameters<typeof fdatasync>) => {
      synced.push(pathOf(parameters[0]));
      fdatasync(...parameters);
    };
    replaceInFs({
      fsyncSync(descriptor: number) {
        synced.push(pathOf(descriptor));
        fsyncSync(descriptor);
      },
      fdatasync: observed as typeof fdatasync,
    });
    for (const page of [2, 3]) {
      await next.append(aPageEntry({ page }));
      expect(synced.pop()).toBe(join(found, 'state.sqlite-wal'));
    }
    expect(synced).toContain(found);
  });

  it.each(['', 'x'])('that was truncated to %j beside runs is not taken for a new one', async (content) => {
    const { file, folder } = await aStateFile();
    await writeFile(file, content);
    createSqlitePageLog(file).close();
    await mkdir(join(folder, 'nightly', 'date=2026-11-20', 'run=20261120T020000Z-1f3a5cb2d407'), { recursive: true });
    createSqlitePageLog(file).close();

    await writeFile(file, content);
    const lost = /state\.sqlite is empty, although .* has runs.*Restore.*or move it away.*--since/;
    expect(() => createSqlitePageLog(file)).toThrow(lost);
    await expect(openSqlitePageLog(file).exportState('nightly')).rejects.toThrow(lost);
    await rm(file);
    createSqlitePageLog(file).close();
  });

  const damaged = /Restore it from a backup, or move it away: published pages stay, and the next run starts at the/;

  it.each<[what: string, change: (file: string) => unknown, message: RegExp]>([
    [
      'is no database',
      (file) => writeFile(file, 'a letter to the editor\n'.repeat(500)),
      /file is not a database\. It is no SQLite file\. Restore it .* the next run starts at the beginning$/,
    ],
    [
      'belongs to another program',
      (file) => rm(file).then(() => edit(file, 'CREATE TABLE bookmarks (address TEXT)')),
      /is the SQLite file of another program/,
    ],
    ...['0', '-1', '99'].map((version): [string, (file: string) => void, RegExp] => [
      `has the schema ${version}`,
      (file) => edit(file, `PRAGMA user_version = ${version}`),
      /was written by another version of report-exporter \(schema -?\d+; this one supports \d+\)/,
    ]),
    ['is a directory', (file) => rm(file).then(() => mkdir(file)), /is a directory, not a file\. Move it away/],
    [
      'was cut off',
      async (file) => await writeFile(file, (await readFile(file)).subarray(0, 8_192)),
      /malformed.*The file is damaged/,
    ],
    ['has lost a table', (file) => editTable(file, (table) => `DROP TABLE ${table}`), damaged],
    [
      'has another column',
      (file) => editTable(file, (table, column) => `ALTER TABLE ${table} RENAME COLUMN ${column} TO stamp`),
      damaged,
    ],
    [
      'is damaged beyond its header',
      async (file) => {
        const whole = await readFile(file);
        await writeFile(file, whole.fill(7, 3 * 4_096));
      },
      /malformed.*The file is damaged/,
    ],
  ])('that %s is rejected, and the message says what to do', async (_, change, message) => {
    const { file } = await aStateFile();
    using log = createSqlitePageLog(file);
    for (let page = 1; page <= 50; page += 1) await log.append(aPageEntry({ page }));
    log.close();
    await change(file);
    const use = async () => {
      using changed = createSqlitePageLog(file);
      await changed.exportState('reports');
      await changed.append(aPageEntry());
    };
    const error = { name: 'ConfigurationError', message: expect.stringMatching(message) };
    await expect(use()).rejects.toMatchObject(error);
    await expect(use()).rejects.toThrow(file);
  });
});
