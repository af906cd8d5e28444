/**
 * The items of the page log's table. A record is stored as JSON text: DynamoDB does not preserve the order of names,
 * empty names, or every number. The partition key names the service and the export: IAM policies restrict access by the
 * service.
 */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { asRunId, type ExportState, type LogEntry, type RunRef } from '../../core/model.ts';
import type { ChainRef } from '../../core/ports.ts';
import { toStoredRecord } from '../../core/storage/stored-records.ts';

export type Item = Record<string, AttributeValue>;
export type KeyedItem = Item & ItemKey;

/** `pk` is a partition of the service. `sk` is `state`, or has the bounds of a bounded run, or run, slice and page. */
export interface ItemKey {
  readonly pk: AttributeValue.SMember;
  readonly sk: AttributeValue.SMember;
}

const keyOf = (pk: string, sk: string): ItemKey => ({ pk: { S: pk }, sk: { S: sk } });

/** The names contain no slash. */
export const partitionOf = (service: string, exportName: string): string => `${service}/${exportName}`;

/** What the exports of a service share: slots for pages, the rate of requests, the slot for changes of the secret. */
export type SharedRecordName = 'slots' | 'rate' | 'secret';

/** No export has such a name. */
export const sharedRecordKey = (service: string, name: SharedRecordName): ItemKey =>
  keyOf(`${service}/#${name}`, 'state');

/** How far the newest run of a state has come. */
export function progressKey(service: string, stateName: string): ItemKey {
  const { pk, sk } = stateKey(service, stateName);
  return keyOf(pk.S, `progress#${sk.S}`);
}

/** The newest job of a chain. */
export function jobKey(service: string, stateName: string, slice: number): ItemKey {
  const { pk, sk } = stateKey(service, stateName);
  return keyOf(pk.S, `job#${sk.S}#${sixDigits(slice)}`);
}

/** Has the digest of the secret that was stored last. */
export const storedSecretKey = (service: string): ItemKey => keyOf(`${service}/#secret`, 'stored');

/** The key of a state. For a bounded run, the bounds after the slash in its name are in the sort key. */
export function stateKey(service: string, stateName: string): ItemKey {
  const [exportName = '', ...bounds] = stateName.split('/');
  return keyOf(partitionOf(service, exportName), bounds.length === 0 ? 'state' : `${boundedPrefix}${bounds.join('/')}`);
}

/** What the sort keys of the states of bounded runs begin with. */
export const boundedPrefix = 'bounded#';

/** The name of the state of the bounded run in a sort key. */
export const boundedInSortKey = (exportName: string, sk = ''): string =>
  `${exportName}/${sk.slice(boundedPrefix.length)}`;

/** Twelve digits, so that entries sort by page number. */
export const entryKey = (service: string, entry: ChainRef & Pick<LogEntry, 'page'>): ItemKey =>
  keyOf(partitionOf(service, entry.export), `${entriesPrefix(entry)}${String(entry.page).padStart(12, '0')}`);

/** The common prefix of the sort keys of a run's entries. A run ID has no `#`, so no other run shares it. */
const runPrefix = ({ run }: Pick<RunRef, 'run'>): string => `run#${run}#`;
/** The common prefix of the sort keys of all entries of a sliced run. */
const slicesPrefix = (run: Pick<RunRef, 'run'>): string => `${runPrefix(run)}slice#`;

/** More than any attempt. */
const maxAttempts = 1_000_000;
const sixDigits = (number: number): string => String(number).padStart(6, '0');

/** The beginning of the sort keys of a slice. Six digits, so that entries sort by slice. */
const slicePrefix = (run: Pick<RunRef, 'run'>, slice: number): string => `${slicesPrefix(run)}${sixDigits(slice)}`;

/** All entries of slices with a number above `after` have sort keys between these two. */
export const slicesAfter = (run: Pick<RunRef, 'run'>, after: number) =>
  ({ from: slicePrefix(run, after + 1), to: `${slicesPrefix(run)}~` }) as const;

/** The common prefix of a chain's entries. Attempts count down, so that the newest one of a slice sorts first. */
export const entriesPrefix = ({ run, slice, attempt }: Pick<ChainRef, 'run' | 'slice' | 'attempt'>): string =>
  slice === undefined
    ? `${runPrefix({ run })}page#`
    : `${slicePrefix({ run }, slice)}.${sixDigits(maxAttempts - (attempt ?? 1))}#page#`;

const entrySortKey = /^run#([^#]+)#(?:slice#(\d{6})\.(\d{6})#)?page#(\d{12})$/;

/** The page in the sort key of an entry; undefined if the sort key is malformed. */
export function pageInSortKey(sk: string | undefined): (Omit<ChainRef, 'export'> & Pick<LogEntry, 'page'>) | undefined {
  const [, run, slice, attempt, page] = entrySortKey.exec(sk ?? '') ?? [];
  if (run === undefined) return undefined;
  const ref = slice === undefined ? {} : { slice: Number(slice), attempt: maxAttempts - Number(attempt) };
  return { run: asRunId(run), ...ref, page: Number(page) };
}

/** Without the token of its write. */
export const toStateItem = (service: string, state: ExportState): KeyedItem => ({
  ...stateKey(service, state.export),
  ...toAttributes(toStoredRecord(state)),
  version: { N: String(state.version) },
});

/** `expiresAt` is the item's time to live, in seconds since the epoch. */
export const toEntryItem = (service: string, entry: LogEntry, expiresAt: number): KeyedItem => ({
  ...entryKey(service, entry),
  ...toAttributes(toStoredRecord(entry)),
  expiresAt: { N: String(expiresAt) },
});

export const toAttributes = ({ json, checksum }: { readonly json: string; readonly checksum?: string }): Item => ({
  record: { S: json },
  ...(checksum !== undefined && { checksum: { S: checksum } }),
});

/** The unverified record in an item, and its version; NaN if it has none. */
export const recordIn = ({ record, checksum, version }: Item) => ({
  json: record?.S,
  checksum: checksum?.S,
  version: Number(version?.N),
});
