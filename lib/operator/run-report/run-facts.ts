/** Reads what is known about a run as a whole, for its report. */

import type { ExportState, JsonObject } from '../../core/model.ts';
import type { DeployedExport } from '../../target/target.ts';
import type { RunStatus } from '../run-status.ts';
import { filterSince } from '../../core/filter.ts';
import { findManifest } from '../../core/storage/published-runs.ts';
import type { RunFacts } from './data.ts';

/** @throws PageConflictError if the manifest of the run was changed */
export async function readRunFacts(
  deployed: DeployedExport,
  exportState: ExportState | undefined,
  status: RunStatus,
): Promise<RunFacts> {
  const { store, name } = deployed;
  const { run, state, since, startedAt, completedAt, endedAt, manifest, folder, pages, reports, bytes } = status;
  const active = exportState?.active?.run === run ? exportState.active : undefined;
  const published = manifest === null ? undefined : await findManifest(store, manifest);
  // Only the header is needed; leaving the loop closes the file.
  if (published !== undefined) for await (const _ of published.pages) break;
  const request =
    active === undefined
      ? published?.header
      : { ...active.request, filter: filterSince(active.request.filter, active.since) };
  const lastResult = exportState?.lastCompleted?.result;
  return {
    export: name,
    run,
    state,
    since: since ?? (lastResult?.run === run ? lastResult.since : null),
    watermark: lastResult?.run === run ? lastResult.watermark : null,
    startedAt,
    completedAt,
    abandonedAt: state === 'abandoned' ? endedAt : null,
    manifest: manifest === null ? null : store.locate(manifest),
    folder: store.locate(folder),
    source: request?.source ?? null,
    filter: (request?.filter as JsonObject | undefined) ?? null,
    format: request?.format ?? null,
    container: request?.container ?? null,
    size: request?.size ?? null,
    // Reading the schedule needs a permission of its own.
    next: await deployed.nextStart().catch(() => null),
    sincePolicy: deployed.definition.since,
    totals: { pages, reports, bytes },
    failure: active?.lastFailure ?? null,
  };
}
