import { beforeEach, describe, expect, it, vi } from 'vitest';
import { explainAccessDenied } from '../../lib/aws/access-denied.ts';
import { createAttemptRecorder } from '../../lib/aws/lambda/attempt-recorder.ts';
import { stepHandler } from '../../lib/aws/lambda/step-handler.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import { ExportError } from '../../lib/core/errors.ts';
import { createMemoryIncidentLog } from '../support/export/memory-adapters.ts';

const denied = (name: string, message: string) => Object.assign(new Error(message), { name });
const role = 'arn:aws:sts::123456789012:assumed-role/ReportExporter-ExportPage/ExportPage';

beforeEach(() => {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  return () => vi.restoreAllMocks();
});

/** The error of a step that fails with `cause`, as Step Functions sees it. */
async function errorOfStep(cause: unknown): Promise<Error> {
  const log = createMemoryIncidentLog();
  const incidents = createAttemptRecorder('ExportPage', log, systemRuntime, () => {});
  const handler = stepHandler(() => ({ run: () => Promise.reject(cause), incidents }));
  const context = { awsRequestId: '1', getRemainingTimeInMillis: () => 1_000 };
  return await handler({ input: {}, execution: 'e' }, context).then(
    () => expect.fail('it did not reject'),
    (error: Error) => error,
  );
}

describe('a request that AWS denies to a function', () => {
  it.each([
    [
      'AccessDenied',
      `User: ${role} is not authorized to perform: s3:PutObject on resource: "arn:aws:s3:::reports/a" with an explicit deny in a resource-based policy`,
      's3:PutObject',
    ],
    [
      'AccessDeniedException',
      `User: ${role} is not authorized to perform: dynamodb:PutItem on resource: arn:aws:dynamodb:us-east-1:123456789012:table/t because no identity-based policy allows the dynamodb:PutItem action`,
      'dynamodb:PutItem',
    ],
  ])('keeps its name %s and the message of AWS, and names the action and the remedy', async (name, message, action) => {
    const error = await errorOfStep(denied(name, message));
    expect(error.name).toBe(name);
    expect(error.message).toBe(
      `${message}. AWS denied ${action} to a function of the stack. Restore the permission (cdk diff shows changes of its own ` +
        'policies; check bucket, key and endpoint policies and permissions boundaries), then start again',
    );
  });

  it('has the remedy even if AWS names no action', async () => {
    const { message } = await errorOfStep(denied('AccessDenied', 'Access Denied.'));
    expect(message).toMatch(/^Access Denied\. AWS denied the request to a function of the stack\. Restore/);
  });

  it('is not mistaken for an error of the export, or for another error of AWS', async () => {
    const explained = new ExportError('ConfigurationError', 'S3 denied access', { cause: denied('AccessDenied', 'x') });
    for (const error of [explained, denied('SlowDown', 'Reduce your request rate')]) {
      const { message } = error;
      expect((await errorOfStep(error)).message).toBe(message);
    }
    expect(() => explainAccessDenied('no error')).not.toThrow();
  });
});
