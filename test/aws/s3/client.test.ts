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
