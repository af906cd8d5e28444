/** `report-exporter pages`: the pages of a published run in order, for pipes: their locations or bytes. */

import { ExportError } from '../../core/errors.ts';
import type { StoreReader } from '../../core/ports.ts';
import { DifferentContentError, readPage } from '../../core/storage/compression.ts';
import { openPublishedRun } from '../../core/storage/published-runs.ts';
import type { ManifestPage } from '../../core/storage/published-schemas.ts';
import { type Call, exitStatuses, openExport, print, runOnTarget } from '../context.ts';

/** Writes only the pages to stdout, and nothing of a run that is not published. */
export async function pagesCommand(call: Call): Promise<number> {
  const { names, options, problems, stdout, program } = call;
  const { json = false, cat = false } = options;
  if (cat && json) problems.push('--json: cannot show bytes; leave out --cat');
  return await runOnTarget(call, async (target) => {
    const { name, store } = await openExport(target, names[0]);
    const { header, pages } = await openPublishedRun(store, name, options.run);
    const { run } = header;
    const verifyCommand = `${program} verify ${name} --run ${run} ${target.option}`;
    for await (const page of pages) {
      if (cat) {
        for await (const chunk of readContent(store, page, verifyCommand)) await print(stdout, chunk);
      } else {
        const location = store.locate(page.key);
        await print(stdout, `${json ? JSON.stringify({ run, ...page, location }) : location}\n`);
      }
    }
    return exitStatuses.ok;
  });
}

/** @throws PageConflictError, after the last byte at the latest, if the page is missing or not as the manifest says */
async function* readContent(store: StoreReader, page: ManifestPage, verifyCommand: string): AsyncGenerator<Uint8Array> {
  const location = store.locate(page.key);
  const chunks = await store.read(page.key);
  try {
    if (chunks === undefined) throw new DifferentContentError('does not exist');
    yield* readPage(page, chunks);
  } catch (cause) {
    if (!(cause instanceof DifferentContentError)) throw cause;
    const message = `${location} ${cause.message}. To check the whole run: ${verifyCommand}`;
    throw new ExportError('PageConflictError', message, { cause });
  }
}
