/**
 * Stores the pages of the run folder `argv[3]` in the directory `argv[2]` as the writer `argv[4]`, and prints the
 * number and the hash of each stored page, until it is killed. Body and cursor are derived from the writer's name and
 * the page number, so a test can tell which writer a page and its metadata come from.
 */

import { fileURLToPath } from 'node:url';
import { asCursor, asRunId } from '../../../lib/core/model.ts';
import { stateFileIn } from '../../../lib/local/sqlite/state-file.ts';
import { aFetchedPage, aPageIdentity, inRandomChunks, putPage } from '../../support/builders.ts';
import { createSqlitePageLog, directoryStore } from '../../support/export/directory-store.ts';

/** Every second page is compressed. */
export const identityOf = (folder: string, page: number) =>
  aPageIdentity({
    folder,
    page,
    run: asRunId('20261120T020000Z-1f3a5cb2d407'),
    cursor: null,
    compression: page % 2 === 0 ? 'gzip' : undefined,
  });

/** Up to about 40 kB. Every fifth page has the same bytes from all writers. */
export const bodyOf = (writer: string, page: number) =>
  Buffer.from(`${page % 5 === 0 ? 'all' : writer} ${page};`.repeat((page * 997) % 4_096));

export const cursorOf = (writer: string, page: number) => asCursor(`${writer},${page}`);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , root = '', folder = '', writer = ''] = process.argv;
  // The state file exists before anything is stored, as in a run.
  createSqlitePageLog(stateFileIn(root));
  const store = directoryStore(root);
  for (let page = 1; ; page++) {
    const body = inRandomChunks(bodyOf(writer, page), 8_192);
    const put = await putPage(
      store,
      identityOf(folder, page),
      aFetchedPage({ body, nextCursor: cursorOf(writer, page) }),
    );
    process.stdout.write(`${page} ${put.page.sha256}\n`);
  }
}
