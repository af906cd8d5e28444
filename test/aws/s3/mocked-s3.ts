/** An S3 page store with a mocked S3 client. It does not sleep between attempts. */

import { PutObjectCommand, type PutObjectCommandInput, S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { mockClient } from 'aws-sdk-client-mock';
import { createS3PageStore, type S3PageStoreOptions } from '../../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';

export function aMockedStore(options: Pick<S3PageStoreOptions, 'encryption' | 'partBytes'> = {}) {
  const client = new S3Client({ region: 'us-east-1' });
  const s3 = mockClient(client);
  return {
    s3,
    store: createS3PageStore({
      client,
      bucket: 'bucket',
      prefix: 'all/reports/',
      runtime: { ...systemRuntime, sleep: async () => {} },
      ...options,
    }),
  };
}

type MockedS3 = ReturnType<typeof aMockedStore>['s3'];

/** The names of the commands sent, in order. */
export const commandsSent = (s3: MockedS3) => s3.calls().map(({ args: [command] }) => command.constructor.name);
export const inputsSent = (s3: MockedS3) => s3.calls().map(({ args: [{ input }] }) => input);

export function theOnlyPut(s3: MockedS3): PutObjectCommandInput {
  const [put, ...others] = s3.commandCalls(PutObjectCommand);
  if (put === undefined || others.length > 0)
    throw new Error(`Expected one PutObject, but ${s3.calls().length} commands were sent`);
  return put.args[0].input;
}

/** The SDK models few S3 errors. The others have this class and differ by name. */
export function s3Error(name: string, httpStatusCode: number): S3ServiceException {
  return new S3ServiceException({ name, message: name, $fault: 'client', $metadata: { httpStatusCode } });
}
