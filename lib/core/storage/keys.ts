/**
 * Where things lie in the store (design, "What lies in S3"), and how runs are named.
 * Readers downstream build on these keys, so a change here is a breaking change.
 */

import { ExportError } from '../errors.ts';
import { asRunId, type ExportRequest, type Run, type RunId } from '../model.ts';
import { toPrintable, truncate } from '../sanitize.ts';
import { instantOf } from '../timestamps.ts';

/** `reports/date=2026-11-20/run=20261120T020000Z-1f3a5c`: the day is that of the run's start. */
export function runFolder(run: Pick<Run, 'export' | 'run' | 'startedAt'>): string {
  return `${run.export}/date=${run.startedAt.slice(0, 10)}/run=${run.run}`;
}

/** `…/page-000001.xml`. Six digits keep keys in page order up to a million pages; the manifest keeps it beyond. */
export function pageKey(run: Pick<Run, 'export' | 'run' | 'startedAt' | 'request'>, page: number): string {
  return `${runFolder(run)}/page-${String(page).padStart(6, '0')}.${extensionOf(run.request)}`;
}

/** Which page of `run` lies at `key`; undefined where none can, as at a manifest. */
export function pageNumberAt(run: Parameters<typeof pageKey>[0], key: string): number | undefined {
  const page = Number(/\/page-(\d{6,15})\.[^/]*$/.exec(key)?.[1]);
  return page > 0 && key === pageKey(run, page) ? page : undefined;
}

export function manifestKey(run: Pick<Run, 'export' | 'run' | 'startedAt'>): string {
  return `${runFolder(run)}/manifest.json`;
}

/** The manifest of a run of which nothing but its name is known. @throws ConfigurationError where that is none */
export function manifestKeyFromRunId(exportName: string, run: string): string {
  const [, year, month, day] = /^(\d{4})(\d\d)(\d\d)T\d{6}Z-[0-9a-f]{6}$/.exec(run) ?? [];
  if (year === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `${JSON.stringify(truncate(toPrintable(run), 60))} is no run; runs are named like 20261120T020000Z-1f3a5c, and status lists them`,
    );
  }
  // A run is named and its folder dated by the same moment.
  return `${exportName}/date=${year}-${month}-${day}/run=${run}/manifest.json`;
}

export function latestKey(exportName: string): string {
  return `${exportName}/latest.json`;
}

/** XML in NONE is `xml`; otherwise the container names the file, or the format where there is none. */
function extensionOf({ format, container }: ExportRequest): string {
  const name = container === 'NONE' ? format : container;
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '') || 'bin';
}

export function createRunId(epochMs: number, randomHex: string): RunId {
  const compact = instantOf(epochMs)
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(/[-:]/g, '');
  return asRunId(`${compact}-${randomHex}`);
}
