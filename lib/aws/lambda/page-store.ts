/** The page store of a function, in a file of its own: the bundles of functions without one contain no client of S3. */

import { S3Client } from '@aws-sdk/client-s3';
import type { PageStore } from '../../core/ports.ts';
import { s3ClientConfig } from '../s3/client.ts';
import { encryptionWith } from '../s3/objects.ts';
import { createS3PageStore } from '../s3/page-store.ts';
import type { Environment } from '../sdk-config.ts';
import type { Platform } from './platform.ts';
import type { ServiceContext } from './service-context.ts';

export const functionPageStore = (
  { environment }: Pick<ServiceContext, 'environment'>,
  env: Environment,
  { createClient, runtime, compress, openSpoolFile, partBytes }: Platform,
): PageStore =>
  createS3PageStore({
    client: createClient(S3Client, s3ClientConfig(env)),
    bucket: environment.bucket,
    prefix: environment.prefix,
    encryption: encryptionWith(environment),
    runtime,
    compress,
    openSpoolFile,
    partBytes,
  });
