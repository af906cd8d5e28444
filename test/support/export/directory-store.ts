/** The stores of a directory, each with a connection of its own to the state file. */

import type { Compress } from '../../../lib/core/storage/compression.ts';
import { createDirectoryPageStore } from '../../../lib/local/page-store.ts';
import { pageLogIn } from '../../../lib/local/sqlite/page-log.ts';
import { openStateFile, stateFileIn } from '../../../lib/local/sqlite/state-file.ts';

/** @example using store = directoryStore(directory.path); */
export function directoryStore(root: string, compress?: Compress) {
  const state = openStateFile(stateFileIn(root));
  return { ...createDirectoryPageStore(root, state, compress), close: state.close, [Symbol.dispose]: state.close };
}

/** The page log in `file`, which is created, with its directory, if needed. */
export const createSqlitePageLog = (file: string) => logIn(file, true);

/** The page log in `file`, which exists. */
export const openSqlitePageLog = (file: string) => logIn(file, false);

function logIn(file: string, create: boolean) {
  const state = openStateFile(file, { create });
  return { ...pageLogIn(state), close: state.close, [Symbol.dispose]: state.close };
}
