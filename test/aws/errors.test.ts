import { HeadObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { mockClient } from 'aws-sdk-client-mock';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { explainAccessDenied } from '../../lib/aws/errors.ts';
import { stepHandler } from '../../lib/aws/lambda/step-handler.ts';
import { headObject } from '../../lib/aws/s3/objects.ts';
import { createSecretApiKey } from '../../lib/aws/secrets.ts';
import { ExportError } from '../../lib/core/errors.ts';
import { stepRetries } from '../../lib/core/state-machine/retry-policy.ts';
import { failureOf } from '../support/service/service-client.ts';

const denied = (name: string, message: string) => Object.assign(new Error(message), { name });
const role = 'arn:aws:sts::123456789012:assumed-role/ReportExporter-ExportPage/ExportPage';

beforeEach(() => {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  return () => vi.restoreAllMocks();
});

const deniedSecret = denied('AccessDeniedException', 'Access to KMS is not allowed');
function secretOptions(error: Error) {
  const client = new SecretsManagerClient({ region: 'us-east-1' });
  mockClient(client).on(GetSecretValueCommand).rejects(error);
  return { client, secretId: 'reports/api-key', field: '', now: () => 0 };
}
function deniedObject() {
  const client = new S3Client({ region: 'us-east-1' });
  mockClient(client)
    .on(HeadObjectCommand)
    .rejects(Object.assign(denied('Unknown', 'UnknownError'), { $metadata: { httpStatusCode: 403 } }));
  return client;
}

/** The error of a step that fails with `cause`, as Step Functions sees it. */
async function errorOfStep(cause: unknown): Promise<Error> {
  const handler = stepHandler(() => () => Promise.reject(cause));
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
      `User: ${role} is not authorized to perform: s3:PutObject on resource: "arn:aws:s3:::reports/a" because no identity-based policy allows the s3:PutObject action`,
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

  it('names the setting for the key of an existing bucket', async () => {
    const message = `User: ${role} is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:eu-central-1:1:key/2`;
    expect((await errorOfStep(denied('AccessDenied', message))).message).toContain(
      'set bucket.kmsKeyArn to it and deploy',
    );
  });

  it('names the setting for a bucket whose policy denies writes', async () => {
    const message = `User: ${role} is not authorized to perform: s3:PutObject on resource: "arn:aws:s3:::reports/a" with an explicit deny in a resource-based policy`;
    expect((await errorOfStep(denied('AccessDenied', message))).message).toContain(
      'requires a header for encryption, set bucket.kmsKeyArn and deploy',
    );
  });

  it('has the remedy even if AWS names no action', async () => {
    const { message } = await errorOfStep(denied('AccessDenied', 'Access Denied.'));
    expect(message).toMatch(/^Access Denied\. AWS denied the request to a function of the stack\. Restore/);
  });

  it.each([
    [
      'a secret',
      async () => await createSecretApiKey(secretOptions(deniedSecret)).get(),
      /secret reports\/api-key cannot be read/,
    ],
    // The response to a HEAD request has no body, so no name either.
    [
      'an object',
      async () => await headObject({ client: deniedObject(), Bucket: 'b', Key: 'k' }),
      /s3:\/\/b\/k \(403\)/,
    ],
  ])('is retried like any other if it is to read %s, and keeps the explanation', async (_, read, message) => {
    const error = await errorOfStep(await failureOf(read()));
    expect(stepRetries('ExportPage').find(({ ErrorEquals }) => ErrorEquals.includes(error.name))?.MaxAttempts).toBe(2);
    expect(error.message).toMatch(message);
  });

  it('is not mistaken for an error of the export, or for another error of AWS', async () => {
    const other = new ExportError('ConfigurationError', 'No', { cause: denied('ResourceNotFoundException', 'x') });
    for (const error of [other, denied('SlowDown', 'Reduce your request rate')]) {
      const { name, message } = error;
      expect(await errorOfStep(error)).toMatchObject({ name, message });
    }
    expect(() => explainAccessDenied('no error')).not.toThrow();
  });
});
