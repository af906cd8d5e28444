/**
 * The facts of a run's pages, in one SQLite file beside them, and trusted only where they are what was written and fit the
 * page. Facts that are missing or do not fit mean that the page was put there, or changed, by something else.
 *
 * A file each would cost every page two names and three waits for the disk; here it is one line and one.
 */

import { existsSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { ExportError } from '../../core/errors.ts';
import type { PageMetadata } from '../../core/model.ts';
import { checksumOf, parsePageMetadata } from '../../core/storage/stored-records.ts';
import { openSqliteFile } from '../sqlite/database.ts';
import { sqliteError } from '../sqlite/errors.ts';
import { writesOnDisk } from '../sqlite/wal-sync.ts';

type Observed = Pick<PageMetadata, 'key' | 'bytes' | 'sha256'>;

export interface PageFactsFile {
  /**
   * Writes the facts of a page, unless others of the same page and the same bytes are there; resolves to whether it did.
   * Whoever's they are, they are on the disk then.
   * @throws ExportError ConfigurationError where the file cannot be written to
   */
  readonly add: (facts: PageMetadata) => Promise<boolean>;
  /**
   * Those of the page as it was found on the disk.
   * @throws ExportError PageConflictError where they are not what was written there, or tell of another page
   */
  readonly read: (observed: Observed) => PageMetadata;
  readonly close: () => void;
}

const schema = `
  CREATE TABLE facts (
    key    TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    facts  TEXT NOT NULL CHECK (json_valid(facts)),
    checksum TEXT NOT NULL,
    PRIMARY KEY (key, sha256)
  ) STRICT, WITHOUT ROWID;
`;

/** The facts in `file`, which is made with the first of them. */
export function pageFactsIn(file: string): PageFactsFile {
  let opened: ReturnType<typeof open> | undefined;
  const facts = () => (opened ??= open(file));
  return {
    async add(added) {
      const { insert, onDisk } = facts();
      const { key, sha256 } = added;
      const { changes } = attempt(file, () => insert.run(key, sha256, JSON.stringify(added), checksumOf(added)));
      await onDisk.ensure();
      return changes === 1;
    },

    read(observed) {
      const { key, bytes, sha256 } = observed;
      try {
        // To look into one that is not there would make it.
        if (opened === undefined && !existsSync(file)) throw new Error('it is not there');
        const row = facts().select.get(key, sha256);
        if (row === undefined) throw new Error('they are not in it');
        const found = parsePageMetadata(() => ({ value: JSON.parse(String(row.facts)), checksum: row.checksum }));
        if (key !== found.key || bytes !== found.bytes || sha256 !== found.sha256) {
          throw new Error(`they tell of the ${found.bytes} bytes of ${found.key}`);
        }
        return found;
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause);
        throw pageConflict(key, `the facts that belong to its bytes cannot be taken from ${file}: ${why}`, cause);
      }
    },

    close() {
      opened?.onDisk.close();
      opened?.database.close();
      opened = undefined;
    },
  };
}

function open(file: string) {
  // "RXPF"
  const database: DatabaseSync = openSqliteFile(file, { applicationId: 0x52585046, version: 1, schema });
  try {
    return {
      database,
      onDisk: writesOnDisk(database, file),
      insert: database.prepare(
        'INSERT INTO facts (key, sha256, facts, checksum) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
      ),
      select: database.prepare('SELECT facts, checksum FROM facts WHERE key = ? AND sha256 = ?'),
    };
  } catch (cause) {
    // It would be opened again with every page, and stay open until it is collected.
    database.close();
    throw sqliteError(file, cause);
  }
}

function attempt<T>(file: string, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    throw sqliteError(file, cause);
  }
}

export function pageConflict(key: string, why: string, cause?: unknown): ExportError {
  return new ExportError(
    'PageConflictError',
    `${key} stands in the store already, but not as this exporter left it: ${why}. Nothing was touched; ` +
      'if it was changed by mistake, move it away and start again',
    cause === undefined ? {} : { cause },
  );
}
