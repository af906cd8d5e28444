/**
 * The items of the page log's table. A page-log entry is an item with one attribute per field, so that it is readable in
 * the console. The partition key names the service and the export: IAM policies restrict access by the service.
 *
 * One field is stored as JSON text: the filter of a request. It can be any JSON, and DynamoDB does not preserve the order
 * of names, empty names, or every number. The checksum is that of the model's value, and does not depend on the order of
 * attributes.
 */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { asRunId, type ExportState, type JsonObject, type PageEntry } from '../../core/model.ts';
import type { ChainRef, RunRef } from '../../core/ports.ts';
import type { SlotState } from '../../core/slots/page-slots.ts';
import { type Checksummed, checksumOf } from '../../core/storage/stored-records.ts';

export type Item = Record<string, AttributeValue>;

/** `pk` is a partition of the service; `sk` is `state`, or names the bounds of a bounded run, or the run, the slice and the page. */
export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

/** Neither name contains a slash. */
export const partitionOf = (service: string, exportName: string): string => `${service}/${exportName}`;

/** The state of the service's slots. No export has this name. */
export const slotsKey = (service: string): ItemKey => ({ pk: `${service}/#slots`, sk: 'state' });

export const toSlotsItem = (service: string, state: SlotState, writeToken: string): Item =>
  toItem({ ...slotsKey(service), ...state, writeToken });

/** Of the state of an export, or of a bounded run: what follows the slash in its name is in the sort key. */
export function stateKey(service: string, stateName: string): ItemKey {
  const [exportName = '', ...bounds] = stateName.split('/');
  return {
    pk: partitionOf(service, exportName),
    sk: bounds.length === 0 ? 'state' : `${boundedPrefix}${bounds.join('/')}`,
  };
}

/** What the sort keys of the states of bounded runs begin with. */
export const boundedPrefix = 'bounded#';

/** The name of the state of the bounded run in a sort key. */
export const boundedInSortKey = (exportName: string, sk = ''): string =>
  `${exportName}/${sk.slice(boundedPrefix.length)}`;

/** Twelve digits, so that entries sort by page number. */
export const entryKey = (service: string, entry: ChainRef & Pick<PageEntry, 'page'>): ItemKey => ({
  pk: partitionOf(service, entry.export),
  sk: `${entriesPrefix(entry)}${String(entry.page).padStart(12, '0')}`,
});

/** The sort keys of all entries are between these two. */
export const firstEntry = 'run#';
export const afterLastEntry = 'run$';

/** The common prefix of the sort keys of a run's entries. A run ID has no `#`, so no other run shares it. */
export const runPrefix = ({ run }: Pick<RunRef, 'run'>): string => `${firstEntry}${run}#`;
/** Of a run with several slices. */
export const slicesPrefix = (run: Pick<RunRef, 'run'>): string => `${runPrefix(run)}slice#`;

/** Of the entries of a run with one slice, or of one attempt of a slice. Four digits, so that they sort by slice. */
export const entriesPrefix = ({ run, slice, attempt }: Pick<ChainRef, 'run' | 'slice' | 'attempt'>): string =>
  slice === undefined
    ? `${runPrefix({ run })}page#`
    : `${slicesPrefix({ run })}${String(slice).padStart(4, '0')}.${attempt}#page#`;

const entrySortKey = /^run#([^#]+)#(?:slice#(\d{4})\.(\d+)#)?page#(\d{12})$/;

/** The page in the sort key of an entry; undefined if the sort key is malformed. */
export function pageInSortKey(
  sk: string | undefined,
): (Omit<ChainRef, 'export'> & Pick<PageEntry, 'page'>) | undefined {
  const [, run, slice, attempt, page] = entrySortKey.exec(sk ?? '') ?? [];
  if (run === undefined) return undefined;
  const ref = slice === undefined ? {} : { slice: Number(slice), attempt: Number(attempt) };
  return { run: asRunId(run), ...ref, page: Number(page) };
}

export function toKeyItem(key: ItemKey): Item {
  return toItem({ ...key });
}

/** `writeToken` is unique to this write: a retry recognizes by it what the first attempt wrote. */
export function toStateItem(service: string, state: ExportState, writeToken: string): Item {
  const { active, watermark } = state;
  return toItem({
    ...stateKey(service, state.export),
    ...state,
    active: active && { ...active, request: stringifyFilter(active.request) },
    watermark: watermark && stringifyFilter(watermark),
    checksum: checksumOf(state),
    writeToken,
  });
}

/** The unverified state in an item. @throws Error if the item cannot be a state */
export function fromStateItem(item: Item): Checksummed {
  const { pk: _pk, sk: _sk, writeToken: _writeToken, checksum, ...state } = unmarshall(item);
  const { active, watermark } = state;
  const value = {
    ...state,
    ...(active && { active: { ...active, request: parseFilter(active.request) } }),
    ...(watermark && { watermark: parseFilter(watermark) }),
  };
  return { value, checksum };
}

export function writeTokenOf(item: Item): string | undefined {
  return item.writeToken?.S;
}

/** `expiresAt` is the item's time to live, in seconds since the epoch. */
export function toEntryItem(service: string, entry: PageEntry, expiresAt: number): Item {
  return toItem({ ...entryKey(service, entry), ...entry, checksum: checksumOf(entry), expiresAt });
}

/** The unverified entry in an item. @throws Error if the item cannot be an entry */
export function fromEntryItem(item: Item): Checksummed {
  const value = unmarshall(item);
  const { checksum } = value;
  // Not a copy without them, which would take longer than everything else here.
  for (const name of ['pk', 'sk', 'expiresAt', 'checksum']) delete value[name];
  return { value, checksum };
}

function stringifyFilter<WithFilter extends { readonly filter: JsonObject }>(value: WithFilter) {
  return { ...value, filter: JSON.stringify(value.filter) };
}

function parseFilter(value: { readonly filter?: unknown } | undefined) {
  if (typeof value?.filter !== 'string') throw new Error('its filter is missing');
  return { ...value, filter: JSON.parse(value.filter) as unknown };
}

function toItem(values: Readonly<Record<string, unknown>>): Item {
  return marshall(values, { removeUndefinedValues: true });
}
