/**
 * Keeps pages as plain files in a directory, with the promise the S3 store gives: whole or not at all, never overwritten.
 *
 * A page's facts lie beside it, in the folder's `.facts.sqlite`, under the page's key and the SHA-256 of its bytes: these
 * say which facts are its, so the one link that shows the page shows its facts too. The order of writes, and what a crash
 * behind each leaves:
 *
 *  1. the body into `.incoming/`, synced: a leftover there, swept away after a day
 *  2. at the same time, if it is the page's turn, its facts, synced: facts of a page that nobody sees
 *  3. the page linked to its name, refused if that is taken: page and facts; only a power cut could still undo the name
 *  4. the page's directory synced: page and facts, for good
 *
 * Writers of different bytes each leave facts, and the page that won picks its own. Writers of the same bytes share the
 * facts that came first, and the page counts as stored by whoever wrote them. Hidden names keep all this out of the way
 * of readers. The tree can be copied or moved: nothing rests on inodes or times.
 */

import { opendir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import type { StoredPage } from '../../core/model.ts';
import type { PageStore, StoreReader } from '../../core/ports.ts';
import {
  codeOf,
  type Digest,
  digestOf,
  diskError,
  linkOnce,
  makeDirectory,
  readFileAt,
  syncDirectory,
  syncDirectoryMeanwhile,
} from './durable-fs.ts';
import { replaceLatest } from './latest-pointer.ts';
import { type PageFactsFile, pageConflict, pageFactsIn } from './page-metadata.ts';
import { inBlocks, sweepSpool, withSpooled } from './spool.ts';

/**
 * A page store in `root`, which is made on the first write. Any number of processes may write to it at once.
 * `find` reads the page to its end, so it also tells of a page whose bytes were changed since (PageConflictError).
 *
 * @throws ExportError ConfigurationError, on use, where the disk refuses or a key names no visible file in `root`
 */
export function createDirectoryPageStore(root: string): PageStore & StoreReader & { close(): void } {
  const base = resolve(root);
  const incoming = join(base, '.incoming');
  const made = new Set<string>();

  const ready = async (directory: string): Promise<string> => {
    if (!made.has(directory)) makeDirectory(base, directory);
    // Once a process is enough: leftovers are no hurry.
    if (directory === incoming && !made.has(incoming)) await sweepSpool(incoming);
    made.add(directory);
    return directory;
  };
  const spool = () => ready(incoming);
  const pathOf = (key: string): string => join(base, ...visibleSegments(key));
  const factsFiles = new Map<string, PageFactsFile>();
  const factsBeside = (path: string): PageFactsFile => {
    const file = join(dirname(path), '.facts.sqlite');
    const facts = factsFiles.get(file) ?? pageFactsIn(file);
    factsFiles.set(file, facts);
    return facts;
  };
  const readPage = async (path: string, key: string): Promise<StoredPage | undefined> => {
    const digest = await observe(path, key);
    return digest && { ...factsBeside(path).read({ key, ...digest }), revision };
  };

  return {
    async find(key) {
      const path = pathOf(key);
      const page = await readPage(path, key);
      // Its writer may have been killed between 3 and 4, and whoever finds it will build on it.
      if (page !== undefined) syncDirectory(dirname(path));
      return page;
    },

    async put({ key, run, page, cursor }, fetched) {
      const path = pathOf(key);
      return await withSpooled(spool, fetched.body, async (body) => {
        const { bytes, sha256 } = body;
        const { nextCursor, serviceTime } = fetched;
        const reports = fetched.reports();
        const facts = { key, run, page, bytes, sha256, reports, cursor, nextCursor, serviceTime };

        await ready(dirname(path));
        // Not before: facts that were left of a page asked for in vain would be taken for those of the next such bytes, even
        // where these were asked for with another cursor.
        await fetched.predecessorStored;
        const [factsAreOurs] = await Promise.all([factsBeside(path).add(facts), body.synced]);
        const pageIsOurs = linkOnce(body.path, path);
        await syncDirectoryMeanwhile(dirname(path));

        const visible = factsAreOurs && pageIsOurs ? { ...facts, revision } : await readPage(path, key);
        if (visible === undefined) throw pageConflict(key, 'its name is taken, but there is no file behind it');
        return { stored: factsAreOurs && visible.sha256 === sha256, page: visible };
      });
    },

    async putManifest(key, chunks) {
      const path = pathOf(key);
      await withSpooled(spool, inBlocks(chunks), async (manifest) => {
        const folder = await ready(dirname(path));
        await manifest.synced;
        if (!linkOnce(manifest.path, path)) {
          const visible = await observe(path, key);
          if (visible?.sha256 !== manifest.sha256)
            throw pageConflict(key, 'its bytes are others than those of this manifest');
        }
        syncDirectory(folder);
      });
    },

    async putLatest(key, latest, hasBegun) {
      const path = pathOf(key);
      await withSpooled(spool, [`${JSON.stringify(latest, null, 2)}\n`], async (pointer) => {
        const folder = await ready(dirname(path));
        await pointer.synced;
        const files = { path, replacement: pointer.path, lock: join(incoming, 'latest.lock') };
        await replaceLatest(files, latest, hasBegun);
        syncDirectory(folder);
      });
    },

    async *list(folder) {
      for await (const { name, bytes } of filesIn(pathOf(folder))) yield { key: `${folder}/${name}`, bytes, revision };
    },

    async read(key) {
      const path = pathOf(key);
      return await readFileAt(path).catch((cause: unknown) => {
        throw pageConflict(key, 'it cannot be read', cause);
      });
    },

    locate: (key) => join(root, key),

    close() {
      for (const facts of factsFiles.values()) facts.close();
      factsFiles.clear();
    },
  };
}

/** A file system has no name for a file's very content. */
const revision = null;

/** Keys are the core's, so a strange one is a mistake in the settings; hidden names are the store's own. */
function visibleSegments(key: string): readonly string[] {
  const segments = key.split('/');
  if (segments.every((executionNumber) => /^[^.\\][^\\]*$/.test(executionNumber) && !executionNumber.includes('\0')))
    return segments;
  throw new ExportError('ConfigurationError', `${JSON.stringify(key)} names no visible file in the export's directory`);
}

/** Length and hash of what stands at `path`, or undefined where nothing does. */
async function observe(path: string, key: string): Promise<Digest | undefined> {
  try {
    return await digestOf(path);
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT' || codeOf(cause) === 'ENOTDIR') return undefined;
    throw pageConflict(key, 'it cannot be read', cause);
  }
}

// MERGED listing.ts: Lists a folder of any size without holding it in memory.

interface ListedFile {
  readonly name: string;
  readonly bytes: number;
}

/**
 * The visible files that lie directly in `folder`, in any order; none where there is no such folder.
 * @throws ExportError ConfigurationError where the disk refuses
 */
async function* filesIn(folder: string): AsyncGenerator<ListedFile> {
  try {
    for await (const { name } of await opendir(folder)) {
      if (name.startsWith('.')) continue;
      // May be gone since it was listed, or be a link that leads nowhere.
      const stats = await stat(join(folder, name)).catch(unlessMissing);
      if (stats?.isFile()) yield { name, bytes: stats.size };
    }
  } catch (cause) {
    if (isMissing(cause)) return;
    throw diskError('list', folder, cause);
  }
}

const isMissing = (cause: unknown): boolean => codeOf(cause) === 'ENOENT' || codeOf(cause) === 'ENOTDIR';

function unlessMissing(cause: unknown): undefined {
  // The last: a link that leads to itself.
  if (!isMissing(cause) && codeOf(cause) !== 'ELOOP') throw cause;
}
