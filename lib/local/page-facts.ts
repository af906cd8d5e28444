/**
 * A page's facts as they lie beside it, sealed, and trusted only where they are what was written and fit the page.
 * Facts that are missing or do not fit mean that the page was put there, or changed, by something else.
 */

import { readFile, stat } from 'node:fs/promises';
import { ExportError } from '../core/errors.ts';
import type { PageFacts } from '../core/model.ts';
import { sealOf } from '../core/seal.ts';
import { openFacts } from '../core/stored-values.ts';

type Observed = Pick<PageFacts, 'key' | 'bytes' | 'sha256'>;

/** Two cursors of 16 KiB each, escaped at their worst, and all the rest. What is larger was never written here. */
const mostBytes = 1_048_576;

/** The facts as the text of a file that a person can read. */
export function factsText(facts: PageFacts): string {
  return `${JSON.stringify({ ...facts, seal: sealOf(facts) })}\n`;
}

/**
 * The facts in `file`, for the page as it was found on the disk.
 *
 * @throws ExportError PageConflictError where they are not what was written there, or tell of another page
 */
export async function readFacts(file: string, observed: Observed): Promise<PageFacts> {
  try {
    const stats = await stat(file);
    if (!stats.isFile() || stats.size > mostBytes) throw new Error('that is no file of facts');
    const { seal, ...value } = JSON.parse(await readFile(file, 'utf8')) as { readonly seal?: unknown };
    const facts = openFacts(() => ({ value, seal }));
    const { key, bytes, sha256 } = facts;
    if (key !== observed.key || bytes !== observed.bytes || sha256 !== observed.sha256) {
      throw new Error(`it tells of the ${bytes} bytes of ${key}`);
    }
    return facts;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw pageConflict(observed.key, `the facts that belong to its bytes cannot be taken from ${file}: ${why}`, cause);
  }
}

export function pageConflict(key: string, why: string, cause?: unknown): ExportError {
  return new ExportError(
    'PageConflictError',
    `${key} stands in the store already, but not as this exporter left it: ${why}. Nothing was touched; ` +
      'if it was changed by mistake, move it away and start again',
    cause === undefined ? {} : { cause },
  );
}
