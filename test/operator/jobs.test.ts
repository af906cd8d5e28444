/** What commands show of report jobs, and which requests they send. */

import { expect, it } from 'vitest';
import { runHealthChecks } from '../../lib/operator/health-checks.ts';
import { statusLines } from '../../lib/operator/output/status-table.ts';
import { apiOfPlannedRequest, findJob, planJob } from '../../lib/operator/plan/job.ts';
import { plannedRequest, type Requested, requestPages } from '../../lib/operator/plan/requests.ts';
import { planRun } from '../../lib/operator/plan-run.ts';
import { readExport } from '../../lib/operator/run-view.ts';
import type { ExportTarget, Target } from '../../lib/operator/target.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import { anExportBench, asExportTarget, completed } from '../support/export/export-bench.ts';
import { startJobs } from '../support/service/job-bench.ts';
import { type JobVendor, jobVendors } from '../support/service/job-vendors.ts';

const vendor = jobVendors.find(({ file }) => file === 'dune-query.json') as JobVendor;

const hour = 3_600_000;

type Jobs = Awaited<ReturnType<typeof startJobs>>;

const targetOf = ({ bench, definition, api, vendor: { url } }: Jobs): ExportTarget => {
  const target = asExportTarget(bench);
  const connect = async () => ({ ...bench.deps.service, [Symbol.asyncDispose]: async () => {} });
  return { ...target, definition, service: { ...target.service, api, address: url, connect } };
};

/** A run whose process has ended while it waits for its job. */
async function startWaiting(): Promise<Jobs> {
  let writes = 0;
  const crash = (moment: string) => {
    if (moment === 'after the job is recorded') writes += 1;
    if (writes >= 3) throw new Error('the process is over');
  };
  const jobs = await startJobs(vendor, { bench: { crash } });
  await jobs.bench.start().catch(() => {});
  return jobs;
}

const statusOf = async (jobs: Jobs): Promise<string> => {
  const now = jobs.bench.deps.runtime.now();
  const view = await readExport(targetOf(jobs), 1, now);
  const options = { now, style: (_: unknown, text: string) => text, columns: 200, program: 'x', option: '' };
  return statusLines([view], '', options as never).join('\n');
};

it('the status shows the job, what it says, and since when', async () => {
  await using jobs = await startWaiting();
  jobs.bench.advance(14 * 60_000);
  expect(await statusOf(jobs)).toMatch(/report job +waiting for report 7f3a-1, QUERY_STATE_EXECUTING for \d+ min/);
});

it('a plan creates a job only if that is asked for, and says what it did', async () => {
  await using jobs = await startJobs(vendor);
  const target = targetOf(jobs);
  const plan = await planRun({ ...target, runtime: jobs.bench.deps.runtime });
  if (!('walk' in plan) || plan.walk === undefined) throw new Error('nothing is planned');
  expect(apiOfPlannedRequest(jobs.api, plan.walk.first).request.path).toBe('/api/v1/query/3493826/execute');
  const said: string[] = [];
  const options = { notify: (text: string) => said.push(text), runtime: jobs.bench.deps.runtime };
  expect(await planJob(target, plan.walk.first, {}, { ...options, mayCreate: false })).toEqual({
    notes: [expect.stringContaining('--create-job')],
  });
  expect(jobs.vendor.received).toEqual([]);
  const job = await planJob(target, plan.walk.first, {}, { ...options, mayCreate: true });
  expect(said).toEqual([
    'Report job 7f3a-1 was created',
    'Report job 7f3a-1: QUERY_STATE_EXECUTING, next poll in 30 s',
    'Report job 7f3a-1: QUERY_STATE_EXECUTING, next poll in 30 s',
  ]);
  expect(job.notes).toEqual([expect.stringContaining('report job 7f3a-1 was created')]);
  if (job.id === undefined) throw new Error('the job has no result');
  const walk = { first: { ...plan.walk.first, job: job.id }, further: undefined, begun: undefined };
  const found: Requested = {};
  await requestPages(target, walk, found, { notify: () => {}, runtime: systemRuntime, toEnd: true });
  expect(found.pages?.map(({ reports }) => reports)).toEqual([5]);
});

it('a plan waits for its job for a minute at most, and says what it has seen', async () => {
  await using jobs = await startWaiting();
  jobs.vendor.world.waits = Number.POSITIVE_INFINITY;
  const slow: Jobs = {
    ...jobs,
    definition: { ...jobs.definition, job: { poll: { everyMs: hour, withinMs: 9 * hour } } },
  };
  const target = targetOf(slow);
  const plan = await planRun({ ...target, runtime: jobs.bench.deps.runtime });
  if (!('run' in plan) || plan.walk === undefined) throw new Error('nothing is planned');
  const [before, { runtime }] = [jobs.bench.slept.length, jobs.bench.deps];
  const options = { mayCreate: false, notify: () => {}, runtime };
  expect(await planJob(target, plan.walk.first, await findJob(target, plan.run, 1), options)).toEqual({
    notes: [
      expect.stringMatching(/^report job 7f3a-1 is not over: its status is QUERY_STATE_EXECUTING\. .* Run it again/),
    ],
  });
  expect(jobs.bench.slept).toHaveLength(before);
});

it('a plan requests the result of the job that the run waits for', async () => {
  await using jobs = await startWaiting();
  const target = targetOf(jobs);
  const plan = await planRun({ ...target, runtime: jobs.bench.deps.runtime });
  if (!('run' in plan) || plan.walk === undefined) throw new Error('nothing is planned');
  const { runtime } = jobs.bench.deps;
  const known = await findJob(target, plan.run, 1);
  const job = await planJob(target, plan.walk.first, known, { mayCreate: false, notify: () => {}, runtime });
  expect(job).toMatchObject({ id: '7f3a-1', notes: [] });
  expect(plannedRequest(target.service, { ...plan.walk.first, job: known.id }, known.isWaiting)).toMatchObject({
    method: 'GET',
    url: expect.stringMatching(/\/execution\/7f3a-1\/status$/),
  });
  expect(jobs.vendor.created()).toBe(1);
});

/** What doctor says of a directory with these exports of one service. */
async function diagnose({ bench }: Jobs, ...exports: readonly ExportTarget[]): Promise<string> {
  const options = { version: '1', program: 'x', runtime: bench.deps.runtime, notify: () => {} };
  const all: Partial<Target> = {
    name: 'a test',
    option: '',
    exportNames: async () => exports.map(({ name }) => name),
    openAll: async () => exports,
  };
  const messages: string[] = [];
  for await (const { message } of runHealthChecks(all as Target, undefined, options)) messages.push(message);
  return messages.join('\n');
}

it('doctor creates no job, and says what waiting costs', async () => {
  await using jobs = await startJobs(vendor);
  const costs = 'an hour of waiting has 120 polls, which cost $0.009 of state transitions on AWS';
  expect(await diagnose(jobs, targetOf(jobs))).toContain(costs);
  expect(jobs.vendor.received).toEqual([]);
});

it('doctor requests a page of an export without a job, wherever that stands among those of the service', async () => {
  await using jobs = await startJobs(vendor);
  const withJob = targetOf(jobs);
  const { service, ...other } = asExportTarget(anExportBench());
  const withoutJob = { ...other, service: { ...withJob.service, connect: service.connect } };
  expect(await diagnose(jobs, withJob, withoutJob)).toContain('returned a valid page');
  expect(jobs.vendor.received).toEqual([]);
});

it('a completed run has no jobs to show', async () => {
  await using jobs = await startJobs(vendor);
  completed(await jobs.bench.start());
  expect(await statusOf(jobs)).not.toContain('report job');
});
