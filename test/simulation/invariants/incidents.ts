/** The records of incidents: they count each one once, and stay small. */

import { unmarshall } from '@aws-sdk/util-dynamodb';
import { noIncidents, parseIncidentRecord, totalOf } from '../../../lib/target/incidents.ts';
import type { Item } from '../world/dynamodb.ts';
import type { World } from '../world/world.ts';

interface IncidentsItem {
  readonly version: number;
  readonly record: string;
}

export function checkIncidents(world: World, item: Item, existing: Item | undefined): void {
  const read = (stored: Item | undefined) => stored && (unmarshall({ ...stored }) as IncidentsItem);
  const { version, record: text } = read(item) ?? { version: 0, record: '' };
  const previous = read(existing);
  const record = parseIncidentRecord(text);
  const added = totalOf(record) - totalOf(previous ? parseIncidentRecord(previous.record) : noIncidents);
  const isSuccessor = version === (previous?.version ?? 0) + 1;
  if (isSuccessor && added > 0 && record.newest.length === Math.min(totalOf(record), 100)) return;
  world.violate('incidents are added to what is recorded', `version ${version}: ${added} more, ${text.slice(0, 200)}`);
}
