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
    ['RUNNING', 'running'],
    ['PENDING_REDRIVE', 'running'],
    ['FAILED', 'ended'],
  ] as const)('with status %s is %s', async (status, expected) => {
    const { stepFunctions, executions } = aMockedClient();
    stepFunctions.on(DescribeExecutionCommand, { executionArn: execution }).resolves({ status });
    expect(await executions.status(execution)).toBe(expected);
  });

  it.each(['ExecutionDoesNotExist', 'InvalidArn'])('that Step Functions does not know is unknown: %s', async (name) => {
    const { stepFunctions, executions } = aMockedClient();
    stepFunctions.on(DescribeExecutionCommand).rejects(error(name));
    expect(await executions.status(execution)).toBe('unknown');
  });

  it('outside AWS is unknown, without a request', async () => {
    const { stepFunctions, executions } = aMockedClient();
    expect(await executions.status('local:0123456789ab')).toBe('unknown');
    expect(stepFunctions.calls()).toEqual([]);
  });

  it.each([
    ['with another name', another],
    ['in another account', execution.replace('123456789012', '210987654321')],
    ['in another region', execution.replace('us-east-1', 'eu-central-1')],
  ])('of a state machine %s is unknown if it must not be described', async (_, foreign) => {
    const { stepFunctions, executions } = aMockedClient();
    stepFunctions.on(DescribeExecutionCommand).rejects(error('AccessDeniedException'));
    expect(await executions.status(foreign)).toBe('unknown');
    // An operator's client explains the error.
    const explained = new ExportError('ConfigurationError', 'Access denied', { cause: error('AccessDeniedException') });
    stepFunctions.on(DescribeExecutionCommand).rejects(explained);
    expect(await executions.status(foreign)).toBe('unknown');
    stepFunctions.on(DescribeExecutionCommand).rejects(error('ThrottlingException'));
    await expect(executions.status(foreign)).rejects.toMatchObject({ name: 'ThrottlingException' });
  });

  it('of another state machine is running if Step Functions says so', async () => {
    const { stepFunctions, executions } = aMockedClient();
    stepFunctions.on(DescribeExecutionCommand, { executionArn: another }).resolves({ status: 'RUNNING' });
    expect(await executions.status(another)).toBe('running');
  });

  it('belongs to the state machine of the execution that asks', async () => {
    const client = new SFNClient({ region: 'us-east-1' });
    mockClient(client).on(DescribeExecutionCommand).rejects(error('AccessDeniedException'));
    const executions = createExecutions(client, execution.replace(':one', ':two'));
    await expect(executions.status(execution)).rejects.toMatchObject({ name: 'AccessDeniedException' });
    expect(await executions.status(another)).toBe('unknown');
  });

  it.each(['AccessDeniedException', 'ThrottlingException'])(
    'that cannot be described may be running, so the error is thrown: %s',
    async (name) => {
      const { stepFunctions, executions } = aMockedClient();
      const failure = error(name);
      stepFunctions.on(DescribeExecutionCommand).rejects(failure);
      await expect(executions.status(execution)).rejects.toBe(failure);
    },
  );
});
