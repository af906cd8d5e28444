/** Functions of `fs` that fail, wait or are observed. */

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { onTestFinished } from 'vitest';

/** Replaces functions of `fs` in all modules, until the result is called or the test has finished. */
export function replaceInFs(functions: Partial<typeof fs>): () => void {
  const before = Object.fromEntries(Object.keys(functions).map((name) => [name, Reflect.get(fs, name)]));
  const set = (values: object) => {
    Object.assign(fs, values);
    syncBuiltinESMExports();
  };
  set(functions);
  const restore = () => set(before);
  onTestFinished(restore);
  return restore;
}
