/** Checks each entry before it is added to the page log. */

import {
  endOfChain,
  type EndEntry,
  entriesOfChain,
  findServedPage,
  holdsCursor,
  isObjectOf,
  type LogEntry,
  type Observations,
  type ObservedExport,
  pageMetadataOf,
  type Seen,
} from './observations.ts';
import { hasCoverage, passOver } from './parents.ts';
import { emptyJobs } from './report-jobs.ts';
import { checkFirstPage } from './slices.ts';

export function checkLogEntry(
  observations: Observations,
  seen: Seen,
  observed: ObservedExport,
  entry: LogEntry | EndEntry,
  isReplacement: boolean,
): void {
  const { name, service } = observed;
  const { world, prefix, s3, writer, hasSeenForeign } = observations;
  const label = `page ${entry.page}${entry.slice === undefined ? '' : ` of slice ${entry.slice}.${entry.attempt}`} of run ${entry.run} of ${name}`;
  if (isReplacement) {
    world.violate('a log entry never changes', label);
    return;
  }
  const last = entriesOfChain(observations, name, entry.run, entry).at(-1);
  const end = endOfChain(observations, name, entry.run, entry);
  if (entry.page !== (last?.page ?? 0) + 1 || end !== undefined) {
    world.violate('the page log has no gaps', `${label} after page ${last?.page ?? 0}`);
  }
  if (entry.cursor !== (last?.nextCursor ?? null)) world.violate('cursors form a chain', label);
  if (entry.kind === 'end') {
    const run = observations.runs.get(entry.run);
    // With coverage, they remain to be exported.
    const isPassed = entry.page === 1 && entry.reason !== 'empty' && (run === undefined || !hasCoverage(observed, run));
    if (isPassed) passOver(observations, seen, observed, { run, parent: entry.parent });
    checkEnd(observations, label, observed, { entry, last });
    return;
  }
  if (entry.emptyPages !== (entry.reports === 0 ? (last?.emptyPages ?? 0) + 1 : 0)) {
    world.violate('the page log agrees with the stored pages', `${label}: ${entry.emptyPages} pages without reports`);
  }
  if (last?.repeats === true) world.violate('no page is logged after a cursor cycle closes', label);
  // The page as the functions stored it: it may have been deleted or replaced meanwhile, and stored again.
  const versions = s3().versions(prefix + entry.key);
  const withSameBytes = versions.filter((version) => isObjectOf(entry, version));
  if (versions.length === 0) world.violate('a page is stored before it is logged', label);
  else if (withSameBytes.length === 0) world.violate('the page log agrees with the stored pages', label);
  else if (!withSameBytes.some((object) => holdsCursor(pageMetadataOf(object).nextCursor, entry.nextCursor))) {
    world.violate('the page log agrees with the stored pages', `${label}: its next cursor`);
  }
  if (hasSeenForeign(writer().id, prefix + entry.key)) world.violate('no damaged page is adopted', label);
  if (findServedPage(service, entry) === undefined) {
    world.violate('the page log holds the cursor that the service returned', label);
  }
  checkDelays(observations, label, entry);
  if (seen.firstPagesAt.has(entry.run)) return;
  seen.firstPagesAt.set(entry.run, world.time.now());
  checkFirstPage(observations, seen, { name, service }, entry.run);
}

/** A run ends early if what ends it is not what the service says of the cursor of its last page. */
function checkEnd(
  { world }: Observations,
  label: string,
  observed: ObservedExport,
  { entry, last }: { readonly entry: EndEntry; readonly last: LogEntry | undefined },
): void {
  const { service, skipped } = observed;
  const { reason, parent = '', status } = entry;
  if (entry.page === 1 && reason === 'empty' && emptyJobs(observed, entry).length > 0) return;
  if (entry.page === 1 && reason === 'skipped') {
    if (!skipped.has(parent)) world.violate('a parent is skipped only if an operator says so', label);
    return;
  }
  if (entry.page === 1 && reason === 'gone' && service.hasGone(parent, status)) return;
  if (last === undefined || service.endedAt(entry.cursor) === undefined || status !== service.endStatus) {
    world.violate('a run ends only where the service has ended it', label);
  }
  if (last?.repeats === true) world.violate('no page is logged after a cursor cycle closes', label);
}

/** An entry has delays of its own execution only: no other one passes delays on to it. */
function checkDelays({ world, writer, findExecution }: Observations, label: string, entry: LogEntry): void {
  const execution = findExecution(writer().payload.execution);
  if (execution === undefined) return;
  const { failedAttempts = 0, waitedSeconds = 0 } = entry;
  const seconds = (world.time.now() - execution.startedAt) / 1_000;
  if (failedAttempts <= execution.failedTasks && waitedSeconds <= seconds) return;
  const claim = `${label}: ${failedAttempts} of ${execution.failedTasks} attempts, ${waitedSeconds} of ${seconds} s`;
  world.violate('a log entry counts no delay that did not happen', claim);
}
