/** The S3 client. Unlike the other clients it must know whether it talks to AWS or to a local S3. */

import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { type Environment, s3SdkConfig, withoutRequestLog } from '../sdk-config.ts';

export function createS3Client(env: Environment, config?: S3ClientConfig): S3Client {
  return withoutRequestLog(new S3Client(s3ClientConfig(env, config)));
}

/** The SDK finds a custom endpoint in `env` by itself; a local one cannot have the bucket in its host name. */
export function s3ClientConfig(env: Environment, config: S3ClientConfig = s3SdkConfig): S3ClientConfig {
  const endpoint = URL.parse(env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || '');
  return {
    ...config,
    forcePathStyle: endpoint !== null && isLocal(endpoint.hostname),
    // From 2 MiB on the SDK would send `Expect: 100-continue`, each time on a new connection that it then closes.
    expectContinueHeader: false,
  };
}

const isLocal = (host: string): boolean => host === 'localhost' || host.startsWith('[') || /^[\d.]+$/.test(host);
