/**
 * Stores the metadata of pages, by key and SHA-256 of the object. It is trusted only if it is exactly what was written
 * and matches the page; a page without matching metadata was created or changed by another program.
 */

import { existsSync } from 'node:fs';
import { objectConflict } from '../../core/errors.ts';
import type { PageMetadata } from '../../core/model.ts';
import { objectDigest } from '../../core/storage/compression.ts';
import type { Digest } from '../../core/storage/spool.ts';
import { checksumOf, parsePageMetadata } from '../../core/storage/stored-records.ts';
import type { StateFile } from './state-file.ts';

const select = 'SELECT metadata, checksum FROM page_metadata WHERE key = ? AND sha256 = ?';
const insert = 'INSERT INTO page_metadata (key, sha256, metadata, checksum) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING';

const noEntry = 'the file has no entry for these bytes (if it was restored from an older copy, start with --restart)';

export function pageMetadataIn({ file, all, write }: StateFile) {
  return {
    /**
     * Adds the metadata of a page unless there is some for the same key and bytes; resolves to whether it was added.
     * Either way, what is there then survives a power loss.
     * @throws ConfigurationError if the file cannot be written
     */
    add(page: PageMetadata): Promise<boolean> {
      return write(insert, page.key, objectDigest(page).sha256, JSON.stringify(page), checksumOf(page));
    },

    /**
     * The metadata of a page that was found on disk.
     * @throws PageConflictError if it is missing, was changed, or belongs to another page
     */
    read({ key, bytes, sha256 }: Digest & Pick<PageMetadata, 'key'>): PageMetadata {
      try {
        if (!existsSync(file)) throw new Error('the file does not exist');
        const [row] = all(select, key, sha256);
        if (row === undefined) throw new Error(noEntry);
        const page = parsePageMetadata(JSON.parse(String(row.metadata)), row.checksum);
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
  };
}
