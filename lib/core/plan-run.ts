/** What a start would do, without doing it: the very decision that BeginRun makes, with its reason. */

import { decide } from './begin-run.ts';
import { isExportError } from './errors.ts';
import type { ExportRequest, Instant, RunId } from './model.ts';
import type { StepNeeds } from './ports.ts';
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

/** No execution's name. */
const nobody = 'plan';

/** Reads, and changes nothing. `input` is what the start would be given. */
export async function planRun(
  needs: Pick<StepNeeds, 'definition' | 'log' | 'executions' | 'surroundings'>,
  input: StartInput = {},
): Promise<Plan> {
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
    const isWalked = last !== undefined && last.nextCursor === null;
    return {
      act,
      run: run.run,
      since,
      because: `run ${run.run} ${why}, and goes on where it stopped`,
      page: isWalked ? null : (last?.page ?? 0) + 1,
      cursor: last?.nextCursor ?? null,
      request,
    };
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return { act: 'refuse', because: error.message };
  }
}
