/**
 * Finds windows that are published although their states do not say so: the state was lost, or restored from an older copy. Exported
 * again, their reports would be published twice.
 */

import { isDeepStrictEqual } from 'node:util';
import { mapConcurrently } from '../core/concurrency.ts';
import { emptyState, type ExportDefinition, type ExportState } from '../core/model.ts';
import { filterOf } from '../core/filter.ts';
import { type DocumentReader, findManifest, missingManifest } from '../core/storage/published-runs.ts';
import type { WindowSummary } from '../core/storage/published-schemas.ts';
import { listPublishedWindows } from '../core/storage/run-list.ts';
import { windowDefinition, windowRequestChecksum } from './window-definition.ts';
import { windowName } from './windows.ts';

export interface LostWindowsDependencies {
  readonly store: DocumentReader;
  readonly definition: ExportDefinition;
  /** The operator of the upper bound of a window: `lt`. Undefined: the service has none. */
  readonly untilOperator: string | undefined;
}

const concurrency = 16;

/**
 * The states that these windows had when they were published, each in the version after the one in `states`. Reads the `window.json` of
 * every run that is in none of `states`.
 * @throws PageConflictError if a `window.json` was changed, or a manifest was changed or deleted
 */
export async function findLostWindows(
  deps: LostWindowsDependencies,
  states: ReadonlyMap<string, ExportState>,
): Promise<readonly ExportState[]> {
  const { store, definition } = deps;
  const known = new Set([...states.values()].map(({ lastCompleted }) => lastCompleted?.result.run));
  const lost = new Map<string, WindowSummary>();
  // Of a window that was exported again, the run with the higher sequence comes last, and counts.
  for await (const summary of listPublishedWindows(store, definition.name, (run) => !known.has(run))) {
    const name = windowName(definition.name, summary);
    const { active, lastCompleted } = states.get(name) ?? {};
    // A run that has begun to be published completes by itself, and announces that.
    if (lastCompleted === undefined && active?.completion === undefined) lost.set(name, summary);
  }
  return await mapConcurrently([...lost], concurrency, async ([name, summary]) => {
    const { active: _, ...idle } = states.get(name) ?? emptyState(name);
    return await completedState(deps, idle, summary);
  });
}

async function completedState(
  deps: LostWindowsDependencies,
  state: ExportState,
  summary: WindowSummary,
): Promise<ExportState> {
  const { run, since, until, pages, reports, bytes, manifest, sequence, completedAt } = summary;
  return {
    ...state,
    version: state.version + 1,
    sequence: Math.max(state.sequence, sequence),
    lastCompleted: {
      // No execution has this name, so none takes the run for its own.
      execution: 'unknown',
      completedAt,
      result: { export: summary.export, run, since, until, watermark: null, pages, reports, bytes, manifest },
    },
    plan: { id: 0, ...state.plan, requestChecksum: await requestChecksum(deps, summary) },
  };
}

/** That of the window with the current settings; another one if its manifest shows that it was exported with others. */
async function requestChecksum(
  { store, definition, untilOperator }: LostWindowsDependencies,
  window: WindowSummary,
): Promise<string> {
  const found = await findManifest(store, window.manifest);
  if (found === undefined) throw missingManifest(store.locate(window.manifest));
  // Only the header is needed; leaving the loop closes the file.
  for await (const _ of found.pages) break;
  const { source, filter, format, container, api } = found.header;
  const { request } = windowDefinition(definition, window, untilOperator);
  const current = {
    source: request.source,
    filter: filterOf(request, window.since),
    format: request.format,
    container: request.container,
    // Only manifests of described APIs have it.
    requestSha256: request.api.pagination && request.api.requestSha256,
  };
  const requestSha256 = api?.requestSha256;
  const isSame = isDeepStrictEqual({ source, filter, format, container, requestSha256 }, current);
  return isSame ? windowRequestChecksum(definition, untilOperator) : 'unknown';
}
