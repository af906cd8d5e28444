/**
 * Reads back what the directory page store wrote beside a page, and trusts it only where it fits the page.
 * Facts that are missing or do not fit mean that the page was put there, or changed, by something else.
 */

import { readFile } from 'node:fs/promises';
import { ExportError } from '../core/errors.ts';
import type { Continuation, StoredPage } from '../core/model.ts';

type Observed = Pick<StoredPage, 'key' | 'bytes' | 'sha256'>;

/**
 * The facts in `file`, for the page as it was found on the disk.
 *
 * @throws ExportError PageConflictError where they cannot be read or tell of another page
 */
export async function readFacts(file: string, observed: Observed): Promise<StoredPage> {
  let facts: unknown;
  try {
    facts = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw pageConflict(observed.key, `the facts that belong to its bytes cannot be read from ${file}`, cause);
  }
  if (!areFactsOf(observed, facts)) throw pageConflict(observed.key, `${file} tells of another page`);
  return facts;
}

export function pageConflict(key: string, why: string, cause?: unknown): ExportError {
  return new ExportError(
    'PageConflictError',
    `${key} stands in the store already, but not as this exporter left it: ${why}. Nothing was touched; ` +
      'if it was changed by mistake, move it away and start again',
    cause === undefined ? {} : { cause },
  );
}

function areFactsOf(observed: Observed, value: unknown): value is StoredPage {
  if (typeof value !== 'object' || value === null) return false;
  const facts = value as Partial<Record<keyof StoredPage, unknown>>;
  return (
    facts.key === observed.key &&
    facts.bytes === observed.bytes &&
    facts.sha256 === observed.sha256 &&
    typeof facts.run === 'string' &&
    typeof facts.page === 'number' &&
    (facts.reports === null || typeof facts.reports === 'number') &&
    isContinuation(facts.cursor) &&
    isContinuation(facts.nextCursor) &&
    (facts.serviceTime === null || typeof facts.serviceTime === 'string')
  );
}

/** Files hold cursors whole, so there is no hash to look for. */
function isContinuation(value: unknown): value is Continuation {
  return value === null || typeof value === 'string';
}
