/**
 * The job of a chain: creates it, polls it, and lets the chain begin once its result is there. Until then the chain is
 * parked: it ends for this invocation, and the run continues after a Wait state, without a function that waits.
 *
 * The order of writes: `creating` before the request that creates the job, its ID before the first poll. Each replaces
 * the record as it was read, so only one of two processes continues.
 */

import { stateNameOfRun } from '../../bounded-runs.ts';
import { ExportError, isExportError, type ErrorName } from '../../errors.ts';
import { type JobRecord, type PageEntry, refOf } from '../../model.ts';
import type { JobService, PageRequest, SharedRecord, StepDependencies, Versioned } from '../../ports.ts';
import { numberOf, shownNumber } from '../../slices.ts';
import { describePage } from '../../storage/keys.ts';
import { epochMsOf, instantOf } from '../../timestamps.ts';
import { ownedRun } from '../export-state.ts';
import {
  type Chain,
  type PageRequestsDependencies,
  type ReadyJob,
  requestOf,
  type RequestLimits,
  withLimits,
} from '../../slots/page-requests.ts';
import { AnotherPass } from '../passes.ts';
import { afterCreation, type JobDecision, type JobFacts, nextStep, type NoResult } from './decide.ts';

type JobDependencies = PageRequestsDependencies & Pick<StepDependencies, 'log'>;

interface JobLimits extends RequestLimits {
  readonly execution: string;
  /** Aborts what is in flight if the process is interrupted. `signal` does that, too, and also if the run stops. */
  readonly interruption: AbortSignal | undefined;
  readonly signal: AbortSignal;
}

/** The chain cannot go on before this time. Other chains of the run can. */
export class Parked extends Error {
  readonly until: number;
  constructor(until: number) {
    super('The chain waits for its report job');
    this.until = until;
  }
}

/** How long a chain is parked if another process has replaced its record, and so is about to create or poll the job. */
const contentionMs = 10_000;

/** The job that a chain needs, and what it takes to get it. */
interface NeededJob {
  readonly deps: JobDependencies;
  readonly chain: Chain;
  readonly limits: JobLimits;
  readonly jobs: JobService;
  readonly record: SharedRecord<JobRecord>;
  readonly facts: () => JobFacts;
}

/**
 * The job of the chain once it has a result, or why there is none.
 * @throws Parked while it is not over; RequestRejectedError if it has failed; CursorRejectedError if the chain has to
 *   start over with another job
 */
export async function chainJob(
  deps: JobDependencies,
  chain: Chain,
  last: PageEntry | undefined,
  limits: JobLimits,
): Promise<ReadyJob | NoResult> {
  const needed = neededJob(deps, chain, limits);
  const { record, facts, jobs } = needed;
  let read = await record.read();
  let next = nextStep(read.content, facts());
  for (;;) {
    // A chain with pages can only continue with the job that they are from: another job has other reports.
    const needsOtherJob = last !== undefined && !['ready', 'wait', 'poll'].includes(next.kind);
    if (needsOtherJob || next.kind === 'startOver') throw startOver(chain);
    if ('record' in next && next.record !== read.content) read = await write(needed, read, next.record);
    switch (next.kind) {
      case 'create':
        [read, next] = await create(needed, read, next.unanswered);
        break;
      case 'poll':
        next = nextStep(read.content, facts(), await send(needed, jobs.poll, { job: next.id }));
        break;
      case 'wait':
        throw parked(needed, next.record, epochMsOf(next.until));
      case 'ready':
        return next.job;
      case 'end':
        return next;
      case 'fail':
        throw new ExportError('RequestRejectedError', next.message);
    }
  }
}

/**
 * The service has refused a page of the result. The job is polled again, once; if the result is missing again, the
 * chain starts over. If only another pass is needed, it uses the same job: a later job has other reports.
 * @throws Parked, or `error`
 */
export async function afterRefusal(
  { log, runtime, definition }: JobDependencies,
  chain: Chain,
  error: unknown,
  execution: string,
): Promise<never> {
  if (!isExportError(error)) throw error;
  if (error.parkSeconds !== undefined) throw new Parked(runtime.now() + error.parkSeconds * 1_000);
  if (error.name !== 'CursorRejectedError') throw error;
  const record = recordOf(log, chain);
  const read = await record.read();
  const { content } = read;
  const { attempt = 1 } = chain.slice;
  const poll = definition.job?.poll;
  if (content?.run !== chain.run.run || content.attempt !== attempt) throw error;
  if (error.isOtherResult === true || error instanceof AnotherPass) {
    await record.replace(read, { ...content, execution, isKept: true });
    throw error;
  }
  if (poll === undefined || content.phase !== 'done' || content.wasMissing === true) throw error;
  const pollAt = runtime.now() + poll.everyMs;
  await record.replace(read, { ...content, phase: 'waiting', wasMissing: true, pollAt: instantOf(pollAt) });
  throw new Parked(pollAt);
}

const recordOf = (log: StepDependencies['log'], { run, slice }: Chain): SharedRecord<JobRecord> =>
  log.job(stateNameOfRun(run), numberOf(slice));

function neededJob(deps: JobDependencies, chain: Chain, limits: JobLimits): NeededJob {
  const { definition, service, log, runtime } = deps;
  const rules = definition.job;
  const { jobs } = service;
  if (rules === undefined || jobs === undefined) throw new Error('The description of the service has no job');
  const { run, slice } = chain;
  const known = { run: run.run, attempt: slice.attempt ?? 1, execution: limits.execution, rules };
  return { deps, chain, limits, jobs, record: recordOf(log, chain), facts: () => ({ ...known, now: runtime.now() }) };
}

/** Creates a job. Resolves to the newest record, and to what follows. */
async function create(
  needed: NeededJob,
  read: Versioned<JobRecord>,
  unanswered: number,
): Promise<[Versioned<JobRecord>, JobDecision]> {
  const { deps, chain, limits, jobs, record, facts } = needed;
  const { run } = chain;
  let newest = read;
  /** The record of a request that may have created a job. */
  const announced = () => (newest !== read && newest.content?.phase === 'creating' ? newest.content : undefined);
  /** Called right before each request. After a wait (slot, rate, Retry-After), the run may have been taken over. */
  const recordRequest = async (): Promise<void> => {
    const { log, definition } = deps;
    ownedRun(await log.exportState(definition.stateName), limits.execution, definition.name, run.run);
    const { rules: _, now, ...attempt } = facts();
    const times = { createdAt: instantOf(now), asOf: run.startedAt };
    newest = await write(needed, newest, { ...attempt, ...times, phase: 'creating', unanswered: unanswered + 1 });
  };
  let mayExist = false;
  const sendOnce: JobService['create'] = async (request, { signal }) => {
    const markAsSent = async (): Promise<void> => {
      mayExist = false;
      await request.beforeSend?.();
      signal?.throwIfAborted();
      mayExist = true;
    };
    try {
      // Once it is sent, the service may create a job. So the end of the run does not abort it then.
      return await jobs.create({ ...request, beforeSend: markAsSent }, { signal: limits.interruption });
    } catch (error) {
      if (isNotCreated(error)) mayExist = false;
      throw error;
    }
  };
  // Not recorded inside `sendOnce`: a write there would delay the Retry-After that `send` announces to other requests.
  const created = await send(needed, sendOnce, { beforeSend: recordRequest }).catch(async (error: unknown) => {
    const content = announced();
    if (content !== undefined && !mayExist)
      await record.replace(newest, { ...content, phase: 'notCreated', unanswered });
    throw error;
  });
  if (created.kind === 'end') return [newest, { ...created, asOf: null }];
  const content = announced();
  if (content === undefined) throw new Error('A report job was created before it was recorded');
  return [newest, afterCreation(content, created, facts())];
}

/** Errors after which the service has certainly created no job. */
const withoutJob: ReadonlySet<string> = new Set<ErrorName>([
  'ConfigurationError',
  'RequestRejectedError',
  'ServiceThrottledError',
  'ServiceUnreachableError',
]);
const isNotCreated = (error: unknown): boolean => isExportError(error) && withoutJob.has(error.name);

async function send<Result>(
  { deps, chain, limits }: NeededJob,
  action: (...args: Parameters<JobService['poll']>) => Promise<Result>,
  more: Pick<PageRequest, 'job' | 'beforeSend'>,
): Promise<Result> {
  const { run, slice, parent } = chain;
  const label = `the report job of ${describePage({ page: 1, slice: shownNumber(run, slice), parent: parent?.id })} of run ${run.run}`;
  const request = { ...requestOf(chain, { cursor: null, label }), ...more };
  const { result } = await withLimits(deps, chain, limits, action)(request, limits, 1);
  return result;
}

/** @throws Parked if another process has replaced the record */
async function write(
  { deps, record }: NeededJob,
  read: Versioned<JobRecord>,
  content: JobRecord,
): Promise<Versioned<JobRecord>> {
  const written = await record.replace(read, content);
  if (written === undefined) throw new Parked(deps.runtime.now() + contentionMs);
  return written;
}

function parked({ deps, chain }: NeededJob, { id, status, statusSince }: JobRecord, until: number): Parked {
  const { run, slice } = chain;
  const seconds = Math.max(0, Math.ceil((until - deps.runtime.now()) / 1_000));
  const about = { ...refOf(run), slice: shownNumber(run, slice), job: id };
  deps.emit({ event: 'waiting-for-job', ...about, status, statusSince, seconds });
  return new Parked(until);
}

function startOver({ run }: Chain): ExportError {
  const message = `The service does not know the report job of run ${run.run} any more, or its result. Another one is needed`;
  return new ExportError('CursorRejectedError', message);
}
