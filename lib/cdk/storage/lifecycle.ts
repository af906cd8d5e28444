/** What S3 does with pages and manifests as they grow old. */

import { Duration } from 'aws-cdk-lib';
import { type LifecycleRule, StorageClass } from 'aws-cdk-lib/aws-s3';
import type { LifecycleSettings } from '../../settings/account-settings.ts';
import { runsPrefix } from '../../core/storage/keys.ts';

/** A service with objects in the bucket. */
export interface StoredService {
  readonly prefix: string;
  readonly exports: readonly { readonly name: string }[];
}

export function lifecycleRules(
  settings: LifecycleSettings | undefined,
  services: readonly StoredService[],
): readonly LifecycleRule[] {
  return settings === undefined ? [] : services.flatMap((service) => runRules(settings, service));
}

const defaultNoncurrentDays = 30;

/**
 * A rule for the runs of each export. A run folder begins with its date, so a rule never applies to `latest.json`, and manifests
 * expire with their pages.
 */
function runRules(settings: LifecycleSettings, { prefix, exports }: StoredService): readonly LifecycleRule[] {
  const { expireAfterDays, deleteNoncurrentAfterDays = defaultNoncurrentDays, transitions = [] } = settings;
  return exports.map(({ name }) => ({
    prefix: `${prefix}${runsPrefix(name)}`,
    ...(transitions.length === 0
      ? {}
      : {
          transitions: transitions.map(({ storageClass, afterDays }) => ({
            storageClass: new StorageClass(storageClass),
            transitionAfter: Duration.days(afterDays),
          })),
        }),
    // In a versioned bucket an expired object only becomes noncurrent. S3 removes the delete marker itself.
    ...(expireAfterDays === undefined
      ? {}
      : {
          expiration: Duration.days(expireAfterDays),
          noncurrentVersionExpiration: Duration.days(deleteNoncurrentAfterDays),
        }),
  }));
}
