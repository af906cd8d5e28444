/** What a start would do, without doing it: the very decision that BeginRun makes, with its reason. */

import { isExportError } from '../errors.ts';
import type { Cursor, ExportRequest, Instant, PageEntry, Run, RunId } from '../model.ts';
import type { StepDependencies, StoreReader } from '../ports.ts';
import { decide } from '../steps/begin-run.ts';
import type { StartInput } from '../steps/start-input.ts';
import { chooseSince } from '../steps/watermark.ts';
import { pageKey } from '../storage/keys.ts';

export type Plan =
  | { readonly act: 'skip'; readonly reason: string }
  /** A start would fail; `because` says why, and what to do. */
  | { readonly act: 'refuse'; readonly reason: string }
  | {
      readonly act: 'start';
      readonly since: Instant;
      readonly reason: string;
      /** The unfinished run that would be given up for it. */
      readonly abandons: RunId | null;
      readonly request: ExportRequest;
    }
  | {
      readonly act: 'resume';
      readonly run: RunId;
      readonly since: Instant;
      readonly reason: string;
      /** The page to ask for next; null where all are stored and the run only has to be published. */
      readonly page: number | null;
      readonly cursor: Cursor | null;
      readonly request: ExportRequest;
    };

type PlanDependencies = Pick<StepDependencies, 'definition' | 'log' | 'executions' | 'runtime'> & {
  readonly store: Pick<StoreReader, 'find'>;
};

/** No execution's name. */
const nobody = 'plan';

/** Reads, and changes nothing. `input` is what the start would be given. */
export async function planRun(deps: PlanDependencies, input: StartInput = {}): Promise<Plan> {
  const { definition, log, runtime } = deps;
  const head = (await log.exportState(definition.name)) ?? { export: definition.name, version: 0, sequence: 0 };
  try {
    const { result } = await decide(deps, head, input, nobody);
    if (result.act === 'skip') return { act: 'skip', reason: result.reason };
    const { act, run, last } = result;
    const { since, request } = run;
    if (act === 'start') {
      const { reason } = chooseSince(definition, head, input, runtime.now());
      return { act, since, reason, abandons: head.active?.run ?? null, request };
    }
    const failure = head.active?.lastFailure;
    const why = failure === undefined ? 'was cut off' : `failed (${failure.error})`;
    const { page, cursor, stored } = await nextPage(deps, run, last);
    const storedAlready = [
      '',
      '; the page behind its log is stored already, and only has to be logged',
      `; ${stored} pages behind its log are stored already, and only have to be logged`,
    ][Math.min(stored, 2)];
    return {
      act,
      run: run.run,
      since,
      reason: `run ${run.run} ${why}, and goes on where it stopped${storedAlready}`,
      page,
      cursor,
      request,
    };
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError') && !isExportError(error, 'PageConflictError')) throw error;
    return { act: 'refuse', reason: error.message };
  }
}

/** The page that is asked for next: former attempts may have stored some behind the log, and then it is the one after. */
async function nextPage({ store }: PlanDependencies, run: Run, last: PageEntry | undefined): Promise<NextPage> {
  let page = last?.page ?? 0;
  let cursor = last?.nextCursor ?? null;
  let stored = 0;
  while (page === 0 || cursor !== null) {
    page += 1;
    const found = await store.find(pageKey(run, page));
    // A long cursor lies there as its hash alone, so the page is asked for again.
    if (found === undefined || (found.nextCursor !== null && typeof found.nextCursor !== 'string')) {
      return { page, cursor, stored };
    }
    cursor = found.nextCursor;
    stored += 1;
  }
  return { page: null, cursor: null, stored };
}

interface NextPage {
  readonly page: number | null;
  readonly cursor: Cursor | null;
  /** Pages that are stored already, and only have to be logged. */
  readonly stored: number;
}
