/**
 * The ways in which an iteration of the loop ends, and the delays of its pages.
 *
 * A log entry says what delayed its page: the number of failed attempts, and the seconds that the run waited. Until a
 * page is logged, the failed attempts are in the retry count of the step, and the seconds in the state of the loop. The
 * next page that is logged takes both, so each delay is in one entry at most.
 */

import { ExportError } from '../errors.ts';
import {
  type Delays,
  type ExportDefinition,
  type Invocation,
  type LoopState,
  type PageEntry,
  refOf,
  type Run,
} from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import type { NotYet } from '../slots/held-slot.ts';
import { capitalize } from '../sanitize.ts';
import { describePage } from '../storage/keys.ts';
import { maxEqualPages } from './repeated-cursors.ts';

export type ExportPageOutcome =
  | ({ readonly next: 'page' | 'continue' | 'finish' } & LoopState)
  | ({ readonly next: 'wait' | 'queue'; readonly waitSeconds: number } & LoopState);

/**
 * The outcome of an iteration that ends in a long Retry-After: the Wait state, then the same page.
 * @throws RequestRejectedError if the wait, or the number of consecutive waits, exceeds the settings
 */
export function waitOutcome(
  { definition: { limits }, emit }: Pick<StepDependencies, 'definition' | 'emit'>,
  run: Run,
  loop: LoopState,
  { backoffSeconds, cause }: { readonly backoffSeconds: number; readonly cause: unknown },
): ExportPageOutcome {
  const waitSeconds = Math.max(1, Math.ceil(backoffSeconds));
  const tooLong = waitSeconds > limits.maxRetryAfterSeconds;
  if (tooLong || loop.waits >= limits.maxConsecutiveWaits) {
    const reason = tooLong
      ? `which exceeds maxRetryAfter (${limits.maxRetryAfterSeconds} s)`
      : `which is one more than maxConsecutiveWaits (${limits.maxConsecutiveWaits}) without a page in between`;
    throw new ExportError(
      'RequestRejectedError',
      `Report service requested a wait of ${waitSeconds} s before page ${loop.page} of run ${run.run}, ${reason}. ` +
        'The run stops here. The next start resumes it',
      { cause },
    );
  }
  emit({ event: 'service-asked-to-wait', ...refOf(run), page: loop.page, seconds: waitSeconds, inside: false });
  // Counts as two iterations: the Wait state adds two events to an execution history of limited length.
  const delays = addDelays(loop.delays, { waitedSeconds: waitSeconds });
  return { next: 'wait', ...loop, iterations: loop.iterations + 2, waits: loop.waits + 1, waitSeconds, delays };
}

/** The shortest wait for a turn whose time is unknown. */
const minTurnWaitSeconds = 10;
/** Each wait is up to this much longer, at random, so that exports do not poll at the same time. */
const turnWaitSpreadSeconds = 20;

/**
 * The outcome of an iteration whose next request has to wait for its turn. Counts as two iterations, as a Wait state
 * adds two events.
 */
export function queueOutcome(
  { emit, runtime }: Pick<StepDependencies, 'emit' | 'runtime'>,
  run: Run,
  { loop, turn }: { readonly loop: LoopState; readonly turn: NotYet },
): ExportPageOutcome {
  const minSeconds = Math.ceil(turn.seconds ?? minTurnWaitSeconds);
  const waitSeconds = minSeconds + (Number.parseInt(runtime.randomHex(4), 16) % turnWaitSpreadSeconds);
  emit({ event: 'waiting-for-turn', ...refOf(run), page: loop.page, seconds: waitSeconds });
  return { next: 'queue', ...loop, iterations: loop.iterations + 2, waitSeconds };
}

/**
 * The outcome of an iteration after which every chain that is left waits for its job. Not counted by
 * `maxConsecutiveWaits`.
 */
export function parkedOutcome(
  { runtime }: Pick<StepDependencies, 'runtime'>,
  loop: LoopState,
  parkedUntil: number,
): ExportPageOutcome {
  const waitSeconds = Math.min(maxParkedSeconds, Math.max(1, Math.ceil((parkedUntil - runtime.now()) / 1_000)));
  return { next: 'wait', ...loop, iterations: loop.iterations + 2, waitSeconds };
}

/** A time that is farther ahead was written by a wrong clock. */
const maxParkedSeconds = 3_600;

/** @throws RepeatedCursorError if the pages of the slice repeat; ConfigurationError if `maxEmptyPages` is reached */
export function assertContinues({ limits, request }: ExportDefinition, entry: PageEntry): void {
  if (entry.repeats) {
    const page = `${capitalize(describePage(entry))} of run ${entry.run}`;
    const problem =
      entry.equalPages < maxEqualPages
        ? `${page} returned a cursor that this run has already used, so its pages repeat`
        : `${page} has the same reports as the ${maxEqualPages - 1} pages before it, although each was requested with another cursor. ` +
          'The service may ignore the cursor: check where it is sent (api.next.to)';
    throw new ExportError(
      'RepeatedCursorError',
      `${problem}. These pages are never published; the next start exports them again from the first one`,
    );
  }
  if (entry.emptyPages >= limits.maxEmptyPages) {
    const hint =
      request.api.pagination === undefined
        ? ''
        : 'The end of its pages may be described wrongly (api.last): if so, correct it and start with --restart. ';
    throw new ExportError(
      'ConfigurationError',
      `Run ${entry.run} reached the limit of ${limits.maxEmptyPages} consecutive pages without reports (maxEmptyPages), and the ` +
        `service has more. ${hint}If so many pages can be empty, raise maxEmptyPages and start again: the run resumes ` +
        'after its last page',
    );
  }
}

export const maxPagesError = ({ limits }: ExportDefinition, { run }: Pick<Run, 'run'>): ExportError =>
  new ExportError(
    'ConfigurationError',
    `Run ${run} reached the limit of ${limits.maxPages} pages (maxPages), and the service has more. ` +
      'Raise maxPages and start again: the run resumes after its last page',
  );

/** The delays that the next logged page takes; undefined if nothing has delayed it. */
export interface PendingDelays {
  current: Delays | undefined;
}

/**
 * The delays before this attempt. If an earlier attempt of the same step has logged pages (`hasProgressed`), their
 * entries have the earlier delays. Then only the last failed attempt is certainly in no entry.
 */
export function pendingDelays(
  { loop, retries = 0 }: Pick<Invocation, 'retries'> & { readonly loop: LoopState },
  hasProgressed: boolean,
): PendingDelays {
  const failedAttempts = hasProgressed ? Math.min(retries, 1) : retries;
  return { current: addDelays(hasProgressed ? undefined : loop.delays, { failedAttempts }) };
}

/** Undefined if the sum is zero. */
export function addDelays(one: Delays | undefined, other: Delays | undefined): Delays | undefined {
  const failedAttempts = (one?.failedAttempts ?? 0) + (other?.failedAttempts ?? 0);
  const waitedSeconds = (one?.waitedSeconds ?? 0) + (other?.waitedSeconds ?? 0);
  if (failedAttempts === 0 && waitedSeconds === 0) return undefined;
  return { ...(failedAttempts > 0 && { failedAttempts }), ...(waitedSeconds > 0 && { waitedSeconds }) };
}
