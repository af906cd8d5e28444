/**
 * Stores the metadata of the pages of one folder in a SQLite file beside them. It is trusted only if it is exactly what
 * was written and matches the page; a page without matching metadata was created or changed by another program.
 *
 * One file per page would cost two names and three waits for the disk. A row costs one wait.
 */

import { existsSync } from 'node:fs';
import { objectConflict } from '../../core/errors.ts';
import type { PageMetadata } from '../../core/model.ts';
import { objectDigest } from '../../core/storage/compression.ts';
import type { Digest } from '../../core/storage/spool.ts';
import { checksumOf, parsePageMetadata } from '../../core/storage/stored-records.ts';
import { openOnDemand, type SqliteFormat } from '../sqlite/database.ts';

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
  const { all, write, close } = openOnDemand(file, format);
  return {
    add(page) {
      const { sha256 } = objectDigest(page);
      return write(insert, page.key, sha256, JSON.stringify(page), checksumOf(page));
    },

    read(observed) {
      const { key, bytes, sha256 } = observed;
      try {
        if (!existsSync(file)) throw new Error('the file does not exist');
        const [row] = all(select, key, sha256);
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

    close,
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
const insert = 'INSERT INTO page_metadata (key, sha256, metadata, checksum) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING';
