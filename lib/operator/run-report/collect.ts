/**
 * Gathers what there is to tell of a run from its page log and its history.
 * Reads each of them once, and needs no more memory for a million pages than for some thousand.
 */

import type { Instant, PageEntry } from '../../core/model.ts';
import type { DeployedExport } from '../../core/operations/deployment.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import type { Incidents, ReportedRun, ReportOccasion, RunReportData } from './data.ts';
import { createIncidentDigest } from './incident-digest.ts';
import { createPageCourse } from './page-series.ts';

/** @throws ExportError where the log cannot be read, or an entry is not as it was written */
export async function collectRunReport(
  installed: Pick<DeployedExport, 'log' | 'incidents' | 'store'>,
  run: ReportedRun,
  occasion: ReportOccasion,
): Promise<RunReportData> {
  const course = createPageCourse(run.startedAt);
  let first: PageEntry | undefined;
  let last: PageEntry | undefined;
  for await (const entry of installed.log.entries(run)) {
    first ??= entry;
    last = entry;
    course.add(entry);
  }
  const digest = createIncidentDigest();
  const { export: name, startedAt, completedAt, givenUpAt } = run;
  const span = { export: name, run: run.run, startedAt, completedAt: completedAt ?? givenUpAt ?? undefined };
  for await (const incident of installed.incidents(span)) digest.add(incident);
  const incidents = digest.digest();
  return {
    ...occasion,
    run,
    ...course.course(),
    totals: last === undefined ? run.totals : { pages: last.page, ...last.totals },
    endedAt: endOf(run, last, incidents, occasion.madeAt),
    failure: run.state === 'failed' ? (run.failure ?? newestFailure(incidents)) : null,
    firstPage: first === undefined ? null : installed.store.locate(first.key),
    lastPage: last === undefined ? null : installed.store.locate(last.key),
    incidents,
  };
}

const newestFailure = ({ oldest, newest }: Incidents) =>
  [...oldest, ...newest].findLast((row) => row.kind === 'failed-run') ?? null;

/** The last sign of life of a run that nobody works on any more; of one under way, now. */
function endOf(run: ReportedRun, last: PageEntry | undefined, { marks }: Incidents, madeAt: Instant): Instant {
  if (run.completedAt !== null) return run.completedAt;
  if (run.state === 'running') return madeAt;
  const signs = [run.startedAt, ...(last ? [last.loggedAt] : []), ...(run.failure ? [run.failure.at] : [])];
  const latest = marks.reduce((end, { at }) => Math.max(end, at), Math.max(...signs.map(epochMsOf)));
  return instantOf(latest);
}
