/**
 * Remembers where exports stand and how far runs have come, in one SQLite file.
 * A page counts as exported once it stands here, so every write is on the disk before it resolves.
 *
 * Heads and entries are kept whole, as JSON, beside their seals and the few columns that are searched. Each write is one
 * statement that carries its own condition, so processes that have the file open together need no lock beyond SQLite's
 * own.
 */

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { ExportError } from '../../core/errors.ts';
import { asRunId, type ExportState } from '../../core/model.ts';
import type { PageLog, RunHistory, RunRef } from '../../core/ports.ts';
import { type Checksummed, checksumOf, parsePageEntry, parseExportState, type RecordStore } from '../../core/storage/stored-records.ts';
import { openSqliteFile } from './database.ts';
import { sqliteError } from './errors.ts';
import { writesOnDisk } from './wal-sync.ts';

/** Entries read at a time: memory stays flat, and between batches nothing holds up the writers' clearing up. */
const batchSize = 500;

/**
 * A page log in `file`, which is made, with its directory, if need be. Any number of processes may have it open.
 *
 * @throws ExportError ConfigurationError, here or on use, where the file is no page log, was written by a newer version,
 *   is damaged, or cannot be written to
 */
export function createSqlitePageLog(file: string): PageLog & RunHistory & { close(): void } {
  const database = openPageLogFile(file);
  const prepare = (statement: string) => execute(file, () => database.prepare(statement));
  const columns = 'page AS number, entry AS json, checksum';
  const sql = {
    head: prepare('SELECT version AS number, state AS json, checksum FROM export_states WHERE export = ?'),
    firstHead: prepare(
      'INSERT INTO export_states (export, version, state, checksum) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING',
    ),
    nextHead: prepare(
      'UPDATE export_states SET version = ?2, state = ?3, checksum = ?4 WHERE export = ?1 AND version = ?2 - 1',
    ),
    append: prepare(
      'INSERT INTO pages (export, run, page, entry, checksum) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
    ),
    entry: prepare(`SELECT ${columns} FROM pages WHERE export = ? AND run = ? AND page = ?`),
    last: prepare(`SELECT ${columns} FROM pages WHERE export = ? AND run = ? ORDER BY page DESC LIMIT 1`),
    runBefore: prepare(
      `SELECT run, ${columns} FROM pages WHERE export = ?1 AND (?2 IS NULL OR run < ?2) ORDER BY run DESC, page DESC LIMIT 1`,
    ),
    batch: prepare(
      `SELECT ${columns} FROM pages WHERE export = ? AND run = ? AND page > ? ORDER BY page LIMIT ${batchSize}`,
    ),
  };
  const place: RecordStore = {
    name: file,
    repairHint: (exportName) =>
      `restore the file from a backup, or delete the row of ${exportName} from its table export_states and start with --since`,
  };

  const read = (statement: StatementSync, ...values: readonly (string | number | null)[]): Row[] =>
    execute(file, () => statement.all(...values)) as unknown as Row[];
  const onDisk = writesOnDisk(database, file);
  /** Whether the statement's condition held, so that it changed something; what is there then is on the disk. */
  const write = async (statement: StatementSync, ...values: readonly (string | number)[]): Promise<boolean> => {
    const { changes } = execute(file, () => statement.run(...values));
    await onDisk.ensure();
    return changes === 1;
  };

  let known: { readonly row: Row; readonly head: ExportState } | undefined;
  const stateIn = (exportName: string, row: Row): ExportState => {
    // It is asked for with every page, and seldom another.
    if (
      known?.head.export === exportName &&
      known.row.json === row.json &&
      known.row.checksum === row.checksum &&
      known.row.number === row.number
    )
      return known.head;
    const head = parseExportState(exportName, place, () => {
      const { value, checksum } = checksummedIn(row);
      // Heads are replaced by what the column says, so it must not say otherwise.
      if ((value as { version?: unknown } | null)?.version !== row.number) throw new Error('it has two versions');
      return { value, checksum };
    });
    known = { row, head };
    return head;
  };
  const entryIn = ({ export: exportName, run }: RunRef, row: Row) =>
    parsePageEntry({ export: exportName, run, page: row.number }, place, () => checksummedIn(row));

  return {
    async exportState(exportName) {
      const [row] = read(sql.head, exportName);
      return row && stateIn(exportName, row);
    },

    async replaceState(head) {
      const statement = head.version === 1 ? sql.firstHead : sql.nextHead;
      return await write(statement, head.export, head.version, JSON.stringify(head), checksumOf(head));
    },

    async append(entry) {
      const { export: exportName, run, page } = entry;
      if (await write(sql.append, exportName, run, page, JSON.stringify(entry), checksumOf(entry))) return entry;
      const [logged] = read(sql.entry, exportName, run, page);
      // Entries are never removed, so one that was in the way a moment ago is still there.
      if (logged === undefined) throw damaged(file, `page ${page} of run ${run} is both there and not`);
      return entryIn(entry, logged);
    },

    async last(run) {
      const [row] = read(sql.last, run.export, run.run);
      return row && entryIn(run, row);
    },

    async *entries(run) {
      for (let page = 0; ; ) {
        const batch = read(sql.batch, run.export, run.run, page);
        for (const row of batch) yield entryIn(run, row);
        const last = batch.at(-1);
        if (last === undefined || batch.length < batchSize) return;
        page = last.number;
      }
    },

    async *runs(exportName) {
      for (let before: string | null = null; ; ) {
        const [row] = read(sql.runBefore, exportName, before) as (Row & { readonly run: string })[];
        if (row === undefined) return;
        const run = asRunId(row.run);
        yield entryIn({ export: exportName, run }, row);
        before = run;
      }
    },

    close() {
      onDisk.close();
      if (database.isOpen) database.close();
    },
  };
}

/** A head with its version, or an entry with its page. */
interface Row {
  readonly number: number;
  readonly json: string;
  readonly checksum: string;
}

function checksummedIn({ json, checksum }: Row): Checksummed {
  return { value: JSON.parse(json), checksum };
}

function execute<T>(file: string, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    throw sqliteError(file, cause);
  }
}

function damaged(file: string, what: string): ExportError {
  return new ExportError(
    'ConfigurationError',
    `${file} is damaged: ${what}; restore it from a backup, or move it away to begin with an empty one`,
  );
}

// MERGED schema.ts: What lies in the page log's file.

const schema = `
  CREATE TABLE export_states (
    export  TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    state   TEXT NOT NULL CHECK (json_valid(state)),
    checksum TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE pages (
    export TEXT NOT NULL,
    run    TEXT NOT NULL,
    page   INTEGER NOT NULL,
    entry  TEXT NOT NULL CHECK (json_valid(entry)),
    checksum TEXT NOT NULL,
    PRIMARY KEY (export, run, page)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE exports (
    export   TEXT NOT NULL PRIMARY KEY,
    settings TEXT NOT NULL CHECK (json_valid(settings))
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE incidents (
    id      INTEGER PRIMARY KEY,
    export  TEXT NOT NULL,
    run     TEXT NOT NULL,
    incident TEXT NOT NULL CHECK (json_valid(incident))
  ) STRICT;
  CREATE INDEX incidents_of_runs ON incidents (export, run, id);
`;

/** @throws ExportError ConfigurationError where the file cannot be opened, is not a page log, or is a newer one */
export function openPageLogFile(file: string): DatabaseSync {
  // "REXP"
  return openSqliteFile(file, { applicationId: 0x52455850, version: 3, schema });
}
