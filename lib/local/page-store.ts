/**
 * Stores pages as plain files in a directory, with the guarantees of the S3 store: a page is visible completely or not
 * at all, and is never overwritten.
 *
 * A page's metadata is kept in `state.sqlite`, under the page's key and the SHA-256 of its bytes. The bytes thus select
 * their metadata, and the one link that makes the page visible makes its metadata visible too.
 * The order of writes, and what a crash after each leaves:
 *
 * 1. Write the body to `.incoming/` and sync it. Left: a temporary file, removed after a day.
 * 2. Add the metadata and sync it. Left: metadata without a page. Not before the page may become visible: if the page
 *    is abandoned, its metadata would be taken for that of a later page with the same bytes, even if that one is
 *    requested with another cursor.
 * 3. Link the page to its name, unless that is taken. Left: page and metadata; only a power loss could undo the name.
 * 4. Sync the page's directory. Page and metadata are durable.
 *
 * Writers of different bytes each add metadata, and the page that is linked first selects its own. Writers of equal
 * bytes share the metadata that was added first, and its writer counts as the one that stored the page. All of this has
 * hidden names, which readers skip. The directory tree can be copied or moved: nothing depends on inodes or file times.
 */

import { existsSync, readFileSync, type Stats, statSync } from 'node:fs';
import { open, opendir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { sharedRuns } from '../core/concurrency.ts';
import { codeOf, ExportError, objectConflict } from '../core/errors.ts';
import type { PageMetadata, StoredPage } from '../core/model.ts';
import type { PageStore, StoreReader } from '../core/ports.ts';
import { type Compress, type Digest, digestOf, objectDigest, type PageObject } from '../core/storage/compression.ts';
import { fillWithPage, toPageMetadata } from '../core/storage/spool.ts';
import { checksumOf, maxDocumentBytes, parsePageMetadata, sequenceOfPointer } from '../core/storage/stored-records.ts';
import {
  createDirectoryDurably,
  createSpoolFile,
  describeFileSystemError,
  fileSystemError,
  fsyncDirectory,
  isMissingPath,
  linkIfAbsent,
  removeStaleSpoolFiles,
  replaceFile,
} from './durable-fs.ts';
import type { StateFile } from './sqlite/state-file.ts';

interface DirectoryPageStore extends PageStore, StoreReader {
  /**
   * Writes a hidden file to the folder `key`, or the nearest parent that exists, as a page is written, and removes it.
   * @throws ConfigurationError if the file system fails
   */
  checkWritable(key: string): Promise<void>;
}

/**
 * A page store in `root`, which the first write creates, with the metadata of its pages in `state`. Any number of
 * processes may write to it concurrently.
 * `find` reads the page to its end, so it also detects bytes that were changed later (PageConflictError).
 *
 * @throws ConfigurationError, on use, if the file system fails or a key does not name a visible file in `root`
 */
export function createDirectoryPageStore(root: string, state: StateFile, compress?: Compress): DirectoryPageStore {
  const folders = foldersIn(resolve(root));
  const { pathOf } = folders;
  return {
    ...pagesIn(folders, state, compress),
    ...documentsIn(folders),

    async *list(folder) {
      for await (const { name, stats } of listVisible(pathOf(folder))) {
        if (stats.isFile()) yield { key: `${folder}/${name}`, bytes: stats.size, revision };
      }
    },

    async *listFolders(folder) {
      for await (const { name, stats } of listVisible(pathOf(folder))) {
        if (stats.isDirectory()) yield `${folder}/${name}`;
      }
    },

    read: async (key) => await openIfPresent(pathOf(key)),

    locate: (key) => join(root, key),

    async checkWritable(key) {
      let folder = pathOf(key);
      while (!existsSync(folder) && folder !== folders.base) folder = dirname(folder);
      await using file = await folders.createIncomingFile();
      await file.fill(['A check of the directory. It can be deleted.']);
      await file.synced();
      const name = join(folder, `.${basename(file.path)}`);
      linkIfAbsent(file.path, name);
      await rm(name).catch((cause: unknown) => {
        throw fileSystemError('remove', name, cause);
      });
    },
  };
}

type Folders = ReturnType<typeof foldersIn>;

/** The folders of the store, and files that have no visible name yet. */
function foldersIn(base: string) {
  const incoming = join(base, '.incoming');
  const created = new Set<string>();
  const ensureDirectory = async (directory: string): Promise<string> => {
    if (!created.has(directory)) createDirectoryDurably(base, directory);
    // Once per process is enough: stale files are harmless.
    if (directory === incoming && !created.has(incoming)) await removeStaleSpoolFiles(incoming);
    created.add(directory);
    return directory;
  };
  const syncs = new Map<string, () => Promise<void>>();
  return {
    base,
    incoming,
    ensureDirectory,
    /** Makes the names in `directory` survive a power loss. One sync covers all chains that wait for it. */
    syncDirectory: async (directory: string): Promise<void> => {
      const sync = syncs.get(directory) ?? sharedRuns(() => fsyncDirectory(directory));
      syncs.set(directory, sync);
      await sync();
    },
    createIncomingFile: async () => createSpoolFile(await ensureDirectory(incoming)),
    pathOf: (key: string): string => join(base, ...visibleSegments(key)),
  };
}

function pagesIn(
  { incoming, ensureDirectory, syncDirectory, pathOf }: Folders,
  state: StateFile,
  compress: Compress | undefined,
): Pick<PageStore, 'find' | 'spool'> {
  const pageMetadata = pageMetadataIn(state);
  const readPage = async (path: string, key: string): Promise<StoredPage | undefined> => {
    const digest = await digestIfPresent(path);
    return digest && { ...pageMetadata.read({ key, ...digest }), revision };
  };
  return {
    async find(key) {
      const path = pathOf(key);
      const page = await readPage(path, key);
      // Its writer may have been killed between 3 and 4, and the caller relies on the page from now on.
      if (page !== undefined) await syncDirectory(dirname(path));
      return page;
    },

    spool(identity) {
      const { key } = identity;
      const path = pathOf(key);
      const file = createSpoolFile(incoming);
      // Before the request is sent: a connection that is closed early loses what was not read yet.
      const prepared = ensureDirectory(incoming);
      prepared.catch(() => {});
      let object: PageObject;
      return {
        async fill(body) {
          await prepared;
          object = await fillWithPage(file, identity, body, compress);
        },
        async put(received) {
          const metadata = toPageMetadata(identity, object, received);
          await ensureDirectory(dirname(path));
          const [addedMetadata] = await Promise.all([pageMetadata.add(metadata), file.synced()]);
          const linkedPage = linkIfAbsent(file.path, path);
          await syncDirectory(dirname(path));

          const visible = addedMetadata && linkedPage ? { ...metadata, revision } : await readPage(path, key);
          if (visible === undefined) throw objectConflict(key, 'it is a dangling symbolic link');
          const isOwn = objectDigest(visible).sha256 === objectDigest(object).sha256;
          return { stored: addedMetadata && isOwn, page: visible };
        },
        [Symbol.asyncDispose]: () => file[Symbol.asyncDispose](),
      };
    },
  };
}

const select = 'SELECT metadata, checksum FROM page_metadata WHERE key = ? AND sha256 = ?';
const insert = 'INSERT INTO page_metadata (key, sha256, metadata, checksum) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING';

const noEntry = 'the file has no entry for these bytes (if it was restored from an older copy, start with --restart)';

/**
 * The metadata of pages, by key and SHA-256 of the object. It is trusted only if it is exactly what was written and
 * matches the page; a page without matching metadata was created or changed by another program.
 */
function pageMetadataIn({ file, all, write }: StateFile) {
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

function documentsIn({
  ensureDirectory,
  createIncomingFile,
  pathOf,
}: Folders): Pick<PageStore, 'putDocument' | 'putLatest'> {
  return {
    async putDocument(key, chunks) {
      const path = pathOf(key);
      await using file = await createIncomingFile();
      const { sha256 } = await file.fill(chunks);
      const folder = await ensureDirectory(dirname(path));
      await file.synced();
      if (!linkIfAbsent(file.path, path)) {
        const visible = await digestIfPresent(path);
        if (visible?.sha256 !== sha256) throw objectConflict(key, differentDocument);
      }
      await fsyncDirectory(folder);
    },

    async putLatest(key, latest, hasBegun) {
      const path = pathOf(key);
      await using file = await createIncomingFile();
      await file.fill([`${JSON.stringify(latest, null, 2)}\n`]);
      const folder = await ensureDirectory(dirname(path));
      await file.synced();
      for (let invalid: number | undefined; ;) {
        const sequence = sequenceAt(path);
        if (sequence <= latest.sequence || sequence === invalid) break;
        // Checked after the read: a run has begun before it publishes its pointer.
        if (await hasBegun(sequence)) return;
        invalid = sequence;
      }
      // Nothing else in this process runs between comparison and rename, and the lock of the export excludes other
      // processes.
      replaceFile(file.path, path);
      await fsyncDirectory(folder);
    },
  };
}

const differentDocument =
  'it differs from what this run writes. If state.sqlite was restored from an older copy, the run is published already: ' +
  'start with --restart';

/** File systems have no counterpart to an ETag. */
const revision = null;

/** The sequence of the pointer at `path`; 0 if there is no readable pointer. */
function sequenceAt(path: string): number {
  try {
    const stats = statSync(path);
    // Reading a pipe might never end.
    return stats.isFile() && stats.size <= maxDocumentBytes ? sequenceOfPointer(readFileSync(path, 'utf8')) : 0;
  } catch {
    return 0;
  }
}

/** The segments of `key`. @throws ConfigurationError if one leads elsewhere or is hidden, as the store's own are */
function visibleSegments(key: string): readonly string[] {
  const segments = key.split('/');
  if (segments.every((segment) => /^[^.\\][^\\]*$/.test(segment) && !segment.includes('\0'))) return segments;
  throw new ExportError(
    'ConfigurationError',
    `The key ${JSON.stringify(key)} does not name a visible file in the export's directory`,
  );
}

/** The bytes of the file at `path`; undefined if there is none. @throws PageConflictError if it is unreadable */
async function openIfPresent(path: string): Promise<AsyncIterable<Uint8Array> | undefined> {
  try {
    // Opening a pipe blocks until another process writes to it.
    if (!(await stat(path)).isFile()) throw new Error('it is no file');
    return (await open(path)).createReadStream();
  } catch (cause) {
    if (isMissingPath(cause)) return undefined;
    throw unreadable(path, cause);
  }
}

const unreadable = (path: string, cause: unknown): ExportError =>
  new ExportError(
    'PageConflictError',
    `${path} cannot be read: ${describeFileSystemError(cause)}. Nothing was changed. Restore it from a backup, or move it away and start again`,
    { cause },
  );

async function digestIfPresent(path: string): Promise<Digest | undefined> {
  const content = await openIfPresent(path);
  try {
    return content && (await digestOf(content));
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/**
 * The visible entries of `folder`, in any order, not all in memory; none if it does not exist.
 * @throws ConfigurationError if the file system fails
 */
async function* listVisible(folder: string): AsyncGenerator<{ readonly name: string; readonly stats: Stats }> {
  try {
    for await (const { name } of await opendir(folder, { bufferSize: 256 })) {
      if (name.startsWith('.')) continue;
      const stats = statIfPresent(join(folder, name));
      if (stats !== undefined) yield { name, stats };
    }
  } catch (cause) {
    if (isMissingPath(cause)) return;
    throw fileSystemError('list', folder, cause);
  }
}

/**
 * Undefined if it was removed after it was listed, or is a link that leads nowhere or to itself. Synchronous: a folder
 * may have hundreds of thousands of pages, and waiting for the thread pool takes ten times as long as the call.
 */
function statIfPresent(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    if (codeOf(cause) === 'ELOOP') return undefined;
    throw cause;
  }
}
