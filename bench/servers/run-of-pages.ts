/** The items and the keys of a run of any number of pages, derived from the numbers of its pages. */

import { createHash } from 'node:crypto';
import { type Item, toEntryItem, toStateItem } from '../../lib/aws/dynamodb/items.ts';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import { asCursor, asRunId, type ExportState, type Instant, type PageEntry, type Run } from '../../lib/core/model.ts';
import { pageKey } from '../../lib/core/storage/keys.ts';
import { reportExportService } from '../../lib/service/api/report-export-service.ts';
import { apiOfRequest } from '../../lib/settings/settings.ts';

export const serviceName = 'bench';
const execution = 'arn:aws:states:us-east-1:123456789012:execution:Bench:measured';
const startedAt = '2026-11-20T02:00:00Z' as Instant;
const bytesPerPage = 100_000;
const reportsPerPage = 100;

/** The execution that finishes it also began it. */
export const run: Run = {
  export: 'reports',
  run: asRunId('20261120T020000Z-1f3a5cb2d407'),
  sequence: 1,
  since: '2026-11-19T02:00:00Z' as Instant,
  request: {
    source: 'http://127.0.0.1',
    filter: {},
    format: 'XML',
    container: 'NONE',
    reportsAt: { kind: 'xml', path: '/*/*' },
    api: apiOfRequest(reportExportService({})),
  },
  lagMs: 0,
  startedAt,
  startedBy: execution,
  execution,
  executionNumber: 1,
};

/** The properties that only a run in slices has. */
export type SlicedRun = Pick<Run, 'since' | 'until' | 'request' | 'slices'>;

export function stateItem(slicedRun?: SlicedRun): Item {
  const state: ExportState = { export: run.export, version: 1, sequence: 1, active: { ...run, ...slicedRun } };
  return toStateItem(serviceName, state);
}

export function entryItem(page: number, pages: number): Item {
  const entry: PageEntry = {
    kind: 'page',
    export: run.export,
    run: run.run,
    page,
    key: keyOf(page),
    bytes: bytesPerPage,
    sha256: createHash('sha256').update(`${page}`).digest('hex'),
    revision: revisionOf(page),
    reports: reportsPerPage,
    documentRoot: asDocumentRoot('reports'),
    cursor: page === 1 ? null : cursorAfter(page - 1),
    nextCursor: page === pages ? null : cursorAfter(page),
    serviceTime: startedAt,
    loggedAt: startedAt,
    timing: { requestedAt: startedAt, latencyMs: 400 },
    totals: { reports: page * reportsPerPage, bytes: page * bytesPerPage },
    cycle: page === pages ? null : { tortoise: cursorAfter(1), power: 2 ** 20, steps: page },
    repeats: false,
    emptyPages: 0,
    equalPages: 1,
  };
  return toEntryItem(serviceName, entry, 1_800_000_000);
}

const cursorAfter = (page: number) => asCursor(`${1_763_000_000_000 + page},550e8400-e29b-41d4-a716-446655440000`);

const revisionOf = (page: number): string => page.toString(16).padStart(32, '0');

const keyOf = (page: number): string => pageKey(run, { page });

/** An element of a listing. */
export function listedPage(page: number): string {
  const etag = `<ETag>&quot;${revisionOf(page)}&quot;</ETag><ChecksumAlgorithm>SHA256</ChecksumAlgorithm>`;
  return (
    `<Contents><Key>${keyOf(page)}</Key><LastModified>2026-11-20T02:00:00.000Z</LastModified>${etag}` +
    `<Size>${bytesPerPage}</Size><StorageClass>STANDARD</StorageClass></Contents>`
  );
}

/** The page at a position in the order of keys, from 0: the millionth page follows page 100,000. */
export function pageAtPosition(position: number, pages: number): number {
  const last = 1_000_000;
  if (pages < last || position < 100_000) return position + 1;
  return position === 100_000 ? last : position;
}
