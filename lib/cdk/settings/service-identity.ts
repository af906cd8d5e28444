/** What distinguishes a service from others in a CDK app: its name, its keys, its exports. */

import { createHash } from 'node:crypto';
import { findSimilarNames } from '../../settings/deployment-settings.ts';

/** The name of a service whose construct has no usable path. */
const defaultServiceName = 'default';

export interface ServiceIdentity {
  /** The path of the construct. */
  readonly path: string;
  readonly serviceName: string;
  readonly prefix: string;
  readonly exportNames: readonly string[];
  /** The names of the bucket and of the table. */
  readonly bucket: string;
  readonly table: string;
  /** The stack itself: two may have the same name. */
  readonly stack: object;
}

/** Why `own` and `other` cannot both be deployed. Each problem begins with the prop to change. */
export function findIdentityConflicts(own: ServiceIdentity, other: ServiceIdentity): string[] {
  const { path } = other;
  const problems: string[] = [];
  if (own.serviceName === other.serviceName) {
    // Otherwise services with common keys would overwrite each other's state, and metrics of both would be added up.
    if (own.table === other.table) problems.push(`name: ${path} has the same name and table; set another name`);
    else if (own.stack === other.stack) problems.push(`name: ${path} has the same name and stack; set another name`);
  }
  const isWithin = own.prefix.startsWith(other.prefix) || other.prefix.startsWith(own.prefix);
  if (isWithin && own.bucket === other.bucket) {
    problems.push(
      `prefix: ${path} has the same bucket and the prefix ${JSON.stringify(other.prefix)}; ` +
        'set prefixes of which none begins with the other',
    );
  }
  // Operators find an export by its name alone.
  if (own.stack === other.stack) {
    const names = [...other.exportNames, ...own.exportNames];
    for (const earlier of findSimilarNames(names)) {
      if (earlier === undefined) continue;
      problems.push(
        `exports: ${path} in the same stack has an export with a similar name, ${names[earlier]}; use another name`,
      );
    }
  }
  return problems;
}

const maxNameLength = 30;
const hashLength = 8;

/** `Data/EuReports` → `data-eureports`: the name of a service that is given none, from the path of its construct in the stack. */
export function serviceNameFrom(path: string): string {
  const name = path
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[0-9-]+|-+$/g, '');
  if (name === '') return defaultServiceName;
  if (name.length <= maxNameLength) return name;
  const hash = createHash('sha256').update(path).digest('hex').slice(0, hashLength);
  return `${name.slice(0, maxNameLength - hashLength - 1).replace(/-$/, '')}-${hash}`;
}
