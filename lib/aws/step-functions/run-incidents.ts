/** The incidents of a run: those that its steps have recorded, and the end of an execution that no step could record. */

import type { SFNClient } from '@aws-sdk/client-sfn';
import { stateNameOfRun } from '../../core/bounded-runs.ts';
import type { PageLog } from '../../core/ports.ts';
import { instantOf } from '../../core/timestamps.ts';
import { addIncident, type IncidentLog, type IncidentRecord } from '../../target/incidents.ts';
import type { RunSpan } from '../../target/target.ts';
import { findExecution } from './executions.ts';
import { failureOf } from './failure.ts';

/** The newest execution of an unfinished run may have been stopped or timed out, or its FailRun has failed, too. */
export async function readRunIncidents(
  deps: {
    readonly log: Pick<PageLog, 'exportState' | 'last'>;
    readonly incidentLog: Pick<IncidentLog, 'read'>;
    readonly client: SFNClient;
    readonly stateMachineArn: string;
  },
  run: RunSpan,
): Promise<IncidentRecord> {
  const { log, incidentLog, client, stateMachineArn } = deps;
  const record = await incidentLog.read(run);
  if (run.completedAt !== undefined) return record;
  const active = (await log.exportState(stateNameOfRun(run)))?.active;
  if (active?.run !== run.run || active.lastFailure !== undefined) return record;
  const ended = await findExecution(client, stateMachineArn, active.execution);
  if (ended?.stopDate === undefined || ended.status === 'SUCCEEDED') return record;
  // A run with several slices has several next pages.
  const last = active.slices === undefined ? await log.last(active) : undefined;
  const page = active.slices !== undefined || last?.nextCursor === null ? null : (last?.page ?? 0) + 1;
  return addIncident(record, {
    kind: 'failed-run',
    at: instantOf(ended.stopDate.getTime()),
    page,
    ...failureOf(ended),
  });
}
