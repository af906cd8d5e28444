/** The name of a service that is given none. */

import { createHash } from 'node:crypto';

/** The name of a service whose construct has no usable path. */
const defaultServiceName = 'default';

const maxNameLength = 30;
const hashLength = 8;

/** `Data/EuReports` → `data-eureports`: the path of its construct in the stack. */
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
