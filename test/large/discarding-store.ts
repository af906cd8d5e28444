/**
 * A page store that discards bodies, for runs with more pages than fit into memory. It keeps only the number of pages: those of
 * `numbered-pages` are stored in order, and their metadata follows from their numbers. Every page is checked against it. The
 * manifest goes to a file.
 */

import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ExportError } from '../../lib/core/errors.ts';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import { type Instant, type LatestPointer, type RunId, type StoredPage } from '../../lib/core/model.ts';
import type { PageStore } from '../../lib/core/ports.ts';
import { bodyOf, cursorTo, reportsOn } from './numbered-pages.ts';

export interface DiscardingStore extends PageStore {
  /** How many pages it has, from page 1 on without gaps. */
  readonly pages: number;
  /** The SHA-256 of every manifest that was put, including repetitions. */
  readonly manifests: readonly string[];
  readonly latest: LatestPointer | undefined;
}

export interface DiscardingStoreOptions {
  /** The directory of the manifest and the summary. */
  readonly root: string;
  readonly lastPage: number;
  readonly serviceTime: Instant;
}

const blockCharacters = 1024 * 1024;

export function createDiscardingStore({ root, lastPage, serviceTime }: DiscardingStoreOptions): DiscardingStore {
  let current: { readonly folder: string; readonly run: RunId } | undefined;
  let pages = 0;
  let latest: LatestPointer | undefined;
  /** The SHA-256 of every document that was put, by key. */
  const documents = new Map<string, string[]>();
  const pageNumberIn = (key: string) => Number(/\/page-(\d+)\.xml$/.exec(key)?.[1]);

  const metadataOf = (key: string): StoredPage => {
    const page = pageNumberIn(key);
    const body = bodyOf(page);
    return {
      key,
      run: current?.run as RunId,
      page,
      bytes: body.length,
      sha256: createHash('sha256').update(body).digest('hex'),
      revision: `"${page}"`,
      reports: reportsOn(page),
      documentRoot: asDocumentRoot('reports'),
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
    get manifests() {
      return [...documents].flatMap(([key, digests]) => (key.endsWith('/manifest.json') ? digests : []));
    },

    async find(key) {
      return pageNumberIn(key) <= pages ? metadataOf(key) : undefined;
    },

    spool({ key, run, page, cursor }) {
      const hash = createHash('sha256');
      return {
        async fill(body) {
          for await (const chunk of body) hash.update(chunk);
        },
        async put(received) {
          current ??= { folder: dirname(key), run };
          const metadata = metadataOf(key);
          if (page <= pages) return { stored: false, page: metadata };
          const isExpected =
            page === pages + 1 &&
            dirname(key) === current.folder &&
            run === current.run &&
            cursor === metadata.cursor &&
            received.nextCursor === metadata.nextCursor &&
            received.reports === metadata.reports &&
            received.documentRoot === metadata.documentRoot &&
            hash.digest('hex') === metadata.sha256;
          if (!isExpected) throw new Error(`${key}, stored after page ${pages}, is not the numbered page ${page}`);
          pages = page;
          return { stored: true, page: metadata };
        },
        async [Symbol.asyncDispose]() {},
      };
    },

    async putDocument(key, chunks) {
      const path = join(root, key);
      mkdirSync(dirname(path), { recursive: true });
      // Synchronously: simulated time would pass while Node waits for the disk.
      const file = openSync(`${path}.incoming`, 'w');
      const hash = createHash('sha256');
      let block = '';
      const flush = () => {
        hash.update(block);
        writeSync(file, block);
        block = '';
      };
      for await (const chunk of chunks) {
        block += chunk;
        if (block.length >= blockCharacters) flush();
      }
      flush();
      closeSync(file);
      const sha256 = hash.digest('hex');
      const earlier = documents.get(key) ?? [];
      if (earlier.some((other) => other !== sha256)) {
        throw new ExportError('PageConflictError', `${key} already has other content`);
      }
      documents.set(key, [...earlier, sha256]);
      renameSync(`${path}.incoming`, path);
    },

    async putLatest(_, pointer) {
      if (latest === undefined || latest.sequence <= pointer.sequence) latest = pointer;
    },

    async *list(folder) {
      if (folder !== current?.folder) return;
      // Not in the order of the pages: every seventh, seven times.
      for (let first = 1; first <= 7; first += 1) {
        for (let page = first; page <= pages; page += 7) {
          const { key, bytes, revision } = metadataOf(`${folder}/page-${String(page).padStart(6, '0')}.xml`);
          yield { key, bytes, revision };
        }
      }
    },

    locate: (key) => join(root, key),
  };
}
