/**
 * Checks report jobs: what is recorded before each request, that none is ordered without need, that each chain has the
 * result of one, and that the URL of a result stays where it was received.
 */

import { recordOf, type Item, text } from '../world/dynamodb.ts';
import type { Process } from '../world/process.ts';
import { type JobChecks, jobLifeMs, type ReportJob, urlOfFile } from '../world/report-jobs.ts';
import type { World } from '../world/world.ts';
import type { EndEntry, LogEntry, Observations, ObservedExport } from './observations.ts';

interface JobItem {
  readonly run: string;
  readonly attempt: number;
  readonly execution: string;
  readonly createdAt: string;
  readonly phase: 'notCreated' | 'creating' | 'waiting' | 'done' | 'failed';
  readonly id?: string;
}

export interface ReportJobChecks {
  /** Checks the record of a job before it is stored. */
  onRecord(observed: ObservedExport, item: Item, existing: Item | undefined): void;
  readonly requests: JobChecks;
}

/** How long an answer to a request that creates a job is waited for. */
const creationMs = 600_000;
/** How long a job may be unknown after its creation. */
const unknownMs = 300_000;

/** `maxClockErrorMs`: how wrong the clock of a function can be. */
export function createReportJobChecks(observations: Observations, maxClockErrorMs: number): ReportJobChecks {
  const { world, writer, findExecution } = observations;
  /** The newest `creating` of each chain. */
  const announced = new Map<string, Process>();
  /** How often each process has announced a job, and has requested one. */
  const announcements = new Map<string, number>();
  const requests = new Map<string, number>();
  const recorded = new Set<string>();
  /** The processes and the jobs that a poll did not know. */
  const unknown = new Set<string>();
  /** The newest status that no condition names, by execution and job. */
  const unnamed = new Map<string, { readonly process: Process; readonly at: number }>();
  const add = (counts: Map<string, number>, { id }: Process) => counts.set(id, (counts.get(id) ?? 0) + 1);
  const keyOf = ({ payload }: Process, { id, process }: ReportJob) => `${payload.execution} ${process.id} ${id}`;

  /** What becomes of a job, or what a poll says, does not keep a process from what it has to do. */
  const isDisturbed = ({ id }: Process) =>
    world.injectedFaults.some(({ kind, site }) => !kind.startsWith('job-') && site.includes(id));

  /** Why a job is ordered, although the chain has had one. Undefined: for no reason. */
  function reasonFor(observed: ObservedExport, sk: string, before: JobItem, process: Process): string | undefined {
    const job = observed.service.jobs?.get(before.id);
    switch (before.phase) {
      case 'notCreated':
        return 'the service has refused the request';
      case 'creating': {
        const other = announced.get(sk) ?? process;
        if (other.id === process.id) return 'the request is sent again';
        const created = observed.service.jobs?.all().some((each) => each.process.id === other.id) ?? false;
        // Its write may have taken a while: its request is sent after it.
        const isEarly = maxClockErrorMs === 0 && world.time.now() - Date.parse(before.createdAt) < creationMs;
        const hasAnswer = created && !isDisturbed(other) && !other.hasAbortedCreation;
        return isEarly || hasAnswer ? undefined : 'the answer may be lost';
      }
      case 'waiting':
      case 'done':
      case 'failed': {
        if (job === undefined || job.fate !== 'done' || job.isDoubtful) return 'the job has no result';
        const latest = world.time.now() + Math.max(...process.clockOffsets);
        const ageMs = latest - Date.parse(before.createdAt);
        if (ageMs >= unknownMs && unknown.has(`${process.id} ${job.id}`)) return 'it is not known, by a wrong clock';
        const isOver = before.phase === 'failed' && ageMs >= jobLifeMs;
        return isOver ? 'its time is over, by a wrong clock' : undefined;
      }
    }
  }

  return {
    onRecord(observed, item, existing) {
      const sk = `${observed.name} ${text(item, 'sk')}`;
      const record = recordOf<JobItem>(item);
      if (record.id !== undefined) recorded.add(`${observed.name} ${record.id}`);
      if (record.phase !== 'creating') return;
      const process = writer();
      add(announcements, process);
      const before = existing === undefined ? undefined : recordOf<JobItem>(existing);
      // The next pass of counted pages has the result, too, unless another start orders one for another period.
      const isResult = before?.phase === 'done' && before.execution === record.execution;
      const isNext = observed.service.counts && isResult && before.attempt === record.attempt - 1;
      const isSame = before?.run === record.run && (before.attempt === record.attempt || isNext);
      if (isSame && reasonFor(observed, sk, before, process) === undefined) {
        const details = `${sk} by ${process.id} after ${before.id ?? before.phase}`;
        world.violate('a report job is ordered again only if it is needed', details);
      }
      announced.set(sk, process);
    },
    requests: {
      onCreate(process) {
        add(requests, process);
        if ((requests.get(process.id) ?? 0) > (announcements.get(process.id) ?? 0))
          world.violate('a report job is created only after it is recorded', process.id);
      },
      onPoll(process, job) {
        const [exportName = ''] = exportOfJob(observations, job);
        if (!recorded.has(`${exportName} ${job.id}`))
          world.violate('a report job is polled only once its ID is recorded', `${job.id} by ${process.id}`);
        const before = unnamed.get(keyOf(process, job));
        // An earlier process may be late.
        const isLater = before !== undefined && process.startedAt >= before.at;
        // The second process of an invocation that ran twice may begin when the execution has ended.
        const isSecond = process.id.endsWith("'");
        if (!isLater || isSecond || isDisturbed(before.process)) return;
        const wasRedriven = (findExecution(process.payload.execution)?.redrivenAt ?? 0) >= before.at;
        if (!wasRedriven) {
          const details = `${job.id} by ${process.id} after ${before.process.id}`;
          world.violate('a status of a report job that is not described ends the execution', details);
        }
      },
      onUnknown: (process, job) => void unknown.add(`${process.id} ${job.id}`),
      onUnnamed(process, job) {
        // The state machine has the result of the first process of an invocation.
        const isSecond = process.id.endsWith("'");
        if (!isSecond) unnamed.set(keyOf(process, job), { process, at: world.time.now() });
      },
    },
  };
}

/** The export whose service has the job. */
const exportOfJob = ({ exports }: Observations, job: ReportJob): readonly string[] =>
  [...exports.values()].filter(({ service }) => service.jobs?.get(job.id) === job).map(({ name }) => name);

/** The pages of a chain have each report of one job once. */
export function checkResult(
  { world }: Pick<Observations, 'world'>,
  { service }: Pick<ObservedExport, 'service'>,
  chain: readonly LogEntry[],
  label: string,
): void {
  if (service.jobs === undefined || chain.length === 0) return;
  const isResultOf = (job: ReportJob): boolean => {
    const pages = chain.map(({ cursor, sha256, nextCursor }) =>
      service
        .servedPages(cursor)
        .find((page) => page.job === job.id && page.sha256 === sha256 && page.nextCursor === nextCursor),
    );
    const reports = pages.flatMap((page) => page?.reports ?? []);
    return !pages.includes(undefined) && isSameSet(reports, job.reports);
  };
  if (!service.jobs.all().some(isResultOf))
    world.violate('the pages of a chain are the result of one report job', label);
}

const isSameSet = (one: readonly object[], other: readonly object[]): boolean =>
  one.length === other.length && new Set([...one, ...other]).size === one.length;

/** The jobs that have said that the parent has no reports, in the form of a first page. */
export const emptyJobs = ({ service }: Pick<ObservedExport, 'service'>, { run, parent }: EndEntry) =>
  (service.jobs?.all() ?? [])
    .filter((job) => job.isOver && job.reports.length === 0 && job.parent === parent && job.runs.has(run))
    .map(({ since, createdAt }) => ({ since, asOf: createdAt }));

/** A URL of a result gives access to it. Everyone who may read logs and states can see this text. */
export function checkNoUrl(world: World, place: string, found: string): void {
  const [url] = urlOfFile.exec(found) ?? [];
  if (url === undefined) return;
  const at = found.search(urlOfFile);
  world.violate(
    'the URL of a result is in no log, state or error',
    `${place}: ${found.slice(Math.max(0, at - 80), at + 40)}`,
  );
}
