/** `report-exporter verify`: reads runs again, from the manifest to the last byte, and reports what has changed. */

import { systemRuntime } from '../../core/clock.ts';
import { ExportError } from '../../core/errors.ts';
import { type RunResult, zeroTotals } from '../../core/model.ts';
import { manifestKey, manifestKeyFromRunId, parseRunId } from '../../core/storage/keys.ts';
import { findManifest, readLatestPointer } from '../../core/storage/published-runs.ts';
import { type ExportTarget, unreadableExport } from '../../target/target.ts';
import {
  allExports,
  type CommandContext,
  exitStatuses,
  openExport,
  print,
  runOnDeployment,
  type TargetOptions,
} from '../context.ts';
import { createPageCounter } from '../output/progress.ts';
import { hintLines } from '../output/status-table.ts';
import { textStyleFor } from '../output/terminal.ts';
import { statusOf, verifiedJson, verifiedLines, type VerifyRow, verifyTable } from '../output/verified-exports.ts';
import { findRun, noRunError, readStates, stateOfRun } from '../run-view.ts';
import { type VerifiedRun, type VerifyDependencies, verifyRun } from '../verify-run.ts';

export interface VerifyOptions extends TargetOptions {
  readonly run?: string;
  readonly all?: boolean;
}

export async function verifyCommand(
  exportName: string | undefined,
  options: VerifyOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr, env, program } = context;
  const { all = false, json = false, run: runId } = options;
  const problems = [...usageErrors];
  if (all && exportName !== undefined) problems.push('--all: verifies every export; leave out the name of the export');
  if (all && runId !== undefined) problems.push('--run: selects one run; leave it out with --all');
  return await runOnDeployment(options, problems, context, async (deployment) => {
    if (all) await allExports(deployment);
    const exports = all ? await deployment.openAll() : [await openExport(deployment, exportName)];
    const counter = createPageCounter(stderr, 'Verified', systemRuntime.now);
    const rows: VerifyRow[] = [];
    // One after the other: each reads several pages at the same time. One that cannot be read does not hide the others.
    for (const each of exports) {
      if ('error' in each) {
        rows.push(each);
        continue;
      }
      try {
        const verified = await verifyExport(each, runId, counter.add);
        if (!all && verified.runs.length === 0) throw noRunError(each.name, 'to verify');
        rows.push({ export: each.name, ...verified });
      } catch (error) {
        if (!all) throw error;
        rows.push(unreadableExport(each.name, each.serviceName, error));
      }
    }
    counter.end();
    const hasFailed = rows.some((row) => ['failed', 'unreadable'].includes(statusOf(row)));
    const output = json ? stderr : stdout;
    const style = textStyleFor(output, env);
    const columns = output.columns || 80;
    const command = `${program} verify <export> ${deployment.option}`;
    const hasBounded = rows.some((row) => 'boundedRuns' in row && row.boundedRuns > 0);
    const hints = [
      ...(hasFailed ? hintLines('for details', command, columns) : []),
      ...(hasBounded ? hintLines('bounded runs, which are left out', `${command} --run <id>`, columns) : []),
    ];
    const lines = all
      ? [...verifyTable(rows, { now: systemRuntime.now(), style, columns }), ...hints.map((line) => style('dim', line))]
      : rows.flatMap((row) => verifiedLines(row, style));
    await print(output, `${lines.join('\n')}\n`);
    if (json) {
      const results = rows.map(verifiedJson);
      const result = all ? { status: hasFailed ? 'failed' : 'ok', exports: results } : results[0];
      await print(stdout, `${JSON.stringify(result)}\n`);
    }
    return hasFailed ? exitStatuses.failed : exitStatuses.ok;
  });
}

/**
 * Verifies the run `runId`, or else the newest published run, or else the unfinished one. If the newest published run has no reports, also
 * the newest one that has some. Without a run, there is none yet. Without `runId`, bounded runs are only counted.
 */
async function verifyExport(
  deployed: ExportTarget,
  runId: string | undefined,
  onPage: (bytes: number) => void,
): Promise<{ readonly runs: readonly VerifiedRun[]; readonly boundedRuns: number }> {
  const { store, log, name } = deployed;
  const deps = { store, log, onPage };
  if (runId !== undefined) return { runs: [await verifyNamed(deployed, runId, deps)], boundedRuns: 0 };
  const { state, bounded } = await readStates(deployed);
  const boundedRuns = [...bounded].filter(([run, each]) => each.lastCompleted?.result.run === run).length;
  const { active, lastCompleted } = state ?? {};
  const newest = await findNewestRun(store, name, lastCompleted?.result);
  if (newest === undefined) return { runs: active === undefined ? [] : [await verifyRun(deps, active)], boundedRuns };
  const published = await findManifest(store, newest.manifest);
  if (published === undefined) return { runs: [withoutManifest(deployed, newest.run)], boundedRuns };
  const found = await verifyRun(deps, published);
  if (found.reports !== 0) return { runs: [found], boundedRuns };

  for await (const last of log.runs(name)) {
    // Of several slices, it is the last page of one.
    const isKnownEmpty = last.slice === undefined && last.totals.reports === 0;
    if (last.run === newest.run || bounded.has(last.run) || isKnownEmpty) continue;
    const older = await findManifest(store, manifestKeyFromRunId(name, last.run));
    if (older === undefined) {
      const isDamaged = (await findRun(deployed, last.run))?.state === 'damaged';
      if (isDamaged) return { runs: [found, withoutManifest(deployed, last.run)], boundedRuns };
    } else if (older.header.bounded !== true && older.header.totals.reports !== 0) {
      return { runs: [found, await verifyRun(deps, older)], boundedRuns };
      // Leaving the loop closes the file.
    } else for await (const _ of older.pages) break;
  }
  return { runs: [found], boundedRuns };
}

/** @throws ConfigurationError if the run was not published, and is not the unfinished one */
async function verifyNamed(deployed: ExportTarget, runId: string, deps: VerifyDependencies): Promise<VerifiedRun> {
  const { store, name } = deployed;
  const run = parseRunId(runId);
  const manifest = manifestKeyFromRunId(name, runId);
  const published = await findManifest(store, manifest);
  if (published !== undefined) return await verifyRun(deps, published);
  const active = stateOfRun(await readStates(deployed), run)?.active;
  if (active?.run === run) return await verifyRun(deps, active);
  const outcome = (await findRun(deployed, run))?.state;
  if (outcome === 'damaged') return withoutManifest(deployed, runId);
  const unfinished =
    active === undefined ? '' : `. The unfinished run is ${active.run}, at ${store.locate(manifestKey(active))}`;
  throw new ExportError(
    'ConfigurationError',
    outcome === 'empty'
      ? `Run ${runId} of export ${name} found no reports, and was not published because publishEmptyRuns is false`
      : `Run ${runId} of export ${name} has no manifest at ${store.locate(manifest)}: it was abandoned, or it never existed${unfinished}`,
  );
}

/** The run was published, so its missing manifest is damage, not a wrong argument. */
function withoutManifest({ store, name }: ExportTarget, run: string): VerifiedRun {
  const message = `${store.locate(manifestKeyFromRunId(name, run))} is missing: the manifest of a published run`;
  const findings = [{ page: null, message }];
  return { run, published: true, bounds: null, ...zeroTotals, notes: [], findings, findingCount: 1 };
}

/**
 * The run that `latest.json` names. If the export state knows a newer one, `latest.json` was deleted or replaced by an
 * older version, and the run of the export state is returned: verifying it reports the pointer.
 */
async function findNewestRun(
  store: ExportTarget['store'],
  exportName: string,
  lastResult: RunResult | undefined,
): Promise<{ readonly run: string; readonly manifest: string } | undefined> {
  const pointer = await readLatestPointer(store, exportName);
  if (lastResult === undefined || pointer?.run === lastResult.run) return pointer;
  const { run, manifest } = lastResult;
  // It found no reports, and was not published.
  if (manifest === null) return pointer;
  const newest = await findManifest(store, manifest);
  // Only the header is needed; leaving the loop closes the file.
  if (newest !== undefined) for await (const _ of newest.pages) break;
  const isNewer = pointer === undefined || (newest !== undefined && newest.header.sequence > pointer.sequence);
  return isNewer ? { run, manifest } : pointer;
}
