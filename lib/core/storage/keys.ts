/**
 * The keys of stored objects, and the IDs of runs (docs/consumers.md). Consumers depend on these keys, so changing one
 * is a breaking change.
 */

import { ExportError } from '../errors.ts';
import {
  asRunId,
  type ExportRequest,
  type Instant,
  type PageEntry,
  type Run,
  type RunId,
  type RunResult,
  runIdPattern,
  type SliceRef,
} from '../model.ts';
import { toPrintable, truncate } from '../sanitize.ts';
import { instantOf } from '../timestamps.ts';

/** The parts of a run that determine its folder. */
type RunLocation = Pick<Run, 'export' | 'run' | 'startedAt'>;

/** The parts of a run that determine the keys of its pages. */
export type RunKeyParts = RunLocation &
  Pick<Run, 'compression'> & { readonly request: Pick<ExportRequest, 'format' | 'container'> };

/** `reports/date=2026-11-20/run=20261120T020000Z-1f3a5cb2d407`. The date is the day on which the run began. */
export function runFolder(run: RunLocation): string {
  return `${runsPrefix(run.export)}${run.startedAt.slice(0, 10)}/run=${run.run}`;
}

/** The beginning of the keys of all pages and manifests of an export, and of no other key. */
export function runsPrefix(exportName: string): string {
  return `${exportName}/date=`;
}

/** Matches every key in the folder of a run, with any prefix, in a policy of AWS: `*` is any text with slashes. */
export const runObjectsPattern = '*/date=*/run=*/*';

/** A page of a run: its number within the slice, and the slice and its parent, if the run has them. */
export type PageRef = SliceRef & Pick<PageEntry, 'page' | 'parent'>;

/**
 * `…/page-000001.xml`, or `…/page-000001.xml.gz`; of slice 3 of several
 * `…/page-000003-000001.xml`, and of its second attempt `…/page-000003.2-000001.xml`. Six digits keep keys in page
 * order up to a million pages; beyond that, the manifest does.
 */
export function pageKey(run: RunKeyParts, { page, slice, attempt = 1 }: PageRef): string {
  const suffix = run.compression === undefined ? '' : '.gz';
  const ofSlice = slice === undefined ? '' : `${String(slice).padStart(6, '0')}${attempt === 1 ? '' : `.${attempt}`}-`;
  return `${runFolder(run)}/page-${ofSlice}${String(page).padStart(6, '0')}.${extensionOf(run.request)}${suffix}`;
}

/** For messages: `page 7`, `page 7 of slice 3`, or `page 7 of parent 3`. The value of a parent may be confidential. */
export const describePage = ({ page, slice, parent }: PageRef): string =>
  slice === undefined ? `page ${page}` : `page ${page} of ${parent === undefined ? 'slice' : 'parent'} ${slice}`;

/** The page of `run` that has the key `key`; undefined if no page has, for example because it is the manifest's. */
export function pageAt(run: RunKeyParts, key: string): PageRef | undefined {
  const [, slice, attempt = '1', number] = /\/page-(?:(\d{6})(?:\.(\d{1,6}))?-)?(\d{6,15})\.[^/]*$/.exec(key) ?? [];
  const page: PageRef =
    slice === undefined
      ? { page: Number(number) }
      : { page: Number(number), slice: Number(slice), attempt: Number(attempt) };
  return page.page > 0 && key === pageKey(run, page) ? page : undefined;
}

export function manifestKey(run: RunLocation): string {
  return `${runFolder(run)}/manifest.json`;
}

/**
 * The object that lists the parents without pages. A slice may start over before the run is published, so another list
 * has another key.
 */
export function missingParentsKey(run: RunLocation, sha256: string): string {
  return `${runFolder(run)}/missing-parents-${sha256.slice(0, 12)}.ndjson`;
}

/** The address of the run's manifest; null if the run is not published. */
export function manifestAddress(
  { manifest }: Pick<RunResult, 'manifest'>,
  store: { locate(key: string): string },
): string | null {
  return manifest === null ? null : store.locate(manifest);
}

/**
 * The object with the summary of a published run, for tables of runs. A bounded run has no `run.json`: such runs are
 * published in any order, and a consumer that reads runs in the order of their sequence would miss some.
 */
export function summaryKey(run: RunLocation & Pick<Run, 'bounded'>): string {
  return `${runFolder(run)}/${run.bounded ? 'bounded' : 'run'}.json`;
}

/** The manifest's key of a run of which only the ID is known. @throws ConfigurationError if `run` is not a run ID */
export function manifestKeyFromRunId(exportName: string, run: string): string {
  return manifestKey(runLocation(exportName, parseRunId(run)));
}

export function latestKey(exportName: string): string {
  return `${exportName}/latest.json`;
}

/** `xml` for XML in the container NONE. Otherwise the container determines the extension, or else the format. */
function extensionOf({ format, container }: RunKeyParts['request']): string {
  const name = container === 'NONE' ? format : container;
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '') || 'bin';
}

/** A part of the plan of a run. No reader of runs lists this folder. */
export const planKey = (exportName: string, sha256: string): string => `${exportName}/_plans/${sha256}.jsonl`;

export function createRunId(epochMs: number, randomHex: string): RunId {
  const compact = instantOf(epochMs)
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(/[-:]/g, '');
  return asRunId(`${compact}-${randomHex}`);
}

/** @throws ConfigurationError if `text` is not a run ID */
export function parseRunId(text: string): RunId {
  if (runIdPattern.test(text)) return asRunId(text);
  throw new ExportError(
    'ConfigurationError',
    `Invalid run ID: ${JSON.stringify(truncate(toPrintable(text), 60))}. A run ID looks like 20261120T020000Z-1f3a5cb2d407; status lists them`,
  );
}

/** The second in which the run began, which its ID starts with. */
export function startOf(run: RunId): Instant {
  return run.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-.*$/, '$1-$2-$3T$4:$5:$6Z') as Instant;
}

/** The location of a run of which only the ID is known. */
export function runLocation(exportName: string, run: RunId): RunLocation {
  return { export: exportName, run, startedAt: startOf(run) };
}
