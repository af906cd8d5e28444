/** Checks the end of a history: once the faults have ended, every export must be complete, up to date and idle. */

import { maxRepairDelayMs } from '../histories/operators.ts';
import type { Scenario } from '../histories/scenario.ts';
import type { SimulatedExecution } from '../step-functions/step-functions.ts';
import { recordOf, type SimulatedDynamoDb } from '../world/dynamodb.ts';
import type { Process } from '../world/process.ts';
import type { SimulatedS3 } from '../world/s3.ts';
import { siteOf } from '../world/sdk-clients.ts';
import type { World } from '../world/world.ts';
import {
  boundsOf,
  cutsOf,
  exportOf,
  isBounded,
  type ObservedExport,
  overlaps,
  partitionOf,
  requestedBounds,
  type StateItem,
} from './observations.ts';
import type { WriteChecks } from './write-checks.ts';

const minute = 60_000;

/** What began during the faults may have to wait for an hour. Executions that start later than this must succeed. */
const recoveryMs = 150 * minute;

/**
 * The last start that must have led to a run. A start is skipped while a run is in progress (docs/guarantees.md). With
 * wrong clocks, each poll of a report job may come minutes late, so a run may take longer than an interval. Then the
 * start before the skipped one counts.
 */
export function lastEffectiveStart(
  lastStartAt: number,
  maxClockErrorMs: number,
  { stepFunctions, service, scenario: { intervalMs } }: ObservedExport,
): number {
  if (service.jobs === undefined || maxClockErrorMs === 0) return lastStartAt;
  const executions = stepFunctions.executions.filter(({ input }) => !isBounded(input));
  const isSkipped = executions.some(
    ({ state, startedAt }) =>
      state === 'Skipped' &&
      startedAt >= lastStartAt - intervalMs &&
      executions.some(
        (other) => other.state !== 'Skipped' && other.startedAt < startedAt && startedAt < (other.endedAt ?? 0),
      ),
  );
  return isSkipped ? lastStartAt - intervalMs : lastStartAt;
}

export function checkCompletion(
  world: World,
  { faultsEndAt, lastStartAt, end }: Scenario,
  { name, stepFunctions, service, timeline, scenario, announcedRuns }: ObservedExport,
  checks: WriteChecks,
  { item, items, damagedKeys }: Pick<SimulatedDynamoDb, 'item' | 'items'> & { readonly damagedKeys: readonly string[] },
): void {
  const violate = (details: string) => world.violate('every export completes', `${name}: ${details}`);
  if (world.violation() !== undefined) return;

  const { executions: all } = stepFunctions;
  const executions = all.filter(({ input }) => !isBounded(input));
  const running = all.filter(({ status }) => status === 'RUNNING');
  if (running.length > 0) {
    violate(`${running.map((execution) => `${execution.name} in ${execution.state}`).join(', ')} still running`);
  }

  const stored = item(partitionOf(name), 'state');
  const state = stored && recordOf<StateItem>(stored);
  if (state?.active !== undefined) violate(`run ${state.active.run} is not complete`);
  const failed = all.filter(({ startedAt, status }) => startedAt > faultsEndAt + recoveryMs && status !== 'SUCCEEDED');
  for (const each of items(partitionOf(name), 'bounded#')) {
    const { active: bounded } = recordOf<StateItem>(each);
    // A run without a page is not replaced by one with another request whose bounds have been exported.
    const isRefused = all.some(
      ({ input, error, cause = '', startedAt }) =>
        startedAt > faultsEndAt &&
        error === 'ConfigurationError' &&
        cause.includes('The bounds overlap the bounded ') &&
        bounded !== undefined &&
        overlaps(boundsOf(bounded), boundsOf(input as Parameters<typeof boundsOf>[0])),
    );
    const isHopeless = bounded?.parents?.isNamed && failed.some((execution) => hasBadParents(execution));
    if (bounded !== undefined && !isRefused && !isHopeless) violate(`bounded run ${bounded.run} is not complete`);
  }
  const completedBy = executions.find(({ arn }) => arn === state?.lastCompleted?.execution);
  if (completedBy === undefined) {
    violate('no run was ever completed');
    return;
  }

  const unexcused = failed.filter(
    (execution) =>
      !isReportOfDamage(execution, all, damagedKeys) &&
      !isFirstReportOfOldRequest(execution, all) &&
      !isRefusedBoundedRun(execution) &&
      !(isBounded(execution.input) && hasBadParents(execution)),
  );
  if (unexcused.length > 0) {
    violate(
      `${unexcused.map((execution) => `${execution.name} (${execution.error})`).join(', ')} failed without faults`,
    );
  }
  // Where requests have days, all but one start of a day may have nothing to export.
  const { dateUnitMs } = service;
  if (completedBy.startedAt < lastStartAt - scenario.intervalMs - Math.max(minute, dateUnitMs)) {
    violate(`the newest run is that of ${completedBy.name}`);
  }

  const completions = checks.completions.filter(({ stateName }) => exportOf({ export: stateName }) === name);
  for (const { stateName, run, execution, isPublished, at } of completions) {
    const next = completions.find((each) => each.stateName === stateName && each.at > at);
    const by = all.find(({ arn }) => arn === execution);
    // Three executions cannot announce the run they completed: one that was stopped; one whose every attempt to learn
    // of the completion failed, which then reports a failure; and one that learns of it only after the next run has
    // completed.
    const isExcused =
      by?.status === 'ABORTED' ||
      by?.status === 'FAILED' ||
      (by?.state === 'Skipped' && (next?.at ?? end) < (by.endedAt ?? 0));
    if (!isPublished && announcedRuns.has(run)) {
      world.violate('only a published run is announced', `${name}: ${run}`);
    }
    if (isPublished && !announcedRuns.has(run) && !isExcused) {
      world.violate('a published run is announced', `${name}: ${run} of ${by?.name}, which ended in ${by?.state}`);
    }
  }

  const lowerBound = checks.lowerBound(name);
  if (lowerBound === undefined) {
    violate('there is no watermark');
    return;
  }
  const published = checks.publishedReports(name);
  // The service's clock at the earliest moment at which the newest run can have sent its first request.
  const until = completedBy.startedAt + service.now() - world.time.now();
  // Where it ends: with a lag, or if each request has an upper bound.
  const last = checks.runs.get(state?.lastCompleted?.result.run ?? '');
  const bounds = last && requestedBounds(cutsOf(last).at(-1) ?? { since: 0, until: 0 }, last, { service });
  const missed = timeline.reports.filter(
    (report) =>
      report.date >= lowerBound &&
      report.date < (bounds?.until ?? 0) &&
      report.visibleAt < until &&
      report.goneAt === undefined &&
      !report.isRedated &&
      checks.isWalked(name, report.parent) &&
      !published.has(report),
  );
  if (missed.length > 0) {
    world.violate('no report is lost', `${name} lacks ${missed.map(({ id }) => id).join(', ')}`);
  }
}

/** The parents that a start has named stay: one has no ID, their pages were damaged, or too many are gone. */
const hasBadParents = ({ cause = '' }: SimulatedExecution): boolean =>
  /the parents cannot be read|So the parents in export|when\.gone/.test(cause);

/**
 * Whether a bounded run was refused because it overlaps another one, or has slices of another length. Another start
 * completes that run.
 */
const isRefusedBoundedRun = ({ input, error, cause = '' }: SimulatedExecution): boolean =>
  isBounded(input) &&
  error === 'ConfigurationError' &&
  /A run keeps its slices|The bounds overlap the bounded /.test(cause);

/**
 * Whether the execution reports a page that was damaged during the faults, before the operator who knows of it by the
 * first such report has repaired the run. The executions before may have been stopped, so the first report may be late.
 * Each of several damaged pages of a run is reported after the repair of the one before it, and so is a page that was
 * damaged again. A report of a whole run names no page.
 */
function isReportOfDamage(
  { error, cause = '', startedAt }: SimulatedExecution,
  all: readonly SimulatedExecution[],
  damagedKeys: readonly string[],
): boolean {
  if (error !== 'PageConflictError') return false;
  const isDamage = damagedKeys.some(
    (key) => cause.includes(key) || cause.includes(/\/run=([^/]+)\//.exec(key)?.[1] ?? key),
  );
  const first = all.find((each) => each.error === error && each.cause === cause);
  return isDamage && first?.endedAt !== undefined && startedAt < first.endedAt + maxRepairDelayMs;
}

/**
 * Whether the execution is the first one to report that pages of a slice repeat, or that a bounded run, which may have
 * waited for its next start for hours, has a cursor that has expired or a report job without a result. The cursor may
 * have been logged, and the job created, during the faults; the next start begins the slice again.
 */
function isFirstReportOfOldRequest(execution: SimulatedExecution, all: readonly SimulatedExecution[]): boolean {
  const { error, cause = '', input } = execution;
  const hasFailedJob =
    error === 'RequestRejectedError' && /Report job [^ ]+ (is over without|has the status)/.test(cause);
  const isOld =
    error === 'RepeatedCursorError' || (isBounded(input) && (error === 'CursorRejectedError' || hasFailedJob));
  return isOld && all.find((each) => each.cause === cause) === execution;
}

/**
 * A process that is killed cannot abort its upload; nor can one that S3 does not answer. A lifecycle rule removes the
 * parts after two days. `creators`: the process that has created each upload.
 */
export function checkUploads(world: World, s3: SimulatedS3, creators: ReadonlyMap<string, Process>): void {
  if (world.violation() !== undefined) return;
  for (const { id, key } of s3.unfinishedUploads()) {
    const creator = creators.get(id);
    if (creator === undefined || !creator.isAlive()) continue;
    const site = siteOf(key);
    const sites = [`${creator.id}/S3 CreateMultipartUpload ${site}`, `${creator.id}/S3 AbortMultipartUpload ${site}`];
    const abort = `${creator.id}/AbortMultipartUpload ${site}`;
    const isExcused = world.injectedFaults.some(
      (fault) => sites.some((each) => fault.site.startsWith(each)) || fault.site.startsWith(abort),
    );
    if (!isExcused) {
      world.violate('an upload is left unfinished only if it could not be aborted', `${id} of ${creator.id}: ${key}`);
    }
  }
}
