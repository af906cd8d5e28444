/** An S3 page store whose S3 is played by the test, command by command. */

import { PutObjectCommand, type PutObjectCommandInput, S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { mockClient } from 'aws-sdk-client-mock';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import type { Spool } from '../../../lib/aws/s3/spool.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';

export function aMockedStore(options: { readonly spool?: Spool } = {}) {
  const client = new S3Client({ region: 'us-east-1' });
  const s3 = mockClient(client);
  return {
    s3,
    store: createS3PageStore({
      client,
      bucket: 'bucket',
      prefix: 'all/reports/',
      runtime: systemRuntime,
      ...options,
    }),
  };
}

type MockedS3 = ReturnType<typeof aMockedStore>['s3'];

/** The commands sent, in order, by name. */
export const commandsSent = (s3: MockedS3) => s3.calls().map(({ args: [command] }) => command.constructor.name);
export const inputsSent = (s3: MockedS3) => s3.calls().map(({ args: [{ input }] }) => input);

export function theOnlyPut(s3: MockedS3): PutObjectCommandInput {
  const [put, ...others] = s3.commandCalls(PutObjectCommand);
  if (put === undefined || others.length > 0) throw new Error(`There were ${s3.calls().length} commands`);
  return put.args[0].input;
}

/** S3 models hardly any of its errors: all come as this class, told apart by their name. */
export function s3Error(name: string, httpStatusCode: number): S3ServiceException {
  return new S3ServiceException({ name, message: name, $fault: 'client', $metadata: { httpStatusCode } });
}
