import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { editedPageLogContract, editStored, type StoredRecord } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { anExportState, aPageEntry, aRun, collect } from '../../support/builders.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { createSqlitePageLog, openSqlitePageLog } from '../../support/export/directory-store.ts';

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
