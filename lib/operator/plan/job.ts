/** The report job of a planned run, for `plan --request`: the one that a run waits for, or one that is created now. */

import { ExportError } from '../../core/errors.ts';
import type { JobService, PageRequest, PolledJob, Runtime } from '../../core/ports.ts';
import { toPrintable } from '../../core/sanitize.ts';
import { type Description, requestAbout } from '../../service/api/description.ts';
import type { ExportTarget } from '../target.ts';

/**
 * The description whose request is sent for the page: that of the job until it is known, or if its files are pages.
 * `isWaiting`: the job is polled first.
 */
export function apiOfPlannedRequest(api: Description, { job: id }: PageRequest, isWaiting = false): Description {
  const { job } = api;
  if (job === undefined || (id !== undefined && job.result === undefined && !isWaiting)) return api;
  const request = requestAbout(job, id === undefined ? 'create' : 'poll');
  return { ...api, request, next: { from: 'none' } };
}

/** The job that a run waits for; without an ID if there is none yet. */
export interface KnownJob {
  readonly id?: string | undefined;
  /** Whether it is polled before its result is requested. */
  readonly isWaiting?: boolean;
}

/** `run` is the one that the plan resumes; null: it begins one. */
export async function findJob(
  { definition, log }: Pick<ExportTarget, 'definition' | 'log'>,
  run: string | null,
  slice: number,
): Promise<KnownJob> {
  if (definition.job === undefined) return {};
  const { content } = await log.job(definition.stateName, slice).read();
  if (content?.run !== run || content.phase === 'failed') return {};
  return { id: content.id, isWaiting: content.phase === 'waiting' };
}

interface JobOptions {
  readonly mayCreate: boolean;
  readonly notify: (text: string) => void;
  readonly runtime: Runtime;
}

interface PlannedJob {
  /** The job whose result can be requested. Undefined: there is none. */
  readonly id?: string;
  readonly notes: readonly string[];
}

/** A plan waits no longer: the job of a run continues without it. */
const maxWaitMs = 60_000;

/** Waits for the job, briefly. @throws RequestRejectedError if it fails; the errors of its requests */
export async function planJob(
  { definition, service }: Pick<ExportTarget, 'definition' | 'service'>,
  first: PageRequest,
  { id: known }: KnownJob,
  { mayCreate, notify, runtime }: JobOptions,
): Promise<PlannedJob> {
  if (known === undefined && !mayCreate) {
    const note = 'a run creates a report job first. To create one now, and to request its result: --create-job';
    return { notes: [note] };
  }
  await using connection = await service.connect(notify);
  const { jobs } = connection;
  if (jobs === undefined) throw new Error('The description of the service has no job');
  const request = { ...first, label: 'the report job' };
  const created = known === undefined ? await jobs.create(request, {}) : { kind: 'known' as const, id: known };
  if (created.kind === 'end') return { notes: [`the parent is gone: status ${created.status}`] };
  const { id } = created;
  const shown = toPrintable(id);
  if (created.kind === 'created') notify(`Report job ${shown} was created`);
  const notes =
    created.kind === 'created'
      ? [`report job ${shown} was created. It stays with the service, and a run creates another`]
      : [];
  const polled = await pollBriefly(jobs, { ...request, job: id }, definition.job?.poll, { notify, runtime });
  const missing = polled && reasonWithoutResult(polled, created.kind);
  if (missing !== undefined) return { notes: [...notes, `report job ${shown} is ${missing}`] };
  return { id: polled?.resultId ?? id, notes };
}

function reasonWithoutResult({ kind, status }: PolledJob, origin: 'known' | 'created'): string | undefined {
  if (kind === 'done') return undefined;
  if (kind === 'empty') return 'over, without reports';
  const found = `not over: its status is ${status}. A plan waits for a minute at most`;
  return origin === 'known' ? `${found}. Run it again later` : found;
}

/** What the last poll says. */
async function pollBriefly(
  jobs: JobService,
  request: PageRequest,
  times: NonNullable<ExportTarget['definition']['job']>['poll'],
  { notify, runtime }: Pick<JobOptions, 'notify' | 'runtime'>,
): Promise<PolledJob | undefined> {
  if (times === undefined) return undefined;
  const name = `Report job ${toPrintable(request.job ?? '')}`;
  for (let waitedMs = 0; ;) {
    const polled = await jobs.poll(request, {});
    if (polled.kind === 'done' || polled.kind === 'empty') return polled;
    if (polled.kind === 'failed')
      throw new ExportError('RequestRejectedError', `${name} has no result: its status is ${polled.status}`);
    const ms = Math.max(times.everyMs, polled.retryAfterMs ?? 0);
    if (waitedMs + ms > maxWaitMs) return polled;
    notify(`${name}: ${polled.status}, next poll in ${ms / 1_000} s`);
    await runtime.sleep(ms);
    waitedMs += ms;
  }
}
