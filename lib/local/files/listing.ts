/** Lists a folder of any size without holding it in memory. */

import { opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf, diskError } from './durable-fs.ts';

interface ListedFile {
  readonly name: string;
  readonly bytes: number;
}

/**
 * The visible files that lie directly in `folder`, in any order; none where there is no such folder.
 * @throws ExportError ConfigurationError where the disk refuses
 */
export async function* filesIn(folder: string): AsyncGenerator<ListedFile> {
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
