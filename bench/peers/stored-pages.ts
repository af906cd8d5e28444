/**
 * What a reader finds on disk, the same yardstick for everyone: each page that was served, whole and as it was, or a torn
 * one. Whoever lists the output sees what is `listed`; whoever heeds the mark of completeness that a contender documents
 * takes what is `published`.
 */

import { createReadStream, type Dirent, existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { PageDocument } from '../harness/page-document.ts';

/** A page's number, or that it is not what was served: half of it, or more than it. */
export type Found = number | 'torn';

interface Lying {
  readonly listed: readonly Found[];
  /** Undefined where nothing tells a reader what is complete. */
  readonly published?: readonly Found[];
}

export type Look = (out: string, document: PageDocument) => Promise<Lying>;

/** A file for each page. */
export const pageFiles: Look = async (out, document) => ({
  listed: await Promise.all((await files(out, /^page-\d+\.xml$/)).map((file) => pageFile(file, document))),
});

/** Report-exporter: what is published is what a manifest names (docs/consumers.md). */
export const manifests: Look = async (out, document) => {
  const published: Found[] = [];
  for (const file of await files(out, /^manifest\.json$/)) {
    const { pages, totals } = JSON.parse(await readFile(file, 'utf8')) as Manifest;
    // The run after a walk that was killed behind its manifest: it asks for later reports, and there are none.
    if (totals.reports === 0) continue;
    const there = pages.filter(({ key }) => existsSync(join(out, key)));
    published.push(...(await Promise.all(there.map(({ key }) => pageFile(join(out, key), document)))));
  }
  const { listed } = await pageFiles(out, document);
  return { listed: listed.filter((found) => found !== nothing), published };
};
interface Manifest {
  readonly pages: readonly { readonly key: string }[];
  readonly totals: { readonly reports: number };
}

/** dlt: rows of the loads that `_dlt_loads` names (dlthub.com/docs/general-usage/destination-tables). */
export const dltLoads: Look = async (out, document) => {
  const loads = new Set<unknown>();
  for (const file of await files(out, /^reports__.*\.jsonl$/)) {
    if (!file.includes('/_dlt_loads/')) continue;
    for await (const row of lines(file)) if (row?.status === 0) loads.add(row.load_id);
  }
  const listed: Found[] = [];
  const published: Found[] = [];
  for (const file of await files(join(out, 'lake', 'export', 'pages'), /\.jsonl$/)) {
    for await (const row of lines(file)) {
      const found = asFound(row?.xml, document);
      listed.push(found);
      if (loads.has(row?._dlt_load_id)) published.push(found);
    }
  }
  return { listed, published };
};

/** target-jsonl: a file for each start, and nothing that tells which one is complete. */
export const singerRecords: Look = async (out, document) => {
  const listed: Found[] = [];
  for (const file of await files(out, /^pages-.*\.jsonl$/)) {
    for await (const row of lines(file)) listed.push(asFound(row?.xml, document));
  }
  return { listed };
};

/** Airbyte: the records of all attempts; the stream's status tells that it is complete (Airbyte protocol, TRACE). */
export const airbyteMessages: Look = async (out, document) => {
  const listed: Found[] = [];
  let complete = false;
  for (const file of await files(out, /^messages-\d+\.jsonl$/)) {
    for await (const message of lines(file)) {
      if (message === undefined) listed.push('torn');
      if (message?.type === 'RECORD') listed.push(airbyteFound((message.record as { data: Row }).data, document));
      if (message?.type === 'TRACE') complete ||= JSON.stringify(message).includes('"status":"COMPLETE"');
    }
  }
  return { listed, published: complete ? listed : [] };
};

/** The page as text or, behind the XmlDecoder, as what it was parsed into: then its number and its reports must be there. */
function airbyteFound({ xml, reports }: Row, document: PageDocument): Found {
  if (reports === undefined) return asFound(xml, document);
  const { '@page': page, report } = reports as { readonly '@page'?: string; readonly report?: readonly unknown[] };
  return report?.length === document.reports ? Number(page) : 'torn';
}

type Row = Readonly<Record<string, unknown>>;

async function* lines(file: string): AsyncGenerator<Row | undefined> {
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    yield parsed(line);
  }
}

function parsed(line: string): Row | undefined {
  try {
    return JSON.parse(line) as Row;
  } catch {
    return undefined;
  }
}

/** Of a page without any report: it is no page of the walk. */
const nothing = 0;

async function pageFile(file: string, document: PageDocument): Promise<Found> {
  return asFound(await readFile(file, 'utf8'), document);
}

function asFound(text: unknown, document: PageDocument): Found {
  if (typeof text !== 'string') return 'torn';
  if (text.endsWith('<reports/>\n')) return nothing;
  const number = Number(/^[^\n]*\n<reports page="(\d{6})">\n/.exec(text)?.[1]);
  return Number.isInteger(number) && document.page(number).join('') === text ? number : 'torn';
}

/** Below `folder`, which need not be there. */
async function files(folder: string, name: RegExp): Promise<readonly string[]> {
  let entries: readonly Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true, recursive: true });
  } catch {
    return [];
  }
  return entries
    .filter((entry) => entry.isFile() && name.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
