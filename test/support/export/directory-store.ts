/** A directory page store that closes its files when it goes out of scope. */

import { createDirectoryPageStore } from '../../../lib/local/files/page-store.ts';

/** @example using store = directoryStore(directory.path); */
export function directoryStore(root: string): ReturnType<typeof createDirectoryPageStore> & Disposable {
  const store = createDirectoryPageStore(root);
  return { ...store, [Symbol.dispose]: () => store.close() };
}
