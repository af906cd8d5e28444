/**
 * Decides what happens to the job of a chain: a function of its record and of what the newest response says.
 *
 * The record is written before each request that creates a job. So a process that ends at any moment leaves at most one
 * job without a use.
 */

import type { EndEntry, Instant, JobRecord, JobRules } from '../../model.ts';
import type { CreatedJob, PolledJob } from '../../ports.ts';
import type { ReadyJob } from '../../slots/page-requests.ts';
import { epochMsOf, instantOf } from '../../timestamps.ts';

/** How long to wait for the process that sends the request: the job may exist before its ID is recorded. */
const creationMs = 600_000;
/** After so many requests without a response, each of which may have created a job, the run fails. */
const maxUnanswered = 6;
/** The longest interval of polls, and the longest Retry-After of one. */
const maxPollWaitMs = 3_600_000;
/** How old a job may be while the service does not find it yet. */
const unknownMs = 300_000;

/** The attempt of a chain that needs a job, and the execution that walks it. */
export interface JobFacts extends Pick<JobRecord, 'run' | 'attempt' | 'execution'> {
  readonly rules: JobRules;
  readonly now: number;
}

/** The chain ends without a page. */
export interface NoResult extends Pick<EndEntry, 'kind' | 'reason' | 'status'> {
  readonly kind: 'end';
  /** As `ReadyJob`. Null: no job was created. */
  readonly asOf: Instant | null;
}

/** The record in a decision is written before the decision is carried out, unless it is the record that was read. */
export type JobDecision =
  | { readonly kind: 'create'; readonly unanswered: number }
  | { readonly kind: 'poll'; readonly id: string }
  | { readonly kind: 'wait'; readonly record: JobRecord; readonly until: Instant }
  | { readonly kind: 'ready'; readonly record: JobRecord; readonly job: ReadyJob }
  | { readonly kind: 'fail'; readonly record: JobRecord; readonly message: string }
  | { readonly kind: 'startOver' }
  | NoResult;

/** The next step for the job of an attempt. `recorded` may be of an earlier one. `polled`: what a poll has said. */
export function nextStep(recorded: JobRecord | undefined, facts: JobFacts, polled?: PolledJob): JobDecision {
  const record = recorded && recordOfAttempt(recorded, facts);
  if (record === undefined) return { kind: 'create', unanswered: 0 };
  if (polled !== undefined) return afterPoll(record, polled, facts);
  const { phase, id = '', pollAt, unanswered, failure: message = '' } = record;
  switch (phase) {
    case 'notCreated':
      return { kind: 'create', unanswered };
    case 'creating':
      return afterRequest(record, facts);
    case 'waiting':
      return pollAt !== undefined && isAhead(epochMsOf(pollAt), facts.now, maxPollWaitMs)
        ? { kind: 'wait', record, until: pollAt }
        : { kind: 'poll', id };
    case 'done':
      return ready(record);
    case 'failed':
      return record.execution === facts.execution ? { kind: 'fail', record, message } : { kind: 'poll', id };
  }
}

/** The record, if it is of this attempt, or if the attempt before leaves its job to this one. */
function recordOfAttempt(record: JobRecord, { run, attempt, execution }: JobFacts): JobRecord | undefined {
  if (record.run === run && record.attempt === attempt) return record;
  // A later start would want another period.
  const isKept = record.isKept === true && record.execution === execution;
  return isKept ? { ...record, run, attempt, isKept: undefined, wasMissing: undefined } : undefined;
}

/** Whether a recorded time is still to come. One that is farther ahead than `maxMs` was written by a wrong clock. */
const isAhead = (time: number, now: number, maxMs: number): boolean => now < time && time <= now + maxMs;

/** The request that creates the job had no response, or another process is sending it. */
function afterRequest(record: JobRecord, { execution, now }: JobFacts): JobDecision {
  const { createdAt, unanswered } = record;
  const until = epochMsOf(createdAt) + creationMs;
  // The clock that wrote it may have been fast by up to `creationMs`.
  if (isAhead(until, now, 2 * creationMs)) return { kind: 'wait', record, until: instantOf(until) };
  if (unanswered < maxUnanswered) return { kind: 'create', unanswered };
  return record.execution === execution
    ? { kind: 'fail', record, message: noAnswer }
    : { kind: 'create', unanswered: 0 };
}

const noAnswer =
  `${maxUnanswered} requests to create a report job had no response, and each may have created one. ` +
  'The run stops here. The next start tries again';

/** `announced` is the record from before the request. */
export function afterCreation(
  announced: JobRecord,
  { id, serviceTime }: CreatedJob,
  { rules: { poll }, now }: JobFacts,
): JobDecision {
  const { createdAt, asOf } = announced;
  const isEarlier = serviceTime !== null && epochMsOf(serviceTime) < epochMsOf(asOf);
  const record = {
    ...announced,
    id,
    asOf: isEarlier ? serviceTime : asOf,
    unanswered: 0,
    status: 'created',
    statusSince: createdAt,
  };
  return poll === undefined ? ready({ ...record, phase: 'done' }) : pollLater(record, now + poll.everyMs);
}

function afterPoll(before: JobRecord, polled: PolledJob, facts: JobFacts): JobDecision {
  const { rules, now } = facts;
  const { everyMs = 0, withinMs = 0 } = rules.poll ?? {};
  const record = recordOfPoll(before, polled, facts);
  if (polled.kind === 'done') return ready({ ...record, phase: 'done', resultId: polled.resultId });
  if (polled.kind === 'empty') return { kind: 'end', reason: 'empty', status: null, asOf: record.asOf };
  const ageMs = now - epochMsOf(record.createdAt);
  const isLost = polled.kind === 'unknown' && ageMs >= unknownMs;
  // Also after the job was given up: the clock may have been wrong then.
  const mayWait = polled.kind !== 'failed' && !isLost && ageMs < withinMs;
  if (mayWait) return pollLater(record, now + Math.max(everyMs, polled.retryAfterMs ?? 0));
  if (before.phase === 'failed') return { kind: 'create', unanswered: 0 };
  if (isLost) return { kind: 'startOver' };
  const problem =
    polled.kind === 'failed'
      ? `is over without a result: its status is ${polled.status}`
      : `has the status ${polled.status} ${Math.floor(ageMs / 60_000)} minutes after it was created (api.job.poll.within)`;
  const message = `Report job ${record.id} ${problem}. The run stops here. The next start polls it once more, and else creates another`;
  return { kind: 'fail', record: { ...record, phase: 'failed', failure: message }, message };
}

function recordOfPoll(before: JobRecord, { status }: PolledJob, { now, execution }: JobFacts): JobRecord {
  // A time in the future was written by a wrong clock.
  const createdAt = now < epochMsOf(before.createdAt) ? instantOf(now) : before.createdAt;
  const statusSince = status === before.status ? (before.statusSince ?? instantOf(now)) : instantOf(now);
  return { ...before, createdAt, execution, status, statusSince, failure: undefined };
}

function ready(record: JobRecord): JobDecision {
  const { id = '', resultId = id, asOf } = record;
  return { kind: 'ready', record, job: { id: resultId, asOf } };
}

function pollLater(record: JobRecord, at: number): JobDecision {
  const pollAt = instantOf(at);
  return { kind: 'wait', record: { ...record, phase: 'waiting', pollAt }, until: pollAt };
}
