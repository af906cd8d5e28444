import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it, onTestFinished } from 'vitest';
import { editedPageLogContract, editStored, type StoredRecord } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { anExportState, aPageEntry, aRun, aRunId, collect } from '../../support/builders.ts';
import { failureOf } from '../../support/service/service-client.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { createSqlitePageLog, openSqlitePageLog } from '../../support/export/directory-store.ts';
import {
  changeRow,
  ofEntry,
  ofState,
  type RowChange,
  type Selection,
  tablesOf,
} from '../../support/export/state-rows.ts';

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
  const edit = (selection: Selection, change: (kept: StoredRecord) => StoredRecord) =>
    changeRow(file, selection, ({ fields, checksum }) =>
      editStored({ json: JSON.stringify(fields), checksum }, change),
    );
  return {
    log,
    name: file,
    editState: async (name, change) => edit(ofState(name), change),
    editPage: async (page, change) => edit(ofEntry(page), change),
    async cleanup() {
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
    async function editedLog(selection: Selection, repeated: RowChange['repeated']) {
      const directory = await temporaryDirectory();
      const file = join(directory.path, 'state.sqlite');
      const log = createSqlitePageLog(file);
      onTestFinished(async () => {
        log.close();
        await directory.remove();
      });
      for (const page of [1, 2, 3]) await log.append(aPageEntry({ ...run, page }));
      await log.replaceState(anExportState({ export: run.export }));
      changeRow(file, selection, () => ({ repeated }));
      return { log, file };
    }
    const run = { export: 'reports', run: aRunId() };

    it('rejects a state with two versions, which could never be replaced, and names its table', async () => {
      const { log, file } = await editedLog(ofState('reports'), { version: 7 });
      const { name, message } = await failureOf(log.exportState('reports'));
      expect([name, message]).toEqual(['PageConflictError', expect.stringContaining('is 1, but stored as 7')]);
      const [, table] = /delete the row of reports from its table (\w+)/.exec(message) ?? [];
      using database = new DatabaseSync(file);
      expect(tablesOf(database)).toContain(table);
    });

    it.each([
      ['later page', 2, 9, 'page 9'],
      ['page number too large for JavaScript', 3, 9_007_199_254_740_993n, 'too large'],
    ])('rejects an entry whose column has a %s, and does not loop', async (_, page, to, message) => {
      const { log } = await editedLog(ofEntry({ ...run, page }), { page: to });
      await expect(collect(log.entries(run))).rejects.toThrow(message);
    });

    it('skips an entry with a negative page number, so that FinishRun finds it missing', async () => {
      const { log } = await editedLog(ofEntry({ ...run, page: 1 }), { page: -9 });
      expect((await collect(log.entries(run))).map(({ page }) => page)).toEqual([2, 3]);
    });
  });
});
