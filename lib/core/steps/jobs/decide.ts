/**
 * Decides what happens to the job of a chain: a function of its record and of what the newest poll says.
 *
 * The record is written before each request that creates a job. So a process that ends at any moment leaves at most one
 * job without a use.
 */

import type { Instant, JobRecord, JobRules } from '../../model.ts';
import type { PolledJob } from '../../ports.ts';
import { epochMsOf, instantOf } from '../../timestamps.ts';

/** How long the process that sends the request is waited for: its job may exist, although no ID is recorded. */
const creationMs = 600_000;
/** After so many requests without a response, each of which may have created a job, the run fails. */
const maxUnanswered = 6;
/** The longest interval of polls, and the longest Retry-After of one. */
const maxPollWaitMs = 3_600_000;
/** A service may not know its own job for a moment. */
const unknownMs = 300_000;

export interface JobFacts extends Pick<JobRecord, 'run' | 'attempt' | 'execution'> {
  readonly rules: JobRules;
  readonly now: number;
}

export type JobDecision =
  | { readonly kind: 'create'; readonly unanswered: number }
  | { readonly kind: 'poll'; readonly record: JobRecord; readonly id: string }
  | { readonly kind: 'wait'; readonly until: Instant }
  | { readonly kind: 'ready'; readonly record: JobRecord; readonly id: string }
  | { readonly kind: 'fail'; readonly message: string };

/** The next step for the job of a pass. `recorded` may be that of an earlier pass. */
export function nextStep(recorded: JobRecord | undefined, facts: JobFacts): JobDecision {
  const record = recorded && recordOfPass(recorded, facts);
  if (record === undefined) return { kind: 'create', unanswered: 0 };
  const { id = '', pollAt, unanswered } = record;
  switch (record.phase) {
    case 'notCreated':
      return { kind: 'create', unanswered };
    case 'creating':
      return afterRequest(record, facts);
    case 'waiting':
      return pollAt !== undefined && isAhead(epochMsOf(pollAt), facts.now, maxPollWaitMs)
        ? { kind: 'wait', until: pollAt }
        : { kind: 'poll', record, id };
    case 'done':
      return { kind: 'ready', record, id };
    case 'failed':
      return record.execution === facts.execution
        ? { kind: 'fail', message: record.failure ?? '' }
        : { kind: 'poll', record, id };
  }
}

/** Whether a recorded time is still to come. One that is farther ahead than `maxMs` was written by a wrong clock. */
const isAhead = (time: number, now: number, maxMs: number): boolean => now < time && time <= now + maxMs;

/** The request that creates the job had no response, or another process is sending it. */
function afterRequest({ createdAt, unanswered, execution }: JobRecord, facts: JobFacts): JobDecision {
  const until = epochMsOf(createdAt) + creationMs;
  // The clock that wrote it may have been fast by up to `creationMs`.
  if (isAhead(until, facts.now, 2 * creationMs)) return { kind: 'wait', until: instantOf(until) };
  if (unanswered < maxUnanswered) return { kind: 'create', unanswered };
  return execution === facts.execution ? { kind: 'fail', message: noAnswer } : { kind: 'create', unanswered: 0 };
}

const noAnswer =
  `${maxUnanswered} requests to create a report job had no response, and each may have created one. ` +
  'The run stops here. The next start tries again';

/** The record, if it is of this pass, or if the pass before leaves its job to it. */
function recordOfPass(record: JobRecord, { run, attempt, execution }: JobFacts): JobRecord | undefined {
  if (record.run === run && record.attempt === attempt) return record;
  // A later start would want another period.
  const isKept = record.isKept === true && record.execution === execution;
  return isKept ? { ...record, run, attempt, isKept: undefined, wasMissing: undefined } : undefined;
}

export type AfterPoll =
  | { readonly kind: 'wait' | 'ready' | 'fail'; readonly record: JobRecord }
  /** The record stays: the end of the chain, its next pass or the next job is recorded. */
  | { readonly kind: 'empty' | 'create' | 'startOver' };

/** Decides what follows from a poll. A job that was given up before is waited for only if that was too soon. */
export function afterPoll(before: JobRecord, polled: PolledJob, facts: JobFacts): AfterPoll {
  const { everyMs = 0, withinMs = 0 } = facts.rules.poll ?? {};
  const record = recordOfPoll(before, polled, facts);
  const ageMs = facts.now - epochMsOf(record.createdAt);
  if (polled.kind === 'done') return { kind: 'ready', record: { ...record, phase: 'done', resultId: polled.resultId } };
  if (polled.kind === 'empty') return { kind: 'empty' };
  // The clock that gave the job up may have been wrong.
  const isTooSoon = polled.kind === 'waiting' && ageMs < withinMs;
  if (before.phase === 'failed' && !isTooSoon) return { kind: 'create' };
  if (polled.kind === 'failed') return giveUp(record, `is over without a result: its status is ${polled.status}`);
  if (polled.kind === 'unknown' && ageMs >= unknownMs) return { kind: 'startOver' };
  if (ageMs >= withinMs) {
    const minutes = Math.floor(ageMs / 60_000);
    return giveUp(
      record,
      `has the status ${polled.status} ${minutes} minutes after it was created (api.job.poll.within)`,
    );
  }
  const pollAt = instantOf(facts.now + Math.max(everyMs, polled.retryAfterMs ?? 0));
  return { kind: 'wait', record: { ...record, phase: 'waiting', pollAt } };
}

function recordOfPoll(before: JobRecord, { status }: PolledJob, { now, execution }: JobFacts): JobRecord {
  // A time in the future was written by a wrong clock.
  const createdAt = now < epochMsOf(before.createdAt) ? instantOf(now) : before.createdAt;
  const statusSince = status === before.status ? (before.statusSince ?? instantOf(now)) : instantOf(now);
  return { ...before, createdAt, execution, status, statusSince, failure: undefined };
}

function giveUp(record: JobRecord, problem: string): AfterPoll {
  const message = `Report job ${record.id} ${problem}. The run stops here. The next start polls it once more, and else creates another`;
  return { kind: 'fail', record: { ...record, phase: 'failed', failure: message } };
}
