/** `report-exporter verify`: reads a run again, from its manifest to its last byte, and reports what has changed; or one of each export. */

import { systemRuntime } from '../../core/clock.ts';
import { ExportError } from '../../core/errors.ts';
import { type ExportState, type Instant, type RunResult, zeroTotals } from '../../core/model.ts';
import { type DeployedExport, type Deployment, unreadableExport } from '../../target/target.ts';
import type { Finding } from '../expected-pages.ts';
import { findLoggedSlices, findStateOf, noRunError, readBoundedStates, stateWithoutManifest } from '../run-status.ts';
import { type VerifiedRun, type VerifyDependencies, verifyPublishedRun, verifyUnpublishedRun } from '../verify-run.ts';
import { manifestKey, manifestKeyFromRunId, parseRunId } from '../../core/storage/keys.ts';
import { findManifest, type PublishedRun, readLatestPointer } from '../../core/storage/published-runs.ts';
import {
  allExports,
  type CommandContext,
  exitStatuses,
  openExport,
  print,
  runOnDeployment,
  type TargetOptions,
} from '../context.ts';
import { plural, totals } from '../output/format.ts';
import { createPageCounter } from '../output/progress.ts';
import { hintLines } from '../output/status-table.ts';
import { textStyleFor } from '../output/terminal.ts';
import { type VerifiedExport, type VerifiedRunJson, type VerifyRow, verifyTable } from '../output/verify-table.ts';

export interface VerifyOptions extends TargetOptions {
  readonly run?: string;
  readonly all?: boolean;
}

/** Further findings are only counted. */
const maxFindings = 100;

export async function verifyCommand(
  exportName: string | undefined,
  options: VerifyOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr, env } = context;
  const { all = false, json = false, run: runId } = options;
  const problems = [...usageErrors];
  if (all && exportName !== undefined) problems.push('--all: verifies every export; leave out the name of the export');
  if (all && runId !== undefined) problems.push('--run: selects one run; leave it out with --all');
  return await runOnDeployment(options, problems, context, async (deployment) => {
    const counter = createPageCounter(stderr, 'Verified', systemRuntime.now);
    if (all) {
      const rows = await verifyAll(deployment, counter.add);
      counter.end();
      return await printAll(rows, deployment, json, context);
    }
    const deployed = await openExport(deployment, exportName);
    const verified = await verifyExport(deployed, runId, counter.add);
    counter.end();
    const [newest] = verified;
    if (newest === undefined) throw await noRunError(deployed, 'to verify');
    const output = json ? stderr : stdout;
    const style = textStyleFor(output, env);
    output.write(verified.map((each) => formatResult(each, each === newest, style)).join(''));
    const result = resultOf(deployed.name, verified);
    if (json) stdout.write(`${JSON.stringify(result)}\n`);
    return result.status === 'failed' ? exitStatuses.failed : exitStatuses.ok;
  });
}

/** What was found in one run. */
interface Verification {
  readonly run: string;
  readonly published: boolean;
  /** Of a published bounded run. */
  readonly bounds?: { readonly since: Instant; readonly until: Instant } | undefined;
  readonly verified: VerifiedRun;
  /** At most `maxFindings`. */
  readonly findings: readonly Finding[];
  readonly findingCount: number;
}

/**
 * Verifies the run `runId`, or else the newest published run, or else the unfinished one. If the newest published run has no reports, also
 * the newest one that has some. Empty if there is no run yet.
 */
async function verifyExport(
  deployed: DeployedExport,
  runId: string | undefined,
  onPage: (bytes: number) => void,
): Promise<readonly Verification[]> {
  const { store, log, name } = deployed;
  const given = runId === undefined ? undefined : parseRunId(runId);
  const state = given === undefined ? await log.exportState(name) : await findStateOf(deployed, given);
  const { active, lastCompleted } = state ?? {};
  const wanted =
    runId === undefined
      ? await findNewestRun(store, name, lastCompleted?.result)
      : { run: runId, manifest: manifestKeyFromRunId(name, runId) };
  const published = wanted && (await findManifest(store, wanted.manifest));
  if (published !== undefined) {
    const found = await verifyPublished(deployed, published, onPage);
    const isEmpty = runId === undefined && found.verified.reports === 0;
    const older = isEmpty ? await verifyNewestWithReports(deployed, found.run, lastCompleted, onPage) : undefined;
    return older === undefined ? [found] : [found, older];
  }
  if (active !== undefined && (wanted === undefined || runId === active.run)) {
    const verified = await verification(active.run, onPage, async (observer) =>
      verifyUnpublishedRun({ store, log, ...observer }, active),
    );
    return [{ ...verified, published: false }];
  }
  if (wanted === undefined) return [];
  const run = { export: name, run: parseRunId(wanted.run) };
  const outcome =
    runId === undefined
      ? 'damaged'
      : await stateWithoutManifest(deployed, run, { slices: await findLoggedSlices(log, run), lastCompleted });
  if (outcome === 'damaged') return [withoutManifest(deployed, wanted.run)];
  if (outcome === 'empty') {
    throw new ExportError(
      'ConfigurationError',
      `Run ${runId} of export ${name} found no reports, and was not published because publishEmptyRuns is false`,
    );
  }
  const unfinished =
    active === undefined ? '' : `. The unfinished run is ${active.run}, at ${store.locate(manifestKey(active))}`;
  throw new ExportError(
    'ConfigurationError',
    `Run ${runId} of export ${name} has no manifest at ${store.locate(wanted.manifest)}: it was abandoned, or it never existed${unfinished}`,
  );
}

/** The newest published run before the run `newest` that has reports, without bounded ones; undefined if the page log has none. */
async function verifyNewestWithReports(
  deployed: DeployedExport,
  newest: string,
  lastCompleted: ExportState['lastCompleted'],
  onPage: (bytes: number) => void,
): Promise<Verification | undefined> {
  const { log, store, name } = deployed;
  const bounded = await readBoundedStates(deployed);
  for await (const last of log.runs(name)) {
    // Of several slices, it is the last page of one.
    const isKnownEmpty = last.slice === undefined && last.totals.reports === 0;
    if (last.run === newest || bounded.has(last.run) || isKnownEmpty) continue;
    const published = await findManifest(store, manifestKeyFromRunId(name, last.run));
    if (published === undefined) {
      const slices = await findLoggedSlices(log, last);
      const outcome = await stateWithoutManifest(deployed, last, { slices, lastCompleted });
      if (outcome === 'damaged') return withoutManifest(deployed, last.run);
      continue;
    }
    if (published.header.bounded !== true && published.header.totals.reports !== 0) {
      return await verifyPublished(deployed, published, onPage);
    }
    // Leaving the loop closes the file.
    for await (const _ of published.pages) break;
  }
  return undefined;
}

async function verifyPublished(
  { store, log }: DeployedExport,
  published: PublishedRun,
  onPage: (bytes: number) => void,
): Promise<Verification> {
  const { run, since, until, bounded } = published.header;
  const verified = await verification(run, onPage, async (observer) =>
    verifyPublishedRun({ store, log, ...observer }, published),
  );
  return { ...verified, bounds: bounded && until !== undefined ? { since, until } : undefined };
}

async function verification(
  run: string,
  onPage: (bytes: number) => void,
  verify: (observer: Pick<VerifyDependencies, 'onPage' | 'onFinding'>) => Promise<VerifiedRun>,
): Promise<Verification> {
  const findings: Finding[] = [];
  let findingCount = 0;
  const onFinding = (finding: Finding) => {
    findingCount += 1;
    if (findings.length < maxFindings) findings.push(finding);
  };
  const verified = await verify({ onPage, onFinding });
  return { run, published: true, verified, findings, findingCount };
}

/** The run was published, so its missing manifest is damage, not a wrong argument. */
function withoutManifest({ store, name }: DeployedExport, run: string): Verification {
  const message = `${store.locate(manifestKeyFromRunId(name, run))} is missing: the manifest of a published run`;
  return {
    run,
    published: true,
    verified: { ...zeroTotals, notes: [] },
    findings: [{ page: null, message }],
    findingCount: 1,
  };
}

/**
 * The run that `latest.json` names. If the export state knows a newer one, `latest.json` was deleted or replaced by an
 * older version, and the run of the export state is returned: verifying it reports the pointer.
 */
async function findNewestRun(
  store: DeployedExport['store'],
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

function resultOf(exportName: string, [newest, older]: readonly Verification[]): VerifiedExport {
  const isDamaged = (newest?.findingCount ?? 0) + (older?.findingCount ?? 0) > 0;
  return {
    status: newest === undefined ? 'none' : isDamaged ? 'failed' : 'ok',
    export: exportName,
    ...(newest && runJson(newest)),
    newestWithReports: older === undefined ? null : runJson(older),
  };
}

function runJson({ run, published, verified, findings, findingCount }: Verification): VerifiedRunJson {
  return { run, published, ...verified, findings, findingCount };
}

function formatResult(
  { run, published, bounds, verified, findings, findingCount }: Verification,
  isNewest: boolean,
  style: ReturnType<typeof textStyleFor>,
): string {
  const which = isNewest ? '' : ', the newest run with reports';
  const runLabel = `${published ? '' : 'unfinished '}run ${run} (${totals(verified)})${which}`;
  const lines =
    findingCount === 0
      ? [`${style('green', 'Verified:')} ${runLabel}`]
      : [
          `${style('red', 'Verification failed:')} ${plural(findingCount, 'problem')} in ${runLabel}`,
          ...findings.map(({ message }) => `  ${message}`),
          ...(findingCount > findings.length
            ? [`  and ${plural(findingCount - findings.length, 'more problem')}`]
            : []),
          'Do not rely on this run. Restore the original objects, from a bucket version or a backup, or export the same',
          bounds === undefined
            ? 'reports in a new run: start it with a --since at or before the one of this run.'
            : `reports again: start with --since ${bounds.since} --until ${bounds.until} --again.`,
        ];
  return `${[...lines, ...verified.notes.map((note) => style('dim', `  ${note}`))].join('\n')}\n`;
}

/** Verifies one export after the other: each reads several pages at the same time. One that cannot be read does not hide the others. */
async function verifyAll(deployment: Deployment, onPage: (bytes: number) => void): Promise<readonly VerifyRow[]> {
  await allExports(deployment);
  const rows: VerifyRow[] = [];
  for (const opened of await deployment.openAll()) {
    if ('error' in opened) {
      rows.push(opened);
      continue;
    }
    const { name, serviceName } = opened;
    rows.push(
      await verifyExport(opened, undefined, onPage).then(
        (verified) => resultOf(name, verified),
        (error: unknown) => unreadableExport(name, serviceName, error),
      ),
    );
  }
  return rows;
}

async function printAll(
  rows: readonly VerifyRow[],
  { option }: Deployment,
  json: boolean,
  { stdout, env, program }: CommandContext,
): Promise<number> {
  const now = systemRuntime.now();
  const hasFailed = rows.some((row) => 'error' in row || row.status === 'failed');
  const lines = () => {
    if (json) return [JSON.stringify({ status: hasFailed ? 'failed' : 'ok', exports: rows })];
    const style = textStyleFor(stdout, env);
    const columns = stdout.columns || 80;
    const hint = hasFailed ? hintLines('for details', `${program} verify <export> ${option}`, columns) : [];
    return [...verifyTable(rows, { now, style, columns }), ...hint.map((line) => style('dim', line))];
  };
  await print(stdout, `${lines().join('\n')}\n`);
  return hasFailed ? exitStatuses.failed : exitStatuses.ok;
}
