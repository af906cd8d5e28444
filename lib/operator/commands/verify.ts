/** `report-exporter verify`: reads runs again, from the manifest to the last byte, and reports what has changed. */

import { type Run, type RunId, zeroTotals } from '../../core/model.ts';
import { isExportError } from '../../core/errors.ts';
import { manifestKeyFromRunId, parseRunId } from '../../core/storage/keys.ts';
import {
  findManifest,
  missingManifest,
  openPublishedRun,
  type PublishedRun,
  readLatestPointer,
} from '../../core/storage/published-runs.ts';
import { listRunIds } from '../../core/storage/run-list.ts';
import { type ExportTarget, type Target, type UnreadableExport, unreadableExport } from '../target.ts';
import { type Call, exitStatuses, openExport, print, runOnTarget, selectExports, unreadableLines } from '../context.ts';
import { countKinds } from '../output/table.ts';
import { plural, totals } from '../output/format.ts';
import { createPageCounter } from '../output/progress.ts';
import { type TextStyle, textStyleFor } from '../output/terminal.ts';
import { noRunError, readStates, stateOfRun } from '../run-view.ts';
import { type VerifiedRun, verifyRun, verifyUnfinishedRun } from '../verify-run.ts';

export async function verifyCommand(call: Call): Promise<number> {
  const { names, options, problems, stdout, stderr, env, runtime } = call;
  const { all = false, json = false, run } = options;
  if (all && names.length > 0) problems.push('--all: verifies every export; leave out the name of the export');
  if (all && run !== undefined) problems.push('--run: selects one run; leave it out with --all');
  return await runOnTarget(call, async (target) => {
    const output = json ? stderr : stdout;
    const style = textStyleFor(output, env);
    const rows: Row[] = [];
    const count: Count = (verb) => createPageCounter(stderr, verb, runtime.now);
    for await (const row of all ? verifyAll(target, count) : verifyOne(target, { name: names[0], run }, count)) {
      rows.push(row);
      await print(output, `${rowLines(row, style).join('\n')}\n`);
    }
    if (all) await print(output, `${countKinds(rows.map(statusOf), statuses, 'run')}\n`);
    const hasFailed = rows.some((row) => ['failed', 'unreadable'].includes(statusOf(row)));
    const result = all ? { status: hasFailed ? 'failed' : 'ok', runs: rows } : rows[0];
    if (json) await print(stdout, `${JSON.stringify(result)}\n`);
    return hasFailed ? exitStatuses.failed : exitStatuses.ok;
  });
}

type Count = (verb: string) => ReturnType<typeof createPageCounter>;

/** The object of `--json`. `none`: there is no run yet. `unfinished`: nothing is wrong with the pages so far. */
type Row =
  | ({ readonly status: 'ok' | 'failed' | 'unfinished'; readonly export: string } & VerifiedRun)
  | { readonly status: 'none'; readonly export: string }
  | UnreadableExport;

const statuses = ['unreadable', 'failed', 'none', 'unfinished', 'ok'] as const;
const statusOf = (row: Row): (typeof statuses)[number] => ('error' in row ? 'unreadable' : row.status);

/** Yields one row. @throws ConfigurationError if the export has no run */
async function* verifyOne(
  target: Target,
  { name, run }: { readonly name: string | undefined; readonly run: string | undefined },
  count: Count,
): AsyncGenerator<Row> {
  const opened = await openExport(target, name);
  const row = await verifyExport(opened, run, count, 'Verified');
  if (statusOf(row) === 'none') throw await noRunError(opened, 'to verify');
  yield row;
}

/**
 * All published runs of every export, one after the other: each reads several pages at the same time. An unreadable run
 * or export does not hide the other rows.
 */
async function* verifyAll(target: Target, count: Count): AsyncGenerator<Row> {
  await selectExports(target, [], true);
  for (const each of await target.openAll()) {
    if ('error' in each) yield each;
    else yield* verifyRuns(each, count);
  }
}

async function* verifyRuns(target: ExportTarget, count: Count): AsyncGenerator<Row> {
  const { store, name, serviceName } = target;
  try {
    const newest = await findNewestRun(target);
    const runs = [...new Set([...(await listRunIds(store, name)), ...(newest === undefined ? [] : [newest])])];
    if (runs.length === 0) yield await verifyExport(target, undefined, count, 'Verified');
    for (const [index, run] of runs.entries()) {
      const verb = `Run ${index + 1} of ${runs.length} of ${name}: verified`;
      yield await verifyExport(target, run, count, verb).catch((error: unknown) => {
        if (!isExportError(error, 'PageConflictError')) throw error;
        return failedRow(name, run, error.message);
      });
    }
  } catch (error) {
    yield unreadableExport(name, serviceName, error);
  }
}

/**
 * Verifies the run `runId`, or else the newest published run, or else the unfinished one.
 * @throws ConfigurationError if the run `runId` was not published, and is not the unfinished one; PageConflictError if
 *   its manifest was changed
 */
async function verifyExport(target: ExportTarget, runId: string | undefined, count: Count, verb: string): Promise<Row> {
  const { store, log, name } = target;
  const verify = async (subject: PublishedRun | Run): Promise<Row> => {
    const counter = count(verb);
    const deps = { store, log, onPage: counter.add };
    const verifying = 'manifest' in subject ? verifyRun(deps, subject) : verifyUnfinishedRun(deps, subject);
    const verified = await verifying.finally(counter.end);
    const status = verified.findingCount > 0 ? 'failed' : verified.published ? 'ok' : 'unfinished';
    return { status, export: name, ...verified };
  };
  const run = runId === undefined ? await findNewestRun(target) : parseRunId(runId);
  if (run === undefined) {
    const { active } = (await log.exportState(name)) ?? {};
    return active === undefined ? { status: 'none', export: name } : await verify(active);
  }
  const manifest = manifestKeyFromRunId(name, run);
  const published = await findManifest(store, manifest);
  if (published !== undefined) return await verify(published);
  const { active, lastCompleted } = stateOfRun(await readStates(target), run) ?? {};
  if (active?.run === run) return await verify(active);
  if (lastCompleted?.result.run === run && lastCompleted.result.manifest !== null) {
    return failedRow(name, run, missingManifest(store.locate(manifest)).message);
  }
  return await verify(await openPublishedRun(store, name, run));
}

/** The row of a published run whose manifest cannot be read. */
function failedRow(exportName: string, run: RunId, message: string): Row {
  const findings = [{ page: null, message }];
  const found = {
    run,
    published: true,
    bounds: null,
    parentRun: null,
    ...zeroTotals,
    notes: [],
    findings,
    findingCount: 1,
  };
  return { status: 'failed', export: exportName, ...found };
}

/**
 * The run that `latest.json` names. If that file was deleted, or is an older version, the run that the export state
 * names: its verification reports the pointer.
 */
async function findNewestRun({ store, log, name }: ExportTarget): Promise<RunId | undefined> {
  const pointer = await readLatestPointer(store, name);
  const { sequence = 0, lastCompleted } = (await log.exportState(name)) ?? {};
  const { run, manifest = null } = lastCompleted?.result ?? {};
  // A run without a manifest found no reports, and was not published.
  const isNewest = manifest === null || (pointer !== undefined && pointer.sequence >= sequence);
  return isNewest ? pointer && parseRunId(pointer.run) : run;
}

function rowLines(row: Row, style: TextStyle): readonly string[] {
  if ('error' in row) return unreadableLines(row, style);
  if (row.status === 'none') return [`${style('yellow', 'No run yet:')} ${row.export}`];
  const { published, run, parentRun, notes, findings, findingCount } = row;
  const ofParents = parentRun === null ? '' : `, parents of run ${parentRun.run} of ${parentRun.export}`;
  const about = `${row.export} (${published ? '' : 'unfinished '}run ${run}, ${totals(row)}${ofParents})`;
  const noteLines = notes.map((note) => style('dim', `  ${note}`));
  if (row.status === 'unfinished') return [`${style('yellow', 'Not published:')} ${about}`, ...noteLines];
  if (findingCount === 0) return [`${style('green', 'Verified:')} ${about}`, ...noteLines];
  const more = findingCount - findings.length;
  return [
    `${style('red', 'Verification failed:')} ${about}`,
    ...findings.map(({ message }) => `  ${message}`),
    ...(more === 0 ? [] : [`  and ${plural(more, 'more problem')}`]),
    '  Do not rely on this run. Restore the original objects, from a bucket version or a backup, or export the same',
    `  reports ${remedyOf(row)}.`,
    ...noteLines,
  ];
}

function remedyOf({ bounds, parentRun }: Pick<VerifiedRun, 'bounds' | 'parentRun'>): string {
  if (bounds !== null) return `again: start with --since ${bounds.since} --until ${bounds.until} --again`;
  if (parentRun !== null) return `again: start with --parents ${parentRun.run} --again`;
  return 'in a new run: start it with a --since at or before the one of this run';
}
