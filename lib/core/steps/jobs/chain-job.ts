/**
 * The job of a chain: creates it, polls it, and lets the chain begin once its result is there. Until then the chain is
 * parked: it ends for this invocation, and the run continues after a Wait state, without a function that waits.
 *
 * The order of writes: `creating` before the request that creates the job, its ID before the first poll. Each replaces
 * the record as it was read, so only one of two processes continues.
 */

import { stateNameOfRun } from '../../bounded-runs.ts';
import { ExportError, isExportError, type ErrorName } from '../../errors.ts';
import { type EndEntry, type Instant, type JobRecord, type JobRules, type PageEntry, refOf } from '../../model.ts';
import type { JobService, PageRequest, SharedRecord, StepDependencies, Versioned } from '../../ports.ts';
import { numberOf, shownNumber } from '../../slices.ts';
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
import { describePage } from '../../storage/keys.ts';
import { epochMsOf, instantOf } from '../../timestamps.ts';
import { afterPoll, type JobFacts, nextStep } from './decide.ts';

type JobDependencies = PageRequestsDependencies & Pick<StepDependencies, 'log'>;

interface JobLimits extends RequestLimits {
  readonly execution: string;
  readonly signal: AbortSignal;
  /** Aborts what is in flight if the process is interrupted, and `signal` also if the run stops. */
  readonly interruption: AbortSignal | undefined;
}

/** The chain cannot go on before this time. Other chains of the run can. */
export class Parked extends Error {
  readonly until: number;
  constructor(until: number) {
    super('The chain waits for its report job');
    this.until = until;
  }
}

/** The chain ends without a page. */
export interface NoResult extends Pick<EndEntry, 'kind' | 'reason' | 'status'> {
  readonly kind: 'end';
  /** As `ReadyJob`. Null: no job was created. */
  readonly asOf: Instant | null;
}

/** Another process has replaced the record: it is about to create the job, or to poll it. */
const contentionMs = 10_000;

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
  const rules = deps.definition.job;
  const { jobs } = deps.service;
  if (rules === undefined || jobs === undefined) throw new Error('The description of the service has no job');
  const step = new JobStep(deps, chain, limits, { rules, jobs });
  return await step.take(last);
}

/**
 * The service has refused a page of the result. The job is polled again, once; if the result is missing again, the
 * chain starts over. If only another pass is needed, it has the same job: a later one has other reports.
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
  const record = recordOf({ log }, chain);
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

const recordOf = ({ log }: Pick<StepDependencies, 'log'>, { run, slice }: Chain): SharedRecord<JobRecord> =>
  log.job(stateNameOfRun(run), numberOf(slice));

class JobStep {
  readonly #deps: JobDependencies;
  readonly #chain: Chain;
  readonly #limits: JobLimits;
  readonly #rules: JobRules;
  readonly #jobs: JobService;
  readonly #record: SharedRecord<JobRecord>;

  constructor(
    deps: JobDependencies,
    chain: Chain,
    limits: JobLimits,
    { rules, jobs }: { readonly rules: JobRules; readonly jobs: JobService },
  ) {
    this.#deps = deps;
    this.#chain = chain;
    this.#limits = limits;
    this.#rules = rules;
    this.#jobs = jobs;
    this.#record = recordOf(deps, chain);
  }

  async take(last: PageEntry | undefined): Promise<ReadyJob | NoResult> {
    const read = await this.#record.read();
    const step = nextStep(read.content, this.#facts());
    if (last !== undefined && step.kind !== 'ready' && step.kind !== 'wait' && step.kind !== 'poll')
      throw this.#startOver();
    switch (step.kind) {
      case 'wait':
        throw this.#park(epochMsOf(step.until), read.content);
      case 'fail':
        throw new ExportError('RequestRejectedError', step.message);
      case 'ready':
        // A pass that keeps the job of the pass before has no record of its own yet.
        if (step.record !== read.content) await this.#write(read, step.record);
        return readyJob(step.record, step.id);
      case 'poll':
        return await this.#poll(read, step.record, { id: step.id, isWalked: last !== undefined });
      case 'create':
        return await this.#create(read, step.unanswered);
    }
  }

  async #poll(
    read: Versioned<JobRecord>,
    before: JobRecord,
    { id, isWalked }: { readonly id: string; readonly isWalked: boolean },
  ): Promise<ReadyJob | NoResult> {
    const polled = await this.#send(this.#jobs.poll, { job: id });
    const after = afterPoll(before, polled, this.#facts());
    if (isWalked && after.kind !== 'ready' && after.kind !== 'wait') throw this.#startOver();
    switch (after.kind) {
      case 'startOver':
        throw this.#startOver();
      case 'create':
        return await this.#create(read, 0);
      case 'empty':
        return { kind: 'end', reason: 'empty', status: null, asOf: before.asOf };
      case 'ready':
        await this.#write(read, after.record);
        return readyJob(after.record, id);
      case 'fail':
        await this.#write(read, after.record);
        throw new ExportError('RequestRejectedError', after.record.failure ?? '');
      case 'wait':
        await this.#write(read, after.record);
        throw this.#park(epochMsOf(after.record.pollAt ?? after.record.createdAt), after.record);
    }
  }

  /** Writes the record right before each request: waits for a slot, the rate or a Retry-After may take minutes. */
  async #create(read: Versioned<JobRecord>, unanswered: number): Promise<ReadyJob | NoResult> {
    const { run, slice } = this.#chain;
    const { log, definition, runtime } = this.#deps;
    const { execution, interruption } = this.#limits;
    const common = { run: run.run, attempt: slice.attempt ?? 1, execution, asOf: run.startedAt };
    let newest = read;
    let createdAt = instantOf(runtime.now());
    const beforeSend = async (): Promise<void> => {
      ownedRun(await log.exportState(definition.stateName), execution, definition.name, run.run);
      createdAt = instantOf(runtime.now());
      newest = await this.#write(newest, { ...common, createdAt, phase: 'creating', unanswered: unanswered + 1 });
    };
    const sendOnce: JobService['create'] = async (request, { signal }) => {
      let isSent = false;
      const markSent = async (): Promise<void> => {
        isSent = false;
        await request.beforeSend?.();
        signal?.throwIfAborted();
        isSent = true;
      };
      try {
        // Once it is sent, the service may create a job. So the end of the run does not abort it then.
        return await this.#jobs.create({ ...request, beforeSend: markSent }, { signal: interruption });
      } catch (error) {
        const isRecorded = newest !== read && newest.content?.phase === 'creating';
        if (isRecorded && (!isSent || isNotCreated(error))) {
          const content = { ...common, createdAt, phase: 'notCreated', unanswered } as const;
          newest = (await this.#record.replace(newest, content)) ?? newest;
        }
        throw error;
      }
    };
    const created = await this.#send(sendOnce, { beforeSend });
    if (created.kind === 'end') return { ...created, asOf: null };
    const { id, serviceTime } = created;
    const asOf = serviceTime === null ? run.startedAt : earlier(serviceTime, run.startedAt);
    const record = { ...common, createdAt, id, asOf, unanswered: 0, status: 'created', statusSince: createdAt };
    const { poll } = this.#rules;
    if (poll === undefined) {
      await this.#write(newest, { ...record, phase: 'done' });
      return { id, asOf };
    }
    const pollAt = runtime.now() + poll.everyMs;
    await this.#write(newest, { ...record, phase: 'waiting', pollAt: instantOf(pollAt) });
    throw this.#park(pollAt, { ...record, phase: 'waiting' });
  }

  async #send<Result>(
    send: (...args: Parameters<JobService['poll']>) => Promise<Result>,
    more: Pick<PageRequest, 'job' | 'beforeSend'>,
  ): Promise<Result> {
    const { run, slice, parent } = this.#chain;
    const label = `the report job of ${describePage({ page: 1, slice: shownNumber(run, slice), parent: parent?.id })} of run ${run.run}`;
    const request = { ...requestOf(this.#chain, { cursor: null, label }), ...more };
    const { result } = await withLimits(this.#deps, this.#chain, this.#limits, send)(request, this.#limits, 1);
    return result;
  }

  /** @throws Parked if another process has replaced the record */
  async #write(read: Versioned<JobRecord>, content: JobRecord): Promise<Versioned<JobRecord>> {
    const written = await this.#record.replace(read, content);
    if (written === undefined) throw new Parked(this.#deps.runtime.now() + contentionMs);
    return written;
  }

  #park(until: number, record: JobRecord | undefined): Parked {
    const { run, slice } = this.#chain;
    const seconds = Math.max(0, Math.ceil((until - this.#deps.runtime.now()) / 1_000));
    const { id, status, statusSince } = record ?? {};
    this.#deps.emit({
      event: 'waiting-for-job',
      ...refOf(run),
      slice: shownNumber(run, slice),
      job: id,
      status,
      statusSince,
      seconds,
    });
    return new Parked(until);
  }

  #startOver(): ExportError {
    const { run } = this.#chain;
    const message = `The service does not know the report job of run ${run.run} any more, or its result. Another one is needed`;
    return new ExportError('CursorRejectedError', message);
  }

  #facts(): JobFacts {
    const { run, slice } = this.#chain;
    const { execution } = this.#limits;
    return { run: run.run, attempt: slice.attempt ?? 1, execution, rules: this.#rules, now: this.#deps.runtime.now() };
  }
}

const earlier = (one: Instant, other: Instant): Instant => (epochMsOf(one) < epochMsOf(other) ? one : other);

const readyJob = ({ asOf, resultId }: JobRecord, id: string): ReadyJob => ({ id: resultId ?? id, asOf });

/** Errors after which the service has certainly created no job. */
const withoutJob: ReadonlySet<string> = new Set<ErrorName>([
  'ConfigurationError',
  'RequestRejectedError',
  'ServiceThrottledError',
  'ServiceUnreachableError',
]);
const isNotCreated = (error: unknown): boolean => isExportError(error) && withoutJob.has(error.name);
