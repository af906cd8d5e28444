/** A directory page store that closes its files when it goes out of scope. */

import { createDirectoryPageStore } from '../../../lib/local/files/page-store.ts';

/** @example using store = directoryStore(directory.path); */
export function directoryStore(
  ...options: Parameters<typeof createDirectoryPageStore>
): ReturnType<typeof createDirectoryPageStore> & Disposable {
  const store = createDirectoryPageStore(...options);
  return { ...store, [Symbol.dispose]: () => store.close() };
}
