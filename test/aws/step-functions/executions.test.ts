import { DescribeExecutionCommand, SFNClient } from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { createExecutions } from '../../../lib/aws/step-functions/executions.ts';

const execution = 'arn:aws:states:us-east-1:123456789012:execution:reports:one';

const own = 'arn:aws:states:us-east-1:123456789012:stateMachine:reports';
const another = 'arn:aws:states:us-east-1:123456789012:execution:reports-before-it-was-replaced:one';

function aMockedClient() {
  const client = new SFNClient({ region: 'us-east-1' });
  return { stepFunctions: mockClient(client), executions: createExecutions(client, own) };
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
    expect(await executions.hasEnded(execution)).toBe(!running);
  });

  it.each(['ExecutionDoesNotExist', 'InvalidArn'])(
    'that Step Functions does not know is not running: %s',
    async (name) => {
      const { stepFunctions, executions } = aMockedClient();
      stepFunctions.on(DescribeExecutionCommand).rejects(error(name));
      expect(await executions.isRunning(execution)).toBe(false);
      // It may have just started.
      expect(await executions.hasEnded(execution)).toBe(false);
    },
  );

  it('outside AWS is not running, without a request', async () => {
    const { stepFunctions, executions } = aMockedClient();
    expect(await executions.isRunning('local:0123456789ab')).toBe(false);
    expect(stepFunctions.calls()).toEqual([]);
  });

  it.each([
    ['with another name', another],
    ['in another account', execution.replace('123456789012', '210987654321')],
    ['in another region', execution.replace('us-east-1', 'eu-central-1')],
  ])('of a state machine %s counts as ended if it must not be described', async (_, foreign) => {
    const { stepFunctions, executions } = aMockedClient();
    stepFunctions.on(DescribeExecutionCommand).rejects(error('AccessDeniedException'));
    expect(await executions.isRunning(foreign)).toBe(false);
    // An operator's client explains the error.
    const explained = new ExportError('ConfigurationError', 'Access denied', { cause: error('AccessDeniedException') });
    stepFunctions.on(DescribeExecutionCommand).rejects(explained);
    expect(await executions.isRunning(foreign)).toBe(false);
    stepFunctions.on(DescribeExecutionCommand).rejects(error('ThrottlingException'));
    await expect(executions.isRunning(foreign)).rejects.toMatchObject({ name: 'ThrottlingException' });
  });

  it('of another state machine is running if Step Functions says so', async () => {
    const { stepFunctions, executions } = aMockedClient();
    stepFunctions.on(DescribeExecutionCommand, { executionArn: another }).resolves({ status: 'RUNNING' });
    expect(await executions.isRunning(another)).toBe(true);
  });

  it('belongs to the state machine of the execution that asks', async () => {
    const client = new SFNClient({ region: 'us-east-1' });
    mockClient(client).on(DescribeExecutionCommand).rejects(error('AccessDeniedException'));
    const executions = createExecutions(client, execution.replace(':one', ':two'));
    await expect(executions.isRunning(execution)).rejects.toMatchObject({ name: 'AccessDeniedException' });
    expect(await executions.isRunning(another)).toBe(false);
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
