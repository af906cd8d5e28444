/** `report-exporter verify`: reads a run again, from its manifest to its last byte, and reports what has changed. */

import { systemRuntime } from '../../core/clock.ts';
import { ExportError } from '../../core/errors.ts';
import { type RunResult, zeroTotals } from '../../core/model.ts';
import type { DeployedExport } from '../../target/target.ts';
import type { Finding } from '../expected-pages.ts';
import { stateWithoutManifest } from '../run-status.ts';
import { type VerifiedRun, type VerifyDependencies, verifyPublishedRun, verifyUnpublishedRun } from '../verify-run.ts';
import { manifestKey, manifestKeyFromRunId, parseRunId } from '../../core/storage/keys.ts';
import { findManifest, readLatestPointer } from '../../core/storage/published-runs.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { plural, totals } from '../output/format.ts';
import { createPageCounter } from '../output/progress.ts';
import { textStyleFor } from '../output/terminal.ts';

export interface VerifyOptions extends TargetOptions {
  readonly run?: string;
}

/** Further findings are only counted. */
const maxFindings = 100;

export async function verifyCommand(
  exportName: string | undefined,
  options: VerifyOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr } = context;
  return await runOnDeployment(options, usageErrors, context, async (deployment) => {
    const deployed = await openExport(deployment, exportName);
    const counter = createPageCounter(stderr, 'Verified', systemRuntime.now);
    const findings: Finding[] = [];
    let findingCount = 0;
    const verification = await verify(deployed, options.run, {
      onPage: counter.add,
      onFinding: (finding) => {
        findingCount += 1;
        if (findings.length < maxFindings) findings.push(finding);
      },
    });
    counter.end();
    const { run, published, verified } = verification;
    const status = findingCount === 0 ? 'ok' : 'failed';
    const json = { status, export: deployed.name, run, published, ...verified, findings, findingCount };
    const output = options.json === true ? stderr : stdout;
    output.write(formatResult(verification, findings, findingCount, textStyleFor(output, context.env)));
    if (options.json === true) stdout.write(`${JSON.stringify(json)}\n`);
    return findingCount === 0 ? exitStatuses.ok : exitStatuses.failed;
  });
}

interface Verification {
  readonly run: string;
  readonly published: boolean;
  /** Of a published window: where it ends. */
  readonly until?: string | undefined;
  readonly verified: VerifiedRun;
}

/** Verifies the run `runId`, or else the newest published run, or else the unfinished one. */
async function verify(
  { store, log, name, definition }: DeployedExport,
  runId: string | undefined,
  observer: Pick<VerifyDependencies, 'onPage' | 'onFinding'>,
): Promise<Verification> {
  const deps = { store, log, ...observer };
  const { active, lastCompleted } = (await log.exportState(name)) ?? {};
  const wanted =
    runId === undefined
      ? await findNewestRun(store, name, lastCompleted?.result)
      : { run: runId, manifest: manifestKeyFromRunId(name, runId) };
  const published = wanted === undefined ? undefined : await findManifest(store, wanted.manifest);
  if (published !== undefined) {
    const { run, until } = published.header;
    return { run, until, published: true, verified: await verifyPublishedRun(deps, published) };
  }
  if (active !== undefined && (wanted === undefined || runId === active.run)) {
    return { run: active.run, published: false, verified: await verifyUnpublishedRun(deps, active) };
  }
  if (wanted === undefined) {
    throw new ExportError('ConfigurationError', `Export ${name} has no run to verify yet`);
  }
  const location = store.locate(wanted.manifest);
  const run = { export: name, run: parseRunId(wanted.run) };
  const state =
    runId === undefined
      ? 'damaged'
      : await stateWithoutManifest({ store, definition }, run, { last: await log.last(run), lastCompleted });
  if (state === 'damaged') {
    // The run was published, so its missing manifest is damage, not a wrong argument.
    observer.onFinding({ page: null, message: `${location} is missing: the manifest of a published run` });
    return { run: wanted.run, published: true, verified: { ...zeroTotals, notes: [] } };
  }
  if (state === 'empty') {
    throw new ExportError(
      'ConfigurationError',
      `Run ${runId} of export ${name} found no reports, and was not published because publishEmptyRuns is false`,
    );
  }
  const unfinished =
    active === undefined ? '' : `. The unfinished run is ${active.run}, at ${store.locate(manifestKey(active))}`;
  throw new ExportError(
    'ConfigurationError',
    `Run ${runId} of export ${name} has no manifest at ${location}: it was abandoned, or it never existed${unfinished}`,
  );
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

function formatResult(
  { run, published, until, verified }: Verification,
  findings: readonly Finding[],
  findingCount: number,
  style: ReturnType<typeof textStyleFor>,
): string {
  const runLabel = `${published ? '' : 'unfinished '}run ${run} (${totals(verified)})`;
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
          until === undefined
            ? 'reports in a new run: start it with a --since at or before the one of this run.'
            : `reports in a new run. It is a window of a backfill, until ${until}: docs/backfill.md says how to export it again.`,
        ];
  return `${[...lines, ...verified.notes.map((note) => style('dim', `  ${note}`))].join('\n')}\n`;
}
