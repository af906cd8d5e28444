/**
 * How the page log lies in its table, so that a person finds it readable there: a page is an item with an attribute for
 * each of its facts, and the partition key is the export's name, by which permissions can be drawn.
 *
 * The one exception is the filter of a request. It is any JSON at all, and a table keeps neither the order of its names
 * nor an empty one nor every number; so it is kept as text.
 */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import type { Head, JsonObject, PageEntry } from '../core/model.ts';
import type { RunRef } from '../core/ports.ts';

export type Item = Record<string, AttributeValue>;

/** `pk` is the export; `sk` is `head`, or the run and the page. */
export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

export const headKey = (exportName: string): ItemKey => ({ pk: exportName, sk: 'head' });

/** What the `sk` of a run's pages begins with. No run id holds a `#`, so none of another run's begins so. */
export const pagesPrefix = ({ run }: Pick<RunRef, 'run'>): string => `run#${run}#page#`;

/** Twelve digits, so that pages sort by number. */
export const pageItemKey = ({ export: pk, run, page }: Pick<PageEntry, 'export' | 'run' | 'page'>): ItemKey => ({
  pk,
  sk: `${pagesPrefix({ run })}${String(page).padStart(12, '0')}`,
});

/** `writeToken` is this write's own: by it a repetition recognises what it has written itself. */
export function headItem(head: Head, writeToken: string): Item {
  const { active, watermark } = head;
  return itemOf({
    ...headKey(head.export),
    ...head,
    active: active && { ...active, request: flat(active.request) },
    watermark: watermark && flat(watermark),
    writeToken,
  });
}

/** `expiresAt` in seconds since the epoch: when the table may drop the item. */
export function pageItem(entry: PageEntry, expiresAt: number): Item {
  return itemOf({ ...pageItemKey(entry), ...entry, expiresAt });
}

export function keyItem(key: ItemKey): Item {
  return itemOf({ ...key });
}

export function headOf(item: Item): Head {
  const { pk: _pk, sk: _sk, writeToken: _token, ...head } = unmarshall(item);
  const { active, watermark } = head;
  return {
    ...head,
    ...(active && { active: { ...active, request: whole(active.request) } }),
    ...(watermark && { watermark: whole(watermark) }),
  } as Head;
}

function flat<Filtered extends { readonly filter: JsonObject }>(value: Filtered) {
  return { ...value, filter: JSON.stringify(value.filter) };
}

function whole(value: { readonly filter?: string }) {
  return value.filter === undefined ? value : { ...value, filter: JSON.parse(value.filter) as JsonObject };
}

export function writeTokenOf(item: Item): string | undefined {
  return item.writeToken?.S;
}

export function pageEntryOf(item: Item): PageEntry {
  const { pk: _pk, sk: _sk, expiresAt: _expires, ...entry } = unmarshall(item);
  return entry as PageEntry;
}

function itemOf(values: Readonly<Record<string, unknown>>): Item {
  return marshall(values, { removeUndefinedValues: true });
}
