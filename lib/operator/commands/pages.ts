/** `report-exporter pages`: the published pages of a run, in order, for pipes: where they lie, their bytes, or their reports. */

import { ExportError } from '../../core/errors.ts';
import type { DeployedExport } from '../../core/operations/deployment.ts';
import { openPublishedRun } from '../../core/storage/published-runs.ts';
import { reportElements } from '../../report-service/xml/split-reports.ts';
import { type CommandContext, exitStatuses, openExport, operate, type PlaceOptions, print } from '../context.ts';

export interface PagesOptions extends PlaceOptions {
  readonly run?: string;
  readonly cat?: boolean;
  readonly reports?: boolean;
}

/** Nothing but what was asked for goes to stdout, and nothing of a run that is not published. */
export async function pagesCommand(
  exportName: string | undefined,
  options: PagesOptions,
  problems: readonly string[],
  world: CommandContext,
): Promise<number> {
  const { json, cat, reports } = options;
  const found = [...problems];
  if (cat === true && reports === true) found.push('--cat, --reports: say one of them');
  if (cat === true && json === true) found.push('--json: bytes have no JSON; leave out --cat, or say --reports');
  return await operate(options, found, world, async (installation) => {
    const installed = await openExport(installation, exportName);
    const { store } = installed;
    const { head, pages } = await openPublishedRun(store, installed.name, options.run);
    if (reports === true && !(head.format === 'XML' && head.container === 'NONE')) {
      const what = `${head.format} in ${head.container}`;
      throw new ExportError(
        'ConfigurationError',
        `--reports: the pages of run ${head.run} are ${what}; only XML in NONE can be taken apart`,
      );
    }
    for await (const page of pages) {
      if (cat === true) {
        for await (const chunk of await bytesOf(installed, page.key, installation.option))
          await print(world.stdout, chunk);
      } else if (reports === true) {
        let report = 0;
        for await (const xml of reportElements(await bytesOf(installed, page.key, installation.option))) {
          report += 1;
          await print(
            world.stdout,
            `${json === true ? JSON.stringify({ run: head.run, page: page.page, report, xml }) : xml}\n`,
          );
        }
      } else {
        const location = store.locate(page.key);
        await print(
          world.stdout,
          `${json === true ? JSON.stringify({ run: head.run, ...page, location }) : location}\n`,
        );
      }
    }
    return exitStatuses.ok;
  });
}

async function bytesOf(
  { store, name }: DeployedExport,
  key: string,
  option: string,
): Promise<AsyncIterable<Uint8Array>> {
  const chunks = await store.read(key);
  if (chunks !== undefined) return chunks;
  throw new ExportError(
    'PageConflictError',
    `${store.locate(key)} is gone. See npx report-exporter verify ${name} ${option}`,
  );
}
