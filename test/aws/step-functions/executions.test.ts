import { DescribeExecutionCommand, SFNClient } from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { createExecutions } from '../../../lib/aws/step-functions/executions.ts';

const execution = 'arn:aws:states:us-east-1:123456789012:execution:reports:one';

function someExecutions() {
  const client = new SFNClient({ region: 'us-east-1' });
  return { stepFunctions: mockClient(client), executions: createExecutions(client) };
}
const error = (name: string) => Object.assign(new Error(name), { name });

describe('an execution', () => {
  it.each([
    ['RUNNING', true],
    ['PENDING_REDRIVE', true],
    ['SUCCEEDED', false],
    ['FAILED', false],
    ['TIMED_OUT', false],
    ['ABORTED', false],
  ] as const)('that is %s is at work: %s', async (status, running) => {
    const { stepFunctions, executions } = someExecutions();
    stepFunctions.on(DescribeExecutionCommand, { executionArn: execution }).resolves({ status });
    expect(await executions.isRunning(execution)).toBe(running);
  });

  it.each(['ExecutionDoesNotExist', 'InvalidArn'])('that nobody knows any more is over: %s', async (name) => {
    const { stepFunctions, executions } = someExecutions();
    stepFunctions.on(DescribeExecutionCommand).rejects(error(name));
    expect(await executions.isRunning(execution)).toBe(false);
  });

  it('of another house is over, and Step Functions is not asked', async () => {
    const { stepFunctions, executions } = someExecutions();
    expect(await executions.isRunning('local:0123456789ab')).toBe(false);
    expect(stepFunctions.calls()).toEqual([]);
  });

  it.each(['AccessDeniedException', 'ThrottlingException'])(
    'that cannot be looked at is not taken for dead: %s',
    async (name) => {
      const { stepFunctions, executions } = someExecutions();
      const refusal = error(name);
      stepFunctions.on(DescribeExecutionCommand).rejects(refusal);
      await expect(executions.isRunning(execution)).rejects.toBe(refusal);
    },
  );
});
