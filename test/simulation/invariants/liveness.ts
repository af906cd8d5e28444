/** After the faults have stopped: every export is done, up to date and at rest, within the time and the starts it was given. */

import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { Exported } from '../histories/history.ts';
import type { Setting } from '../histories/scenario.ts';
import type { SimulatedDynamoDb } from '../world/dynamodb.ts';
import type { World } from '../world/world.ts';
import type { Invariants } from './invariants.ts';

const minute = 60_000;

export function checkCalm(
  world: World,
  { calmFrom, lastStartAt, end }: Setting,
  { name, machine, service, timeline, setting, announced }: Exported,
  invariants: Invariants,
  item: SimulatedDynamoDb['item'],
): void {
  const late = (what: string) => world.violate('every export completes', `${name}: ${what}`);
  if (world.violation() !== undefined) return;

  const running = machine.executions.filter(({ status }) => status === 'RUNNING');
  if (running.length > 0)
    late(`${running.map(({ name: each, state }) => `${each} in ${state}`).join(', ')} still running`);

  const stored = item(name, 'state');
  const head = stored && unmarshall({ ...stored });
  if (head?.active !== undefined) late(`run ${head.active.run} is still unfinished`);
  const completedBy = machine.executions.find(({ arn }) => arn === head?.lastCompleted?.execution);
  if (completedBy === undefined) {
    late('no run was ever completed');
    return;
  }

  // What began in the storm may have had to wait for an hour; the starts after that meet nothing that hinders them.
  const hindered = machine.executions.filter(
    ({ startedAt, status }) => startedAt > calmFrom + 150 * minute && status !== 'SUCCEEDED',
  );
  if (hindered.length > 0)
    late(`${hindered.map(({ name: each, error }) => `${each} (${error})`).join(', ')} failed in the calm`);
  if (completedBy.startedAt < lastStartAt - setting.everyMs - minute)
    late(`its newest run is that of ${completedBy.name}`);

  const completed = invariants.completions.filter(({ exportName }) => exportName === name);
  for (const [index, { run, execution }] of completed.entries()) {
    const by = machine.executions.find(({ arn }) => arn === execution);
    // One that was stopped cannot say so, nor one whose every attempt to hear of its own completion failed (it says that it
    // failed), nor one that hears of it only behind the completion of the next run.
    const excused =
      by?.status === 'ABORTED' ||
      by?.status === 'FAILED' ||
      (by?.state === 'Skipped' && (completed[index + 1]?.at ?? end) < (by.endedAt ?? 0));
    if (!announced.has(run) && !excused) {
      world.violate('a published run is announced', `${name}: ${run} by ${by?.name}, which ended in ${by?.state}`);
    }
  }

  const lowerBound = invariants.lowerBound(name);
  if (lowerBound === undefined) {
    late('it has no watermark');
    return;
  }
  const seen = invariants.published(name);
  // The service's clock when the newest run began, at the earliest.
  const until = completedBy.startedAt + service.now() - world.time.now();
  const missed = timeline.reports.filter(
    (report) =>
      report.date >= lowerBound && report.visibleAt < until && report.goneAt === undefined && !seen.has(report),
  );
  if (missed.length > 0) world.violate('nothing is lost', `${name} lacks ${missed.map(({ id }) => id).join(', ')}`);
}
