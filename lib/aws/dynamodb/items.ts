/**
 * How the page log lies in its table, so that a person finds it readable there: a page is an item with an attribute for
 * each of its facts, and the partition key is the export's name, by which permissions can be drawn.
 *
 * The one exception is the filter of a request. It is any JSON at all, and a table keeps neither the order of its names
 * nor an empty one nor every number; so it is kept as text. Beside it all stands the checksum of the value as the core knows
 * it, which does not mind in which order a table gives attributes back.
 */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { asRunId, type ExportState, type JsonObject, type PageEntry, type RunId } from '../../core/model.ts';
import type { RunRef } from '../../core/ports.ts';
import type { Checksummed } from '../../core/storage/stored-records.ts';
import { checksumOf } from '../../core/storage/stored-records.ts';

export type Item = Record<string, AttributeValue>;

/** `pk` is the export; `sk` is `head`, or the run and the page. */
export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

export const stateKey = (exportName: string): ItemKey => ({ pk: exportName, sk: 'state' });

/** What the `sk` of every page begins with, and what comes behind all of those. */
export const runsPrefix = 'run#';
export const behindRuns = 'run$';

/** What the `sk` of a run's pages begins with. No run id holds a `#`, so none of another run's begins so. */
export const pagesPrefix = ({ run }: Pick<RunRef, 'run'>): string => `${runsPrefix}${run}#page#`;

/** The run whose page an item with this `sk` is. */
export const runInKey = (sk = ''): RunId => asRunId(sk.slice(runsPrefix.length).split('#')[0] ?? '');

/** Twelve digits, so that pages sort by number. */
export const pageItemKey = ({ export: pk, run, page }: Pick<PageEntry, 'export' | 'run' | 'page'>): ItemKey => ({
  pk,
  sk: `${pagesPrefix({ run })}${String(page).padStart(12, '0')}`,
});

/** The page that an item with this `sk` is about; NaN where it can be about none. */
export function pageInKey(run: Pick<RunRef, 'run'>, sk: string | undefined): number {
  const prefix = pagesPrefix(run);
  return sk?.startsWith(prefix) && /^\d{12}$/.test(sk.slice(prefix.length))
    ? Number(sk.slice(prefix.length))
    : Number.NaN;
}

/** `writeToken` is this write's own: by it a repetition recognises what it has written itself. */
export function stateItem(head: ExportState, writeToken: string): Item {
  const { active, watermark } = head;
  return itemOf({
    ...stateKey(head.export),
    ...head,
    active: active && { ...active, request: flat(active.request) },
    watermark: watermark && flat(watermark),
    checksum: checksumOf(head),
    writeToken,
  });
}

/** `expiresAt` in seconds since the epoch: when the table may drop the item. */
export function pageItem(entry: PageEntry, expiresAt: number): Item {
  return itemOf({ ...pageItemKey(entry), ...entry, checksum: checksumOf(entry), expiresAt });
}

export function keyItem(key: ItemKey): Item {
  return itemOf({ ...key });
}

/** What the item says is a head, to be looked at. @throws where it cannot be one */
export function stateIn(item: Item): Checksummed {
  const { pk: _pk, sk: _sk, writeToken: _token, checksum, ...head } = unmarshall(item);
  const { active, watermark } = head;
  const value = {
    ...head,
    ...(active && { active: { ...active, request: whole(active.request) } }),
    ...(watermark && { watermark: whole(watermark) }),
  };
  return { value, checksum };
}

function flat<Filtered extends { readonly filter: JsonObject }>(value: Filtered) {
  return { ...value, filter: JSON.stringify(value.filter) };
}

function whole(value: { readonly filter?: unknown } | undefined) {
  if (typeof value?.filter !== 'string') throw new Error('its filter is missing');
  return { ...value, filter: JSON.parse(value.filter) as unknown };
}

export function writeTokenOf(item: Item): string | undefined {
  return item.writeToken?.S;
}

/** What the item says is a page's entry, to be looked at. @throws where it cannot be one */
export function entryIn(item: Item): Checksummed {
  const { pk: _pk, sk: _sk, expiresAt: _expires, checksum, ...value } = unmarshall(item);
  return { value, checksum };
}

function itemOf(values: Readonly<Record<string, unknown>>): Item {
  return marshall(values, { removeUndefinedValues: true });
}
