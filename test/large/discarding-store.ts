/**
 * A page store that discards bodies, for runs with more pages than fit into memory. It keeps only the number of pages:
 * those of
 * `numbered-pages` are stored in order, and their metadata follows from their numbers. Every page is checked against
 * it. The manifest goes to a file.
 */

import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import type { Instant, RunId, StoredPage } from '../../lib/core/model.ts';
import type { PageStore } from '../../lib/core/ports.ts';
import { bodyOf, cursorTo, reportsOn } from './numbered-pages.ts';

interface DiscardingStoreOptions {
  /** The directory of the manifest and the summary. */
  readonly root: string;
  readonly lastPage: number;
  readonly serviceTime: Instant;
}

const blockCharacters = 1024 * 1024;

export function createDiscardingStore({ root, lastPage, serviceTime }: DiscardingStoreOptions): PageStore {
  let current: { readonly folder: string; readonly run: RunId } | undefined;
  let pages = 0;
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
    async find(key) {
      return pageNumberIn(key) <= pages ? metadataOf(key) : undefined;
    },

    read: async () => undefined,

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
      const file = openSync(path, 'w');
      let block = '';
      for await (const chunk of chunks) {
        block += chunk;
        if (block.length < blockCharacters) continue;
        writeSync(file, block);
        block = '';
      }
      writeSync(file, block);
      closeSync(file);
    },

    async putLatest() {},

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
