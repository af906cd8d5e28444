/**
 * The report jobs of the simulated service. A job has the reports that match when it is created, and its result is
 * requested in pages, or downloaded in files from another host, by URLs that expire. Jobs fail, stay, expire, are not
 * known for a moment, have a status that is not described, and list their files in another order.
 */

import { createHash } from 'node:crypto';
import type { ExportApi } from '../../../lib/service/api/description.ts';
import type { Process } from './process.ts';
import type { ServiceRequest, ServiceResponse } from './report-service.ts';
import type { SimulatedReport } from './reports.ts';
import type { Rng } from './rng.ts';
import type { DescribedApi } from './service-apis.ts';
import type { World } from './world.ts';

/** How the result of a job is received. */
export type JobForm = 'pages' | 'files';

export interface ReportJob {
  readonly id: string;
  readonly since: number;
  readonly until: number;
  readonly parent: string | undefined;
  readonly requestMark: string | undefined;
  /** The process that has requested it, and the runs whose processes have asked for it. */
  readonly process: Process;
  readonly runs: Set<string>;
  /** By the service's clock. It has the reports as of then. */
  readonly createdAt: number;
  readonly reports: readonly SimulatedReport[];
  readonly fate: 'done' | 'fails' | 'stays' | 'expires';
  readonly doneAt: number;
  readonly expiresAt: number;
  /** Whether a job without reports has no result. */
  readonly saysEmpty: boolean;
  /** Whether a poll has said that it has a result, or no reports. */
  isOver: boolean;
  /** Whether the service has refused a part of the result, or answered with a cursor that repeats. */
  isDoubtful: boolean;
  /** The orders in which its files have been listed so far; the last one is that of now. */
  readonly orders: (readonly string[])[];
}

/** What the service asks of the checks. */
export interface JobChecks {
  /** Before a job is created. */
  readonly onCreate: (process: Process) => void;
  /** Before a poll is answered. */
  readonly onPoll: (process: Process, job: ReportJob) => void;
  /** A poll has been answered as if there were no such job. */
  readonly onUnknown: (process: Process, job: ReportJob) => void;
  /** A poll has been answered with a status that no condition names. */
  readonly onUnnamed: (process: Process, job: ReportJob) => void;
}

export const filesHost = 'files.example.com';
const jobsPath = '/v1/jobs';
const minute = 60_000;
/** How long a URL of a file can be requested. */
const urlLifeMs = 8 * minute;
/** How long a job is waited for: `within` of its description. */
export const jobLifeMs = 30 * minute;
/** How long a job may be unknown after its creation. */
const unknownMs = 3 * minute;
const jobTypes = { 'content-type': 'application/json' };

/** What an export with jobs adds to the description of its service. */
export function jobDescription(form: JobForm, api: DescribedApi, hasUpperBound: boolean, every: string): ExportApi {
  const filter = { date: { gte: '{since}', ...(hasUpperBound ? { lt: '{until}' } : {}) }, other: '{filter}' };
  const job = {
    create: { path: jobsPath, body: { filter } },
    id: '/id',
    poll: { path: `${jobsPath}/{job}`, every, within: `PT${jobLifeMs / minute}M` },
    when: {
      waiting: { at: '/status', is: ['IN_QUEUE', 'IN_PROGRESS'] },
      done: { at: '/status', is: 'DONE' },
      empty: { at: '/status', is: 'EMPTY' },
      failed: { at: '/status', is: 'FATAL' },
    },
  };
  if (form === 'files') {
    return { job: { ...job, result: { at: '/files/*/url', hosts: [filesHost] } }, next: { from: 'none' } };
  }
  const request =
    api === 'link'
      ? { query: { job: '{job}', size: '{size}' } }
      : { body: { job: '{job}', format: 'ANY', container: 'NONE', size: '{size}' } };
  return { job, request };
}

/** With `{parent}` in the request that creates the job. */
export const withParentInJob = (api: ExportApi): ExportApi => {
  const { job } = api;
  if (job === undefined || job === null) return api;
  return { ...api, job: { ...job, create: { ...job.create, body: { ...job.create.body, parent: '{parent}' } } } };
};

export interface ReportJobsOptions {
  readonly world: World;
  readonly form: JobForm;
  readonly checks: JobChecks;
  /** The service's clock. */
  readonly now: () => number;
  readonly matching: (since: number, until: number, parent: string | undefined) => readonly SimulatedReport[];
  /** How many reports a file has. */
  readonly pageSize: number;
}

interface RequestedFile {
  readonly job: ReportJob;
  readonly name: string;
  /** Whether its URL has expired, or the job. */
  readonly isExpired: boolean;
}

type Written = Pick<ServiceResponse, 'status' | 'headers' | 'body'>;

export type ReportJobs = ReturnType<typeof createReportJobs>;

export const isAboutJob = ({ host, path }: ServiceRequest): boolean => host !== filesHost && path.startsWith(jobsPath);

export function createReportJobs({ world, form, checks, now, matching, pageSize }: ReportJobsOptions) {
  const jobs = new Map<string, ReportJob>();

  /** Creates a job, or returns what is wrong with the request. */
  function create({ body }: ServiceRequest, site: string, process: Process): Written | string {
    const { filter, parent } = JSON.parse(body) as {
      readonly filter?: { readonly date?: { readonly gte: string; readonly lt?: string } };
      readonly parent?: string;
    };
    const { gte = '', lt } = filter?.date ?? {};
    if (Number.isNaN(Date.parse(gte))) return `invalid job ${body}`;
    const rng = world.rng(`${site}/job`);
    const [since, until] = [Date.parse(gte), lt === undefined ? Number.POSITIVE_INFINITY : Date.parse(lt)];
    const kinds = ['fails', 'stays', 'expires'] as const;
    const fate = kinds.find((kind) => world.injectFault(`job-${kind}`, site)) ?? 'done';
    const reports = matching(since, until, parent);
    const names = Array.from(
      { length: Math.max(1, Math.ceil(reports.length / pageSize)) },
      (_, at) => `part-${at + 1}`,
    );
    // Only during the faults: a run whose slices all wait may take longer than the time between two starts.
    const isSlow = world.injectFault('job-slow', site);
    const doneAt = now() + (isSlow ? rng.pick([1, 4, 12]) * rng.next() * minute : 0);
    const job: ReportJob = {
      id: `job-${jobs.size + 1}`,
      since,
      until,
      parent,
      requestMark: /other-request-[\w.-]+/.exec(body)?.[0],
      process,
      runs: new Set(),
      createdAt: now(),
      reports,
      fate,
      doneAt,
      expiresAt: fate === 'expires' ? doneAt + rng.between(0, 20) * minute : Number.POSITIVE_INFINITY,
      saysEmpty: rng.chance(0.5),
      isOver: false,
      isDoubtful: false,
      orders: [names],
    };
    jobs.set(job.id, job);
    return { status: rng.pick([200, 201, 202]), headers: jobTypes, body: json({ id: job.id }) };
  }

  function poll(job: ReportJob, site: string, process: Process): Written {
    checks.onPoll(process, job);
    job.runs.add((process.payload.input as { readonly run: string }).run);
    const rng = world.rng(`${site}/poll`);
    const isNew = now() - job.createdAt < unknownMs;
    if ((isNew && world.injectFault('job-unknown', site)) || isExpired(job)) {
      checks.onUnknown(process, job);
      return { status: rng.pick([404, 410]), headers: jobTypes, body: json({ error: 'no such job' }) };
    }
    if (world.injectFault('job-status-unnamed', site)) {
      checks.onUnnamed(process, job);
      return answered('PAUSED');
    }
    if (job.fate === 'stays' || now() < job.doneAt) return answered(rng.pick(['IN_QUEUE', 'IN_PROGRESS']));
    if (job.fate === 'fails') return answered('FATAL');
    // It was over: this answer is from a copy of the service that does not know it yet, nor all files.
    if (job.isOver && world.injectFault('job-relapses', site)) {
      return answered('IN_PROGRESS', form === 'files' ? { files: listFiles(job, site, rng).slice(0, 1) } : {});
    }
    job.isOver = true;
    if (job.reports.length === 0 && job.saysEmpty) return answered('EMPTY');
    return form === 'files' ? answered('DONE', { files: listFiles(job, site, rng) }) : answered('DONE');
  }

  function listFiles({ id, orders }: ReportJob, site: string, rng: Rng) {
    const names = orders.at(-1) ?? [];
    if (names.length > 1 && world.injectFault('job-result-reordered', site)) {
      const at = 1 + rng.integerBelow(names.length - 1);
      orders.push([...names.slice(at), ...names.slice(0, at)]);
    }
    return (orders.at(-1) ?? []).map((name) => {
      const signature = rng.integerBelow(2 ** 32).toString(16);
      const query = `X-Expires=${now() + urlLifeMs}&X-Signature=${signature}`;
      return { url: `https://${filesHost}${pathOfFile(id, name)}?${query}` };
    });
  }

  const isExpired = ({ expiresAt }: ReportJob): boolean => now() >= expiresAt;

  return {
    form,
    all: (): readonly ReportJob[] => [...jobs.values()],
    get: (id: string | undefined) => jobs.get(id ?? ''),
    isExpired,
    /** The parent in the request for a job. */
    parentIn: ({ method, body }: ServiceRequest): string | undefined =>
      method === 'POST' ? (JSON.parse(body) as { readonly parent?: string }).parent : undefined,
    create,
    /** The response to a request about jobs, or what is wrong with it. */
    respond(request: ServiceRequest, site: string, process: Process): Written | string {
      if (request.method === 'POST' && request.path === jobsPath) return create(request, site, process);
      const job = jobs.get(request.path.slice(jobsPath.length + 1));
      if (job === undefined || request.method !== 'GET') return `unexpected ${request.method} ${request.path}`;
      return poll(job, site, process);
    },
    /** The file that a request on the host of files is for; undefined: there is none. */
    fileIn({ method, path }: ServiceRequest): RequestedFile | undefined {
      const [, id, name = '', expires] =
        /^\/results\/([^/]+)\/([^/?]+)\?X-Expires=(\d+)&X-Signature=\w+$/.exec(path) ?? [];
      const job = jobs.get(id ?? '');
      if (job === undefined || method !== 'GET') return undefined;
      return { job, name, isExpired: now() > Number(expires) || isExpired(job) };
    },
    reportsOfFile: ({ reports, orders }: ReportJob, name: string): readonly SimulatedReport[] => {
      const at = (orders[0] ?? []).indexOf(name) * pageSize;
      return reports.slice(at, at + pageSize);
    },
    /** The cursors of the file, and those after it, as the exporter has them: by each order that was listed. */
    cursorsOfFile: ({ id, orders }: ReportJob, name: string) =>
      orders.map((names) => {
        const paths = JSON.stringify(names.map((each) => `${filesHost}${pathOfFile(id, each)}`));
        const digest = createHash('sha256').update(paths).digest('hex').slice(0, 16);
        const place = (number: number) => `${number} of ${names.length} ${digest}`;
        const number = names.indexOf(name) + 1;
        return {
          cursor: number === 1 ? null : place(number),
          nextCursor: number === names.length ? null : place(number + 1),
        };
      }),
  };
}

const pathOfFile = (id: string, name: string) => `/results/${id}/${name}`;
const json = (value: object): Buffer => Buffer.from(`${JSON.stringify(value)}\n`);
const answered = (status: string, more: object = {}): Written => ({
  status: 200,
  headers: jobTypes,
  body: json({ status, ...more }),
});

/** Text that only the URL of a file has. */
export const urlOfFile = /X-Signature|X-Expires|\/results\/job-/;
