/**
 * Stores the metadata of the pages of one folder in a SQLite file beside them. It is trusted only if it is exactly what
 * was written and matches the page; a page without matching metadata was created or changed by another program.
 *
 * One file per page would cost two names and three waits for the disk. A row costs one wait.
 */

import { existsSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { objectConflict } from '../../core/errors.ts';
import type { PageMetadata } from '../../core/model.ts';
import { type Digest, objectDigest } from '../../core/storage/compression.ts';
import { checksumOf, parsePageMetadata } from '../../core/storage/stored-records.ts';
import { openSqliteFile, openSqliteReader, type SqliteFormat } from '../sqlite/database.ts';
import { sqliteError, withSqliteErrors } from '../sqlite/errors.ts';
import { openWalSync } from '../sqlite/wal-sync.ts';

/** A file under the key of a page, and its digest. */
type ObservedPage = Digest & Pick<PageMetadata, 'key'>;

export interface PageMetadataFile {
  /**
   * Adds the metadata of a page unless the file has metadata for the same key and bytes; resolves to whether it was
   * added. Either way, the metadata in the file then survives a power loss.
   * @throws ConfigurationError if the file cannot be written
   */
  readonly add: (page: PageMetadata) => Promise<boolean>;
  /**
   * Reads the metadata of a page that was found on disk.
   * @throws PageConflictError if it is missing, was changed, or belongs to another page
   */
  readonly read: (observed: ObservedPage) => PageMetadata;
  /** Closes the SQLite file. A later call opens it again. */
  readonly close: () => void;
}

/** Page metadata in `file`, which the first `add` creates. Until then, nothing is written. */
export function createPageMetadataFile(file: string): PageMetadataFile {
  const reader = openSqliteReader(file, format);
  let opened: ReturnType<typeof open> | undefined;
  return {
    async add(page) {
      reader.close();
      opened ??= open(file);
      const { insert, walSync } = opened;
      const { key } = page;
      const { sha256 } = objectDigest(page);
      const { changes } = withSqliteErrors(file, () => insert.run(key, sha256, JSON.stringify(page), checksumOf(page)));
      await walSync.flush();
      return changes === 1;
    },

    read(observed) {
      const { key, bytes, sha256 } = observed;
      try {
        if (opened === undefined && !existsSync(file)) throw new Error('the file does not exist');
        const row = opened === undefined ? reader.all(select, key, sha256)[0] : opened.select.get(key, sha256);
        if (row === undefined) throw new Error('the file has no entry for these bytes');
        const page = parsePageMetadata(() => ({ value: JSON.parse(String(row.metadata)), checksum: row.checksum }));
        const stored = objectDigest(page);
        if (key !== page.key || bytes !== stored.bytes || sha256 !== stored.sha256) {
          throw new Error(`the entry describes ${stored.bytes} bytes of ${page.key}`);
        }
        return page;
      } catch (cause) {
        const reason = cause instanceof Error ? cause.message : String(cause);
        throw objectConflict(key, `its metadata could not be read from ${file}: ${reason}`, cause);
      }
    },

    close() {
      reader.close();
      opened?.walSync.close();
      opened?.database.close();
      opened = undefined;
    },
  };
}

const schema = `
  CREATE TABLE page_metadata (
    key      TEXT NOT NULL,
    sha256   TEXT NOT NULL,
    metadata TEXT NOT NULL CHECK (json_valid(metadata)),
    checksum TEXT NOT NULL,
    PRIMARY KEY (key, sha256)
  ) STRICT, WITHOUT ROWID;
`;

// "RXPM"
const format: SqliteFormat = { applicationId: 0x5258504d, version: 1, schema };

const select = 'SELECT metadata, checksum FROM page_metadata WHERE key = ? AND sha256 = ?';

function open(file: string) {
  const database: DatabaseSync = openSqliteFile(file, format);
  try {
    return {
      database,
      walSync: openWalSync(database, file),
      insert: database.prepare(
        'INSERT INTO page_metadata (key, sha256, metadata, checksum) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
      ),
      select: database.prepare(select),
    };
  } catch (cause) {
    // Every page tries again; without this, each attempt would leave a file open until it is garbage-collected.
    database.close();
    throw sqliteError(file, cause);
  }
}
