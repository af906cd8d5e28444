/** The incidents of a deployed run, and the end of an execution that no step could record. */

import { describe, expect, it } from 'vitest';
import { readRunIncidents } from '../../../lib/aws/step-functions/run-incidents.ts';
import { asCursor, type Run } from '../../../lib/core/model.ts';
import { addIncident, type Incident } from '../../../lib/target/incidents.ts';
import { anExportState, aPageEntry, aRun, at } from '../../support/builders.ts';
import { createMemoryIncidentLog, createMemoryLog } from '../../support/export/memory-adapters.ts';

const wait: Incident = { kind: 'wait', at: at('2026-11-20T02:00:00Z'), page: 1, seconds: 7 };
const stop = { error: 'ExecutionAborted', message: 'The execution was stopped', at: at('2026-11-20T02:10:00Z') };

/** The incidents of the active run, whose last page is page 4. */
async function incidentsOf({
  active = {},
  nextCursor = asCursor('5'),
  failure,
  completedAt,
}: {
  active?: Partial<Run>;
  nextCursor?: ReturnType<typeof asCursor> | null;
  failure?: typeof stop;
  completedAt?: ReturnType<typeof at>;
}) {
  const run = aRun({ export: 'nightly', ...active });
  const log = createMemoryLog();
  const incidentLog = createMemoryIncidentLog();
  await log.replaceState(anExportState({ export: 'nightly', version: 1, active: run }));
  await log.append(aPageEntry({ export: 'nightly', run: run.run, page: 4, nextCursor }));
  await incidentLog.update(run, (record) => addIncident(record, wait));
  const executions = { failure: async (execution: string) => (execution === run.execution ? failure : undefined) };
  const { newest } = await readRunIncidents({ log, incidentLog, executions }, { ...run, completedAt });
  return newest;
}

describe('the incidents of a deployed run', () => {
  it('are what its steps have recorded, while it is running', async () => {
    expect(await incidentsOf({})).toEqual([wait]);
  });

  it('include the end of an execution that was stopped or timed out, at the page that was next', async () => {
    expect(await incidentsOf({ failure: stop })).toEqual([wait, { kind: 'failed-run', page: 5, ...stop }]);
    expect(await incidentsOf({ failure: stop, nextCursor: null })).toMatchObject([wait, { page: null }]);
  });

  it('include a failure once that FailRun has recorded, and not one after the run has completed', async () => {
    expect(await incidentsOf({ failure: stop, active: { lastFailure: stop } })).toEqual([wait]);
    expect(await incidentsOf({ failure: stop, completedAt: at('2026-11-20T03:00:00Z') })).toEqual([wait]);
  });
});
