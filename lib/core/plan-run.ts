/** What a start would do, without doing it: the very decision that BeginRun makes, with its reason. */

import { decide } from './begin-run.ts';
import { isExportError } from './errors.ts';
import { pageKey } from './layout.ts';
import type { ExportRequest, Instant, PageEntry, Run, RunId } from './model.ts';
import type { StepNeeds, StoreReader } from './ports.ts';
import { sinceOf } from './since.ts';
import type { StartInput } from './start-input.ts';

export type Plan =
  | { readonly act: 'skip'; readonly because: string }
  /** A start would fail; `because` says why, and what to do. */
  | { readonly act: 'refuse'; readonly because: string }
  | {
      readonly act: 'start';
      readonly since: Instant;
      readonly because: string;
      /** The unfinished run that would be given up for it. */
      readonly abandons: RunId | null;
      readonly request: ExportRequest;
    }
  | {
      readonly act: 'resume';
      readonly run: RunId;
      readonly since: Instant;
      readonly because: string;
      /** The page to ask for next; null where all are stored and the run only has to be published. */
      readonly page: number | null;
      readonly cursor: string | null;
      readonly request: ExportRequest;
    };

type PlanNeeds = Pick<StepNeeds, 'definition' | 'log' | 'executions' | 'surroundings'> & {
  readonly store: Pick<StoreReader, 'find'>;
};

/** No execution's name. */
const nobody = 'plan';

/** Reads, and changes nothing. `input` is what the start would be given. */
export async function planRun(needs: PlanNeeds, input: StartInput = {}): Promise<Plan> {
  const { definition, log, surroundings } = needs;
  const head = (await log.head(definition.name)) ?? { export: definition.name, version: 0, sequence: 0 };
  try {
    const { result } = await decide(needs, head, input, nobody);
    if (result.act === 'skip') return { act: 'skip', because: result.reason };
    const { act, run, last } = result;
    const { since, request } = run;
    if (act === 'start') {
      const { because } = sinceOf(definition, head, input, surroundings.now());
      return { act, since, because, abandons: head.active?.run ?? null, request };
    }
    const failure = head.active?.lastFailure;
    const why = failure === undefined ? 'was cut off' : `failed (${failure.error})`;
    const { page, cursor, isStored } = await nextPage(needs, run, last);
    const stored = isStored ? '; the page behind its log is stored already, and only has to be logged' : '';
    return {
      act,
      run: run.run,
      since,
      because: `run ${run.run} ${why}, and goes on where it stopped${stored}`,
      page,
      cursor,
      request,
    };
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError') && !isExportError(error, 'PageConflictError')) throw error;
    return { act: 'refuse', because: error.message };
  }
}

/** The page that is asked for next: a former attempt may have stored the one behind the log, and then it is the one after. */
async function nextPage({ store }: PlanNeeds, run: Run, last: PageEntry | undefined) {
  if (last !== undefined && last.nextCursor === null) return { page: null, cursor: null, isStored: false };
  const page = (last?.page ?? 0) + 1;
  const found = await store.find(pageKey(run, page));
  if (found?.nextCursor === null) return { page: null, cursor: null, isStored: true };
  // A long cursor lies there as its hash alone, so the page is asked for again.
  if (typeof found?.nextCursor === 'string') return { page: page + 1, cursor: found.nextCursor, isStored: true };
  return { page, cursor: last?.nextCursor ?? null, isStored: false };
}
