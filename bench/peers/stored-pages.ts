/**
 * What a reader finds on disk, by the same rules for every contender: each page is exactly as it was served, or torn. `listed` is
 * what a listing of the output shows; `published` is what a reader takes who respects the contender's documented mark of
 * completion.
 */

import { createReadStream, type Dirent, existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { PageDocument } from '../harness/page-document.ts';

/** The number of a page, or `torn` if it differs from the page that was served. */
export type FoundPage = number | 'torn';

interface Output {
  readonly listed: readonly FoundPage[];
  /** undefined: nothing tells a reader what is complete. */
  readonly published?: readonly FoundPage[];
}

export type OutputReader = (out: string, document: PageDocument) => Promise<Output>;

/** One file per page. */
export const readPageFiles: OutputReader = async (out, document) => ({
  listed: await Promise.all((await filesIn(out, /^page-\d+\.xml$/)).map((file) => readPageFile(file, document))),
});

interface Manifest {
  readonly pages: readonly { readonly key: string }[];
  readonly totals: { readonly reports: number };
}

/** report-exporter: the manifests list what is published (docs/consumers.md). */
export const readManifests: OutputReader = async (out, document) => {
  const published: FoundPage[] = [];
  for (const file of await filesIn(out, /^manifest\.json$/)) {
    const { pages, totals } = JSON.parse(await readFile(file, 'utf8')) as Manifest;
    // The run after one that was killed after its manifest was written: it requests later reports, and there are none.
    if (totals.reports === 0) continue;
    const existing = pages.filter(({ key }) => existsSync(join(out, key)));
    published.push(...(await Promise.all(existing.map(({ key }) => readPageFile(join(out, key), document)))));
  }
  const { listed } = await readPageFiles(out, document);
  return { listed: listed.filter((found) => found !== emptyPage), published };
};

/** dlt: rows of the loads in `_dlt_loads` (dlthub.com/docs/general-usage/destination-tables). */
export const readDltLoads: OutputReader = async (out, document) => {
  const loads = new Set<unknown>();
  for (const file of await filesIn(out, /^reports__.*\.jsonl$/)) {
    if (!file.includes('/_dlt_loads/')) continue;
    for await (const row of readRows(file)) if (row?.status === 0) loads.add(row.load_id);
  }
  const listed: FoundPage[] = [];
  const published: FoundPage[] = [];
  for (const file of await filesIn(join(out, 'lake', 'export', 'pages'), /\.jsonl$/)) {
    for await (const row of readRows(file)) {
      const found = identifyPage(row?.xml, document);
      listed.push(found);
      if (loads.has(row?._dlt_load_id)) published.push(found);
    }
  }
  return { listed, published };
};

/** target-jsonl: one file per start, and nothing tells which of them is complete. */
export const readSingerRecords: OutputReader = async (out, document) => {
  const listed: FoundPage[] = [];
  for (const file of await filesIn(out, /^pages-.*\.jsonl$/)) {
    for await (const row of readRows(file)) listed.push(identifyPage(row?.xml, document));
  }
  return { listed };
};

/** Airbyte: the records of all attempts. The status of the stream tells that it is complete (Airbyte protocol, TRACE). */
export const readAirbyteMessages: OutputReader = async (out, document) => {
  const listed: FoundPage[] = [];
  let isComplete = false;
  for (const file of await filesIn(out, /^messages-\d+\.jsonl$/)) {
    for await (const message of readRows(file)) {
      if (message === undefined) listed.push('torn');
      if (message?.type === 'RECORD') listed.push(identifyRecord((message.record as { data: Row }).data, document));
      if (message?.type === 'TRACE') isComplete ||= JSON.stringify(message).includes('"status":"COMPLETE"');
    }
  }
  return { listed, published: isComplete ? listed : [] };
};

/** A page as text, or as the XmlDecoder parsed it: then its number and all of its reports must be there. */
function identifyRecord({ xml, reports }: Row, document: PageDocument): FoundPage {
  if (reports === undefined) return identifyPage(xml, document);
  const { '@page': page, report } = reports as { readonly '@page'?: string; readonly report?: readonly unknown[] };
  return report?.length === document.reports ? Number(page) : 'torn';
}

/** The number of a page without reports, which is not part of the export. */
const emptyPage = 0;

async function readPageFile(file: string, document: PageDocument): Promise<FoundPage> {
  return identifyPage(await readFile(file, 'utf8'), document);
}

function identifyPage(text: unknown, document: PageDocument): FoundPage {
  if (typeof text !== 'string') return 'torn';
  if (text.endsWith('<reports/>\n')) return emptyPage;
  const number = Number(/^[^\n]*\n<reports page="(\d{6})">\n/.exec(text)?.[1]);
  return Number.isInteger(number) && document.page(number).join('') === text ? number : 'torn';
}

type Row = Readonly<Record<string, unknown>>;

/** The lines of a JSONL file; undefined for a line that is not JSON. */
async function* readRows(file: string): AsyncGenerator<Row | undefined> {
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    yield parseRow(line);
  }
}

function parseRow(line: string): Row | undefined {
  try {
    return JSON.parse(line) as Row;
  } catch {
    return undefined;
  }
}

/** The files below `folder` with a matching name; none if the folder does not exist. */
async function filesIn(folder: string, name: RegExp): Promise<readonly string[]> {
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
