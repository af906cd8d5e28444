import { DescribeExecutionCommand, SFNClient } from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { createExecutions } from '../../../lib/aws/step-functions/executions.ts';

const execution = 'arn:aws:states:us-east-1:123456789012:execution:reports:one';

function aMockedClient() {
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
  ] as const)('with status %s: running is %s', async (status, running) => {
    const { stepFunctions, executions } = aMockedClient();
    stepFunctions.on(DescribeExecutionCommand, { executionArn: execution }).resolves({ status });
    expect(await executions.isRunning(execution)).toBe(running);
  });

  it.each(['ExecutionDoesNotExist', 'InvalidArn'])(
    'that Step Functions does not know is not running: %s',
    async (name) => {
      const { stepFunctions, executions } = aMockedClient();
      stepFunctions.on(DescribeExecutionCommand).rejects(error(name));
      expect(await executions.isRunning(execution)).toBe(false);
    },
  );

  it('outside AWS is not running, without a request', async () => {
    const { stepFunctions, executions } = aMockedClient();
    expect(await executions.isRunning('local:0123456789ab')).toBe(false);
    expect(stepFunctions.calls()).toEqual([]);
  });

  it.each(['AccessDeniedException', 'ThrottlingException'])(
    'that cannot be described may be running, so the error is thrown: %s',
    async (name) => {
      const { stepFunctions, executions } = aMockedClient();
      const failure = error(name);
      stepFunctions.on(DescribeExecutionCommand).rejects(failure);
      await expect(executions.isRunning(execution)).rejects.toBe(failure);
    },
  );
});
