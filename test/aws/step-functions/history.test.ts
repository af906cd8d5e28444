/** What delayed or ended an execution last, by its history. */

import { GetExecutionHistoryCommand, type HistoryEvent, SFNClient } from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { readLastIncident } from '../../../lib/aws/step-functions/history.ts';

const execution = 'arn:aws:states:us-east-1:123456789012:execution:reports:one';
const timestamp = new Date('2026-11-20T02:10:00Z');
const at = '2026-11-20T02:10:00Z';
const failed: HistoryEvent = {
  id: 5,
  type: 'TaskFailed',
  timestamp,
  taskFailedEventDetails: {
    resourceType: 'lambda',
    resource: 'invoke',
    error: 'ContractError',
    cause: '{"errorMessage":"first\\nsecond"}',
  },
};
const entered = (id: number, name: string, input: object): HistoryEvent => ({
  id,
  type: 'WaitStateEntered',
  timestamp,
  stateEnteredEventDetails: { name, input: JSON.stringify(input) },
});
const loop = { run: '20261120T020000Z-1f3a5cb2d407', page: 3, waitSeconds: 90 };

async function lastIncidentOf(answer: readonly HistoryEvent[] | string, of = execution) {
  const client = new SFNClient({ region: 'us-east-1' });
  const history = mockClient(client).on(GetExecutionHistoryCommand, { executionArn: execution, reverseOrder: true });
  if (typeof answer === 'string') history.rejects(Object.assign(new Error(answer), { name: answer }));
  else history.resolves({ events: answer.toReversed() });
  return await readLastIncident(client, of);
}

describe('the last incident of an execution', () => {
  it.each([
    [
      'an attempt that is retried',
      [entered(2, 'ExportPage', loop), failed],
      { kind: 'failed-attempt', at, error: 'ContractError', message: 'first second' },
    ],
    ['a wait', [failed, entered(6, 'WaitForService', loop)], { kind: 'wait', at, seconds: 90 }],
    [
      'not a wait for a slot',
      [failed, entered(6, 'WaitForTurn', loop)],
      { kind: 'failed-attempt', at, error: 'ContractError', message: 'first second' },
    ],
    [
      'that it was stopped',
      [
        failed,
        {
          id: 6,
          type: 'ExecutionAborted',
          timestamp,
          executionAbortedEventDetails: { error: 'Enough', cause: 'today' },
        },
      ],
      { kind: 'failed-run', at, error: 'Enough', message: 'today' },
    ],
    [
      'that it was stopped without a reason',
      [{ id: 6, type: 'ExecutionAborted', timestamp }],
      { kind: 'failed-run', at, error: 'ExecutionAborted', message: 'The execution was stopped' },
    ],
    [
      'that it timed out',
      [{ id: 6, type: 'ExecutionTimedOut', timestamp }],
      { kind: 'failed-run', at, error: 'States.Timeout', message: 'Timed out' },
    ],
    [
      'that it failed, fit for a terminal',
      [
        {
          id: 6,
          type: 'ExecutionFailed',
          timestamp,
          executionFailedEventDetails: { error: 'Odd\u001b[31mError', cause: `\u202e${'x'.repeat(5_000)}` },
        },
      ],
      { kind: 'failed-run', at, error: 'Odd[31mError', message: `${'x'.repeat(999)}…` },
    ],
  ] satisfies [string, HistoryEvent[], object][])('is %s', async (_, events, expected) => {
    expect(await lastIncidentOf(events)).toEqual(expected);
  });

  it('is not known without events, without the permission, or if the execution is not in AWS any more', async () => {
    expect(await lastIncidentOf([])).toBeUndefined();
    expect(await lastIncidentOf('AccessDeniedException')).toBeUndefined();
    expect(await lastIncidentOf('ExecutionDoesNotExist')).toBeUndefined();
    expect(await lastIncidentOf([failed], 'local:one')).toBeUndefined();
    await expect(lastIncidentOf('InternalServerError')).rejects.toThrow('InternalServerError');
  });
});
