/**
 * A page store that keeps no bodies, for runs of more pages than fit into memory. It keeps how many pages it has, which is
 * enough: pages of `numbered-pages` come one after the other, and each tells its facts by its number. What it is given is
 * checked against them. The manifest goes to a file, as it comes.
 */

import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ExportError } from '../../lib/core/errors.ts';
import type { Instant, LatestPointer, RunId, StoredPage } from '../../lib/core/model.ts';
import type { PageStore } from '../../lib/core/ports.ts';
import { bodyOf, cursorTo, reportsOn } from './numbered-pages.ts';

export interface BodilessStore extends PageStore {
  /** How many pages lie in it, from page 1 on without gaps. */
  readonly pages: number;
  /** Of each manifest that was put, also where it was there already. */
  readonly manifests: readonly string[];
  readonly latest: LatestPointer | undefined;
}

export interface BodilessStoreOptions {
  readonly root: string;
  /** The run has so many pages. */
  readonly lastPage: number;
  readonly serviceTime: Instant;
}

const blockCharacters = 1024 * 1024;

export function createBodilessStore({ root, lastPage, serviceTime }: BodilessStoreOptions): BodilessStore {
  let place: { readonly folder: string; readonly run: RunId } | undefined;
  let pages = 0;
  let latest: LatestPointer | undefined;
  const manifests: string[] = [];
  const numberIn = (key: string) => Number(/\/page-(\d+)\.xml$/.exec(key)?.[1]);

  const factsOf = (key: string): StoredPage => {
    const page = numberIn(key);
    const body = bodyOf(page);
    return {
      key,
      run: place?.run as RunId,
      page,
      bytes: body.length,
      sha256: createHash('sha256').update(body).digest('hex'),
      revision: `"${page}"`,
      reports: reportsOn(page),
      cursor: page === 1 ? null : cursorTo(page),
      nextCursor: page === lastPage ? null : cursorTo(page + 1),
      serviceTime,
    };
  };

  return {
    get pages() {
      return pages;
    },
    get latest() {
      return latest;
    },
    manifests,

    async find(key) {
      return numberIn(key) <= pages ? factsOf(key) : undefined;
    },

    async put({ key, run, page, cursor }, fetched) {
      const hash = createHash('sha256');
      for await (const chunk of fetched.body) hash.update(chunk);
      await fetched.predecessorStored;
      place ??= { folder: dirname(key), run };
      const facts = factsOf(key);
      if (page <= pages) return { stored: false, page: facts };
      const asNumbered =
        page === pages + 1 &&
        dirname(key) === place.folder &&
        run === place.run &&
        cursor === facts.cursor &&
        fetched.nextCursor === facts.nextCursor &&
        fetched.reports() === facts.reports &&
        hash.digest('hex') === facts.sha256;
      if (!asNumbered) throw new Error(`${key}, behind page ${pages}, is not page ${page} as it is numbered`);
      pages = page;
      return { stored: true, page: facts };
    },

    async putManifest(key, chunks) {
      const path = join(root, key);
      mkdirSync(dirname(path), { recursive: true });
      // Without waiting for the disk: simulated time would pass meanwhile.
      const file = openSync(`${path}.incoming`, 'w');
      const hash = createHash('sha256');
      let block = '';
      const write = () => {
        hash.update(block);
        writeSync(file, block);
        block = '';
      };
      for await (const chunk of chunks) {
        block += chunk;
        if (block.length >= blockCharacters) write();
      }
      write();
      closeSync(file);
      const sha256 = hash.digest('hex');
      if (manifests.some((other) => other !== sha256)) throw new ExportError('PageConflictError', `${key} is another`);
      manifests.push(sha256);
      renameSync(`${path}.incoming`, path);
    },

    async putLatest(_, pointer) {
      if (latest === undefined || latest.sequence <= pointer.sequence) latest = pointer;
    },

    async *list(folder) {
      if (folder !== place?.folder) return;
      // In an order of its own: every seventh, and then from the next on again.
      for (let first = 1; first <= 7; first += 1) {
        for (let page = first; page <= pages; page += 7) {
          const { key, bytes, revision } = factsOf(`${folder}/page-${String(page).padStart(6, '0')}.xml`);
          yield { key, bytes, revision };
        }
      }
    },

    locate: (key) => join(root, key),
  };
}
