/** The incidents of a deployed run, and the end of an execution that no step could record. */

import { DescribeExecutionCommand, type DescribeExecutionCommandOutput, SFNClient } from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { readRunIncidents } from '../../../lib/aws/step-functions/run-incidents.ts';
import { asCursor, type Run } from '../../../lib/core/model.ts';
import { addIncident, type Incident } from '../../../lib/target/incidents.ts';
import { anExportState, aPageEntry, aRun, at } from '../../support/builders.ts';
import { createMemoryIncidentLog, createMemoryLog } from '../../support/export/memory-adapters.ts';

const wait: Incident = { kind: 'wait', at: at('2026-11-20T02:00:00Z'), page: 1, seconds: 7 };
const execution = 'arn:aws:states:us-east-1:123456789012:execution:reports:one';
const stateMachineArn = 'arn:aws:states:us-east-1:123456789012:stateMachine:reports';
const aborted = { status: 'ABORTED', stopDate: new Date('2026-11-20T02:10:00Z') } as const;
const stop = { error: 'ExecutionAborted', message: 'The execution was stopped', at: at('2026-11-20T02:10:00Z') };

/** The incidents of the active run, whose last page is page 4. */
async function incidentsOf({
  active = {},
  nextCursor = asCursor('5'),
  described = { status: 'RUNNING' },
  completedAt,
}: {
  active?: Partial<Run>;
  nextCursor?: ReturnType<typeof asCursor> | null;
  described?: Partial<DescribeExecutionCommandOutput>;
  completedAt?: ReturnType<typeof at>;
}) {
  const run = aRun({ export: 'nightly', execution, ...active });
  const log = createMemoryLog();
  const incidentLog = createMemoryIncidentLog();
  await log.replaceState(anExportState({ export: 'nightly', version: 1, active: run }));
  await log.append(aPageEntry({ export: 'nightly', run: run.run, page: 4, nextCursor }));
  await incidentLog.update(run, (record) => addIncident(record, wait));
  const client = new SFNClient({ region: 'us-east-1' });
  mockClient(client).on(DescribeExecutionCommand, { executionArn: execution }).resolves(described);
  const deps = { log, incidentLog, client, stateMachineArn };
  const { newest } = await readRunIncidents(deps, { ...run, completedAt });
  return newest;
}

describe('the incidents of a deployed run', () => {
  it('are what its steps have recorded, while it is running', async () => {
    expect(await incidentsOf({})).toEqual([wait]);
  });

  it('include the end of an execution that was stopped or timed out, at the page that was next', async () => {
    expect(await incidentsOf({ described: aborted })).toEqual([wait, { kind: 'failed-run', page: 5, ...stop }]);
    expect(await incidentsOf({ described: aborted, nextCursor: null })).toMatchObject([wait, { page: null }]);
  });

  it('name no page of a run with several slices, each of which has another next page', async () => {
    const slices = { count: 3, lengthMs: 3_600_000, parallel: 2 };
    expect(await incidentsOf({ described: aborted, active: { slices } })).toMatchObject([wait, { page: null }]);
  });

  it('include a failure once that FailRun has recorded, and not one after the run has completed', async () => {
    expect(await incidentsOf({ described: aborted, active: { lastFailure: stop } })).toEqual([wait]);
    expect(await incidentsOf({ described: aborted, completedAt: at('2026-11-20T03:00:00Z') })).toEqual([wait]);
    expect(await incidentsOf({ described: { ...aborted, status: 'SUCCEEDED' } })).toEqual([wait]);
  });

  it.each([
    ['ABORTED', { error: 'Enough', cause: 'for today' }, ['Enough', 'for today']],
    ['TIMED_OUT', {}, ['States.Timeout', 'Timed out']],
    [
      'FAILED',
      { error: 'ContractError', cause: '{"errorMessage":"first\\nsecond"}' },
      ['ContractError', 'first second'],
    ],
    [
      'FAILED',
      { error: 'Odd\u001b[31mError', cause: `\u202e${'x'.repeat(5_000)}` },
      ['Odd[31mError', 'x'.repeat(1_000)],
    ],
  ] as const)(
    'have the error and the message of an execution with status %s and %j',
    async (status, details, expected) => {
      const [error, message] = expected;
      const incidents = await incidentsOf({ described: { ...aborted, status, ...details } });
      expect(incidents.at(-1)).toMatchObject({ error, message });
    },
  );
});
