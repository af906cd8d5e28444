/** `report-exporter pages`: the pages of a published run in order, for pipes: their locations, bytes or reports. */

import { ExportError } from '../../core/errors.ts';
import type { DeployedExport } from '../../target/target.ts';
import { DifferentContentError, readPage } from '../../core/storage/compression.ts';
import { openPublishedRun } from '../../core/storage/published-runs.ts';
import type { ManifestPage } from '../../core/storage/published-schemas.ts';
import { splitReports } from '../../service/xml/split-reports.ts';
import {
  type CommandContext,
  exitStatuses,
  openExport,
  print,
  runOnDeployment,
  type TargetOptions,
} from '../context.ts';

export interface PagesOptions extends TargetOptions {
  readonly run?: string;
  readonly cat?: boolean;
  readonly reports?: boolean;
}

/** Writes only the pages to stdout, and nothing of a run that is not published. */
export async function pagesCommand(
  exportName: string | undefined,
  options: PagesOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, program } = context;
  const { json, cat, reports } = options;
  const problems = [...usageErrors];
  if (cat === true && reports === true) problems.push('--cat, --reports: use only one of them');
  if (cat === true && json === true) problems.push('--json: cannot show bytes; leave out --cat, or use --reports');
  return await runOnDeployment(options, problems, context, async (deployment) => {
    const deployed = await openExport(deployment, exportName);
    const verifyCommand = `${program} verify ${deployed.name} ${deployment.option}`;
    const { store } = deployed;
    const { header, pages } = await openPublishedRun(store, deployed.name, options.run);
    const { run, format, container, api } = header;
    // Where the pages of other APIs have their reports, the manifest does not say.
    if (reports === true && !(format === 'XML' && container === 'NONE' && api === undefined)) {
      const actual = api === undefined ? `${format} in ${container}` : `pages of another API, in ${format}`;
      const message = `--reports: needs pages of the Report Export Service in XML, container NONE, but run ${run} has ${actual}`;
      throw new ExportError('ConfigurationError', message);
    }
    const printRecord = (record: object, text: string) =>
      print(stdout, `${json === true ? JSON.stringify({ run, ...record }) : text}\n`);
    for await (const page of pages) {
      if (cat === true) {
        for await (const chunk of readContent(deployed, page, verifyCommand)) await print(stdout, chunk);
      } else if (reports === true) {
        let report = 0;
        for await (const xml of readReports(deployed, page, verifyCommand)) {
          report += 1;
          await printRecord({ page: page.page, report, xml }, xml);
        }
      } else {
        const location = store.locate(page.key);
        await printRecord({ ...page, location }, location);
      }
    }
    return exitStatuses.ok;
  });
}

/** @throws PageConflictError, after the last byte at the latest, if the page is missing or not as the manifest says */
async function* readContent(
  { store }: DeployedExport,
  page: ManifestPage,
  verifyCommand: string,
): AsyncGenerator<Uint8Array> {
  const location = store.locate(page.key);
  const chunks = await store.read(page.key);
  if (chunks === undefined) throw pageConflict(`${location} does not exist`, verifyCommand);
  try {
    yield* readPage(page, chunks);
  } catch (cause) {
    if (!(cause instanceof DifferentContentError)) throw cause;
    throw pageConflict(`${location} ${cause.message}`, verifyCommand, cause);
  }
}

/** @throws PageConflictError if the page is missing or not well-formed; errors of the store as they are */
async function* readReports(
  deployed: DeployedExport,
  page: ManifestPage,
  verifyCommand: string,
): AsyncGenerator<string> {
  let readFailure: { readonly error: unknown } | undefined;
  async function* chunks() {
    try {
      yield* readContent(deployed, page, verifyCommand);
    } catch (error) {
      readFailure = { error };
      throw error;
    }
  }
  try {
    yield* splitReports(chunks());
  } catch (cause) {
    if (readFailure !== undefined) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const problem = `${deployed.store.locate(page.key)} is not the XML that was published (${reason})`;
    throw pageConflict(problem, verifyCommand, cause);
  }
}

function pageConflict(problem: string, verifyCommand: string, cause?: unknown): ExportError {
  const message = `${problem}. To check the whole run: ${verifyCommand}`;
  return new ExportError('PageConflictError', message, { cause });
}
