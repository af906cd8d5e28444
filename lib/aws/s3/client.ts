/** The S3 client, which, unlike the others, has to know where it is not AWS that it speaks to. */

import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import type { Environment } from '../lambda/step-handler.ts';
import { sdkConfigForBodies } from '../sdk-config.ts';

/** An endpoint of its own, as a local one has, is found by the SDK; a bucket is no host name there, but part of the path. */
export function createS3Client(env: Environment, settings: S3ClientConfig = sdkConfigForBodies): S3Client {
  const endpoint = URL.parse(env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || '');
  return new S3Client({
    ...settings,
    forcePathStyle: endpoint !== null && isLocal(endpoint.hostname),
    // From 2 MiB on the SDK would ask before it sends a body, each time by a connection of its own that it then closes.
    expectContinueHeader: false,
  });
}

const isLocal = (host: string): boolean => host === 'localhost' || host.startsWith('[') || /^[\d.]+$/.test(host);
