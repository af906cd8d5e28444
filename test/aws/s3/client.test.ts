import { S3Client } from '@aws-sdk/client-s3';
import { expect, it } from 'vitest';
import { createS3Client } from '../../../lib/aws/s3/client.ts';

it.each([
  ['AWS itself', {}, false],
  ['an endpoint with a host name', { AWS_ENDPOINT_URL: 'https://s3.example.com' }, false],
  ['an IPv4 address', { AWS_ENDPOINT_URL: 'http://127.0.0.1:4566' }, true],
  ['an IPv6 address', { AWS_ENDPOINT_URL: 'http://[::1]:4566' }, true],
  ['localhost', { AWS_ENDPOINT_URL: 'http://localhost:4566' }, true],
  [
    'an address only for S3',
    { AWS_ENDPOINT_URL: 'https://aws.example.com', AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1' },
    true,
  ],
])('puts the bucket into the path only if it cannot be part of the host name: %s', (_, env, isPathStyle) => {
  const client = createS3Client({ AWS_REGION: 'us-east-1', ...env });
  expect(client.config.forcePathStyle).toBe(isPathStyle);
});

it('copies no request and no response for a log that is off', () => {
  const isLogger = (middleware: string) => middleware.startsWith('loggerMiddleware');
  // If the SDK gives it another name, it must be removed under that.
  expect(new S3Client().middlewareStack.identify().filter(isLogger)).toHaveLength(1);
  expect(createS3Client({}).middlewareStack.identify().filter(isLogger)).toEqual([]);
});
