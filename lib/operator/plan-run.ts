/** What the next start would do, without doing it: the same decision that BeginRun makes, with its reason. */

import { isExportError } from '../core/errors.ts';
import {
  type Cursor,
  type ExportRequest,
  emptyState,
  type Instant,
  type PageEntry,
  type Run,
  type RunId,
} from '../core/model.ts';
import type { StepDependencies, StoreReader } from '../core/ports.ts';
import { decide } from '../core/steps/begin-run.ts';
import type { StartInput } from '../core/steps/start-input.ts';
import { pageKey } from '../core/storage/keys.ts';

export type Plan =
  | { readonly act: 'skip'; readonly reason: string }
  /** The start would fail. `reason` says why, and what to do. */
  | { readonly act: 'refuse'; readonly reason: string }
  | {
      readonly act: 'start';
      readonly since: Instant;
      readonly reason: string;
      /** The unfinished run that the start would abandon. */
      readonly abandons: RunId | null;
      readonly request: ExportRequest;
    }
  | {
      readonly act: 'resume';
      readonly run: RunId;
      readonly since: Instant;
      readonly reason: string;
      /** The page to request next; null if all pages are stored and the run only has to be published. */
      readonly page: number | null;
      readonly cursor: Cursor | null;
      readonly request: ExportRequest;
    };

type PlanDependencies = Pick<StepDependencies, 'definition' | 'log' | 'executions' | 'runtime'> & {
  readonly store: Pick<StoreReader, 'find'>;
};

/** A placeholder for the execution that a start would have. No execution has this name. */
const plannedExecution = 'plan';

/** Only reads. `input` is the start input to plan for. */
export async function planRun(deps: PlanDependencies, input: StartInput = {}): Promise<Plan> {
  const { definition, log } = deps;
  const state = (await log.exportState(definition.name)) ?? emptyState(definition.name);
  try {
    const { result } = await decide(deps, state, input, plannedExecution);
    if (result.act === 'skip') return { act: 'skip', reason: result.reason };
    const { run, last } = result;
    const { since, request } = run;
    if (result.act === 'start') {
      return { act: 'start', since, reason: result.reason, abandons: state.active?.run ?? null, request };
    }
    const failure = state.active?.lastFailure;
    const { page, cursor, unlogged } = await findNextPage(deps, run, last);
    const ended = failure === undefined ? 'was interrupted' : `failed (${failure.error})`;
    const reason = `run ${run.run} ${ended} and is resumed${unloggedPages(unlogged)}`;
    return { act: 'resume', run: run.run, since, reason, page, cursor, request };
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError') && !isExportError(error, 'PageConflictError')) throw error;
    return { act: 'refuse', reason: error.message };
  }
}

function unloggedPages(count: number): string {
  if (count === 0) return '';
  return count === 1
    ? '; 1 page after its log is stored already and only has to be logged'
    : `; ${count} pages after its log are stored already and only have to be logged`;
}

interface NextPage {
  readonly page: number | null;
  readonly cursor: Cursor | null;
  /** How many pages before it are stored, but not logged. */
  readonly unlogged: number;
}

/** The page to request next: the first one after the log that no earlier attempt has stored. */
async function findNextPage({ store }: PlanDependencies, run: Run, last: PageEntry | undefined): Promise<NextPage> {
  let page = last?.page ?? 0;
  let cursor = last?.nextCursor ?? null;
  let unlogged = 0;
  while (page === 0 || cursor !== null) {
    page += 1;
    const stored = await store.find(pageKey(run, page));
    // If only the hash of its next cursor is stored, the page is requested again.
    if (stored === undefined || (stored.nextCursor !== null && typeof stored.nextCursor !== 'string')) {
      return { page, cursor, unlogged };
    }
    cursor = stored.nextCursor;
    unlogged += 1;
  }
  return { page: null, cursor: null, unlogged };
}
