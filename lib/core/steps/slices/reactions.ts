/** Decides what follows from the error of one chain: for that chain, for the others, and in the record of the run. */

import { type ErrorName, ExportError, isExportError } from '../../errors.ts';
import type { SetAsideSlice } from '../../model.ts';
import { shorten } from '../../sanitize.ts';
import { NotYet } from '../../slots/held-slot.ts';
import { Parked } from '../jobs/chain-job.ts';

/**
 * - `stop`: all chains end, as a person has to act, the execution does not own the run, or the process ends.
 * - `restart`: the chain begins again.
 * - `setAside`: the others continue.
 * - `outage`: as `setAside`. After several in a row, no further chain begins, as its first request would fail, too.
 * - `queue`: the chain ends for now, as its next request has to wait for its turn.
 * - `park`: the chain ends for now, as it has to wait for its job.
 */
export type Reaction = 'stop' | 'restart' | 'setAside' | 'outage' | 'queue' | 'park';

export interface ErrorFacts {
  /** Aborted with an ExportError if the time of the invocation is over, with another reason if the process ends. */
  readonly interruption: AbortSignal | undefined;
  /** Whether the run has fetched a page, so that its settings and credentials are right. */
  readonly hasFetched: boolean;
}

/** Any other error sets the chain aside. */
const reactions: Partial<Record<ErrorName, Reaction>> = {
  ConfigurationError: 'stop',
  PageConflictError: 'stop',
  RunSupersededError: 'stop',
  ServiceUnavailableError: 'outage',
  ServiceUnreachableError: 'outage',
  ServiceThrottledError: 'outage',
};

export function classify(error: unknown, { interruption, hasFetched }: ErrorFacts): Reaction {
  if (error instanceof NotYet) return 'queue';
  if (error instanceof Parked) return 'park';
  if (isExportError(error, 'CursorRejectedError')) return 'restart';
  const doesProcessEnd = interruption?.aborted === true && !isExportError(interruption.reason);
  if (doesProcessEnd) return 'stop';
  if (!isExportError(error)) return 'setAside';
  // The credentials are right, so one chain may be forbidden while the others are not.
  if (hasFetched && error.isForbidden === true) return 'setAside';
  return reactions[error.name] ?? 'setAside';
}

/** A chain that an error has ended for this invocation. The only chain of a run is slice 1. */
export interface StoppedChain {
  readonly slice: number;
  readonly error: unknown;
  readonly reaction: Reaction;
}

/** Whether the chain has failed. Otherwise it only has to wait. */
export const isFailure = ({ reaction }: Pick<StoppedChain, 'reaction'>): boolean =>
  reaction !== 'queue' && reaction !== 'park';

/** Once a run has fetched a page, its settings are right: what seemed to be a wrong address is an outage. */
export const asOutage = (error: unknown, hasFetched: boolean): unknown =>
  hasFetched && isExportError(error, 'ServiceUnreachableError')
    ? new ExportError('ServiceUnavailableError', error.message, { cause: error.cause })
    : error;

const maxMessageLength = 300;

/** The failure of a chain, as the progress of the run records it. */
export function describeFailure({ slice, error }: Pick<StoppedChain, 'slice' | 'error'>): SetAsideSlice {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const described = { slice, error: name, message: shorten(message, maxMessageLength).toWellFormed() };
  return isExportError(error) && error.isOtherRoot === true ? { ...described, isOtherRoot: true } : described;
}
