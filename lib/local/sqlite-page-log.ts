/**
 * Remembers where exports stand and how far runs have come, in one SQLite file.
 * A page counts as exported once it stands here, so every write is on the disk before it resolves.
 *
 * Heads and entries are kept whole, as JSON, beside the few columns that are searched. Each write is one statement that
 * carries its own condition, so processes that have the file open together need no lock beyond SQLite's own.
 */

import type { StatementSync } from 'node:sqlite';
import { ExportError } from '../core/errors.ts';
import type { Head, PageEntry } from '../core/model.ts';
import type { PageLog } from '../core/ports.ts';
import { sqliteError } from './sqlite-errors.ts';
import { openPageLogFile } from './sqlite-schema.ts';

/** Entries read at a time: memory stays flat, and between batches nothing holds up the writers' clearing up. */
const batchSize = 500;

/**
 * A page log in `file`, which is made, with its directory, if need be. Any number of processes may have it open.
 *
 * @throws ExportError ConfigurationError, here or on use, where the file is no page log, was written by a newer version,
 *   is damaged, or cannot be written to
 */
export function createSqlitePageLog(file: string): PageLog & { close(): void } {
  const database = openPageLogFile(file);
  const sql = {
    head: database.prepare('SELECT head AS json FROM heads WHERE export = ?'),
    firstHead: database.prepare('INSERT INTO heads (export, version, head) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING'),
    nextHead: database.prepare('UPDATE heads SET version = ?2, head = ?3 WHERE export = ?1 AND version = ?2 - 1'),
    append: database.prepare('INSERT INTO pages (export, run, page, entry) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING'),
    entry: database.prepare('SELECT entry AS json FROM pages WHERE export = ? AND run = ? AND page = ?'),
    last: database.prepare('SELECT entry AS json FROM pages WHERE export = ? AND run = ? ORDER BY page DESC LIMIT 1'),
    batch: database.prepare(
      `SELECT entry AS json FROM pages WHERE export = ? AND run = ? AND page > ? ORDER BY page LIMIT ${batchSize}`,
    ),
  };

  const read = <T>(statement: StatementSync, ...values: readonly (string | number)[]): T[] => {
    const rows = execute(file, () => statement.all(...values)) as unknown as readonly { readonly json: string }[];
    return rows.map(({ json }) => parse<T>(file, json));
  };
  /** Whether the statement's condition held, so that it changed something. */
  const write = (statement: StatementSync, ...values: readonly (string | number)[]): boolean =>
    execute(file, () => statement.run(...values)).changes === 1;

  return {
    async head(exportName) {
      return read<Head>(sql.head, exportName)[0];
    },

    async replaceHead(head) {
      const statement = head.version === 1 ? sql.firstHead : sql.nextHead;
      return write(statement, head.export, head.version, JSON.stringify(head));
    },

    async append(entry) {
      const { export: exportName, run, page } = entry;
      if (write(sql.append, exportName, run, page, JSON.stringify(entry))) return entry;
      const [logged] = read<PageEntry>(sql.entry, exportName, run, page);
      // Entries are never removed, so one that was in the way a moment ago is still there.
      if (logged === undefined) throw damaged(file, `page ${page} of run ${run} is both there and not`);
      return logged;
    },

    async last({ export: exportName, run }) {
      return read<PageEntry>(sql.last, exportName, run)[0];
    },

    async *entries({ export: exportName, run }) {
      for (let page = 0; ; ) {
        const batch = read<PageEntry>(sql.batch, exportName, run, page);
        yield* batch;
        const last = batch.at(-1);
        if (last === undefined || batch.length < batchSize) return;
        page = last.page;
      }
    },

    close() {
      if (database.isOpen) database.close();
    },
  };
}

function execute<T>(file: string, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    throw sqliteError(file, cause);
  }
}

function parse<T>(file: string, json: string): T {
  try {
    return JSON.parse(json) as T;
  } catch (cause) {
    throw damaged(file, 'what it remembers is not JSON', cause);
  }
}

function damaged(file: string, what: string, cause?: unknown): ExportError {
  const message = `${file} is damaged: ${what}; restore it from a backup, or move it away to begin with an empty one`;
  return new ExportError('ConfigurationError', message, cause === undefined ? {} : { cause });
}
