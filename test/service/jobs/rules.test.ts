/** The rules of report jobs: what is created, asked for and exported, whatever happens in between. */

import { setImmediate } from 'node:timers/promises';
import { zipSync } from 'fflate';
import { Pool } from 'undici';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { CreatedJob, JobService } from '../../../lib/core/ports.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { runExecution } from '../../../lib/local/execution.ts';
import type { Description } from '../../../lib/service/api/description.ts';
import type { ServiceNetwork } from '../../../lib/service/network/network.ts';
import { manifestsIn, pageAt } from '../../support/export/export-bench.ts';
import { completed, failed, reportIds, startJobs } from '../../support/service/job-bench.ts';
import { type JobVendor, jobVendors, signature } from '../../support/service/job-vendors.ts';

const vendorOf = (file: string) => jobVendors.find((each) => each.file === file) as JobVendor;
const withFiles = vendorOf('amazon-reports.json');
const walked = vendorOf('salesforce-bulk-query.json');
const listed = vendorOf('fhir-export.json');
const all = ['a', 'b', 'c', 'd', 'e'];

type Job = NonNullable<Description['job']>;
const withWhen =
  (when: Job['when']) =>
  (api: Description): Description => ({ ...api, job: { ...(api.job as Job), when } });

type Result = NonNullable<Job['result']>;
const withResult =
  (change: (result: Result) => Result) =>
  ({ job, ...api }: Description): Description => ({
    ...api,
    job: job?.result && { ...job, result: change(job.result) },
  });

const isCreation = ({ method }: { readonly method: string }): boolean => method === 'POST';

/** Ends the process at the nth call of `moment`. */
function endingAt(moment: string, nth = 1): { crash: (at: string) => void; restart: () => void } {
  let calls = 0;
  let isOver = false;
  return {
    crash(at: string) {
      if (isOver) throw new Error('the process is over');
      if (at === moment) calls += 1;
      if (at === moment && calls === nth) {
        isOver = true;
        throw new Error('the process is over');
      }
    },
    restart() {
      isOver = false;
      calls = Number.POSITIVE_INFINITY;
    },
  };
}

const tooMany = { status: 429, headers: { 'retry-after': '600' } };

describe('waiting', () => {
  it('costs no request, and no consecutive wait, until the next poll is due', async () => {
    let throttled = 1;
    await using jobs = await startJobs(walked, {
      bench: { limits: { maxConsecutiveWaits: 1 } },
      fault: ({ url }) => (url.pathname.endsWith('/results') && (throttled -= 1) >= 0 ? tooMany : undefined),
    });
    jobs.vendor.world.waits = 20;
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    const polls = jobs.vendor.received.filter(({ path }) => path.endsWith('/query/7f3a-1'));
    expect(polls).toHaveLength(21);
    // Every 30 seconds, in the Wait state. Then a Retry-After for the result, as the only consecutive wait.
    const untilDone = Array.from({ length: 21 }, () => 30_000);
    expect(jobs.bench.slept.filter((ms) => ms > 0)).toEqual([...untilDone, 600_000]);
  });

  it('is announced with the job, its status, and since when', async () => {
    await using jobs = await startJobs(walked);
    await jobs.bench.start();
    const events = jobs.bench.events.filter(({ event }) => event === 'waiting-for-job');
    const statusSince = '2026-11-20T02:00:00Z';
    const about = { job: '7f3a-1', seconds: 30 };
    expect(events).toMatchObject([
      { ...about, status: 'created', statusSince },
      { ...about, status: 'InProgress', statusSince: '2026-11-20T02:00:30Z' },
      { ...about, status: 'InProgress', statusSince: '2026-11-20T02:00:30Z' },
    ]);
  });

  it('ends after api.job.poll.within, and the next start polls once more before it creates another', async () => {
    await using jobs = await startJobs(walked, {
      change({ job, ...api }) {
        return { ...api, job: job?.poll && { ...job, poll: { ...job.poll, every: 'PT20M' } } };
      },
    });
    jobs.vendor.world.waits = Number.POSITIVE_INFINITY;
    const { error, message } = failed(await jobs.bench.start());
    expect({ error, message }).toMatchObject({
      error: 'RequestRejectedError',
      message: expect.stringMatching(/^Report job 7f3a-1 has the status InProgress 360 minutes after it was created/),
    });
    jobs.vendor.world.waits = 0;
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.created()).toBe(1);
  });

  it('is in vain if a start wants another period, and it says so', async () => {
    const end = endingAt('after the job is recorded', 2);
    await using jobs = await startJobs(walked, { bench: { crash: end.crash } });
    await jobs.bench.start().catch(() => {});
    end.restart();
    const { run } = jobs.bench.events.find(({ event }) => event === 'run-started') as { readonly run: string };
    completed(await jobs.bench.start({ since: '2026-11-04T00:00:00Z' }));
    const starts = jobs.bench.events.filter(({ event }) => event === 'run-started');
    expect(starts).toMatchObject([{ withoutJobsOf: undefined }, { withoutJobsOf: run }]);
    expect(jobs.vendor.created()).toBe(2);
  });

  it('lets the run of an ended process go on with its job, and with its period', async () => {
    const end = endingAt('after the job is recorded', 2);
    await using jobs = await startJobs(walked, { bench: { crash: end.crash } });
    await jobs.bench.start().catch(() => {});
    end.restart();
    jobs.bench.advance(3_600_000);
    const { run } = await jobs.bench.state().then(({ active }) => ({ run: active?.run }));
    expect(completed(await jobs.bench.start())).toMatchObject({ run, reports: 5 });
    expect(jobs.vendor.created()).toBe(1);
  });

  it('is no longer if a wrong clock has recorded when the job was created, and is polled next', async () => {
    const end = endingAt('after the job is recorded', 2);
    const change = (api: Description): Description => {
      const { poll, ...job } = api.job as Job;
      return { ...api, job: { ...job, poll: poll && { ...poll, within: 'PT5M' } } };
    };
    await using jobs = await startJobs(walked, { bench: { crash: end.crash }, change });
    const hour = 3_600_000;
    jobs.bench.advance(9 * hour);
    await jobs.bench.start().catch(() => {});
    end.restart();
    jobs.bench.advance(-9 * hour);
    jobs.vendor.world.waits = Number.POSITIVE_INFINITY;
    // `within` counts from the first poll: the job seems to be created in the future.
    expect(failed(await jobs.bench.start()).message).toMatch(/^Report job 7f3a-1 has the status InProgress 5 minutes/);
    expect(jobs.bench.slept.reduce((sum, ms) => sum + ms)).toBeLessThan(hour);
  });

  it('continues if a clock that was hours ahead has given the job up', async () => {
    const end = endingAt('after the job is recorded', 2);
    await using jobs = await startJobs(walked, { bench: { crash: end.crash } });
    const hours = 9 * 3_600_000;
    await jobs.bench.start().catch(() => {});
    end.restart();
    jobs.bench.advance(hours);
    jobs.vendor.world.waits = Number.POSITIVE_INFINITY;
    expect(failed(await jobs.bench.start()).message).toMatch(
      /^Report job 7f3a-1 has the status InProgress 540 minutes/,
    );
    jobs.bench.advance(-hours);
    jobs.vendor.world.waits = jobs.vendor.received.length + 2;
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.created()).toBe(1);
  });

  it('is for as long as the service asks, if that is longer', async () => {
    await using jobs = await startJobs(listed);
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.bench.slept).toEqual([30_000, 120_000, 120_000]);
  });

  it.each([
    ['never shorter than api.job.poll.every', '1', 30_000],
    ['never longer than an hour', '7200', 3_600_000],
  ])('is %s', async (_, retryAfter, wait) => {
    let polls = 2;
    await using jobs = await startJobs(listed, {
      fault: (__, { path }) =>
        path.includes('_jobId=') && (polls -= 1) >= 0
          ? { status: 202, headers: { 'retry-after': retryAfter } }
          : undefined,
    });
    jobs.vendor.world.waits = 0;
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.bench.slept).toEqual([30_000, wait, wait]);
  });
});

describe('the creation of a job', () => {
  it.each([
    ['before the job is recorded', 1, 1],
    // The request was sent, and its response is lost.
    ['before the job is recorded', 2, 2],
    ['after the job is recorded', 2, 1],
    ['before the job is recorded', 3, 1],
    ['before the page is stored', 1, 1],
    ['after the page is stored', 1, 1],
    ['after the page is logged', 1, 1],
  ])('survives an end of the process %s (call %i)', async (moment, nth, created) => {
    const end = endingAt(moment, nth);
    await using jobs = await startJobs(listed, { bench: { crash: end.crash } });
    await jobs.bench.start().catch(() => {});
    end.restart();
    jobs.reconnect();
    const { manifest } = completed(await jobs.bench.start());
    expect(reportIds(jobs.bench, manifest)).toEqual(all);
    expect(manifestsIn(jobs.bench)).toHaveLength(1);
    const creations = jobs.vendor.received.filter(({ path }) => path.includes('/$export?'));
    expect(creations).toHaveLength(created);
  });

  it('is repeated ten minutes after a request without a response, and not before', async () => {
    let lost = 0;
    await using jobs = await startJobs(walked, {
      fault: (asked) => (isCreation(asked) && (lost += 1) <= 2 ? 'lost' : undefined),
    });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.received.filter(isCreation)).toHaveLength(3);
    expect(jobs.bench.slept.reduce((sum, ms) => sum + ms)).toBeGreaterThan(1_200_000);
  });

  it('is given up after six requests without a response', async () => {
    await using jobs = await startJobs(walked, { fault: (asked) => (isCreation(asked) ? 'lost' : undefined) });
    expect(failed(await jobs.bench.start()).message).toMatch(/^6 requests to create a report job had no response/);
    expect(jobs.vendor.received.filter(isCreation)).toHaveLength(6);
  });

  it.each([
    ['it waits for a Retry-After', { status: 429, headers: { 'retry-after': '7' } }, 1],
    ['it is refused', { status: 400, body: { message: 'no' } }, 2],
  ])('has created nothing if %s', async (_, reply, starts) => {
    let refusals = 1;
    await using jobs = await startJobs(walked, {
      fault: (asked) => (isCreation(asked) && (refusals -= 1) >= 0 ? reply : undefined),
    });
    if (starts === 2) failed(await jobs.bench.start());
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.created()).toBe(1);
    expect(jobs.bench.slept.every((ms) => ms < 600_000)).toBe(true);
  });

  it('is not requested once another execution owns the run', async () => {
    await using jobs = await startJobs(walked);
    const { log } = jobs.bench;
    const job: typeof log.job = (...name) => ({
      ...log.job(...name),
      async read() {
        const { active, ...state } = await jobs.bench.state();
        const taken = active && { ...active, execution: 'another' };
        await log.replaceState({ ...state, version: state.version + 1, active: taken });
        return await log.job(...name).read();
      },
    });
    Object.assign(jobs.bench.deps.log, { job });
    expect(await jobs.bench.start()).toMatchObject({ status: 'skipped' });
    expect(jobs.vendor.received).toEqual([]);
  });

  it('has its ID after the last of the texts that api.job.id.after names', async () => {
    let create: (() => string) | undefined;
    await using jobs = await startJobs(walked, {
      change: (api) => ({ ...api, job: api.job && { ...api.job, id: { at: '/url', after: '/jobs/' } } }),
      fault: (asked) => (isCreation(asked) ? { body: { url: `/jobs/all/jobs/${create?.()}` } } : undefined),
    });
    create = () => jobs.vendor.world.create(0, Number.MAX_SAFE_INTEGER).id;
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
  });

  it('adopts the job that the service has of the same request', async () => {
    const end = endingAt('before the job is recorded', 2);
    await using jobs = await startJobs(vendorOf('amazon-ads-report.json'), { bench: { crash: end.crash } });
    await jobs.bench.start().catch(() => {});
    end.restart();
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.received.filter(isCreation)).toHaveLength(2);
    expect(jobs.vendor.created()).toBe(1);
  });

  it('is answered with the ID alone: what polls are asked for may make no sense there', async () => {
    const vendor: JobVendor = {
      ...walked,
      reply(request, world) {
        const { body, ...response } = walked.reply(request, world);
        return { ...response, body: isCreation(request) ? { ...(body as object), links: [{ rel: 'error' }] } : body };
      },
    };
    const failedAt = { at: '/links[rel=error]/href' };
    const change = (api: Description) => withWhen({ ...api.job?.when, failed: failedAt })(api);
    await using jobs = await startJobs(vendor, { change });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.received.filter(isCreation)).toHaveLength(1);
  });
});

describe('the request that creates a job', () => {
  const settings = { slices: { parallel: 2, length: 7 * 86_400_000 } };

  /** The first slice stops the run when the vendor has the job of the second. Its answer arrives after that. */
  async function stopDuringCreation() {
    const jobs = await startJobs(withFiles, { settings });
    const { service } = jobs.bench.deps;
    const second = Promise.withResolvers<void>();
    let creations = 0;
    const create: JobService['create'] = async (request, { signal }) => {
      creations += 1;
      if (creations === 1) {
        await second.promise;
        throw new ExportError('ConfigurationError', 'the run stops here');
      }
      await request.beforeSend?.();
      const created = await service.jobs?.create({ ...request, beforeSend: undefined }, {});
      second.resolve();
      await setImmediate();
      signal?.throwIfAborted();
      return created as CreatedJob;
    };
    Object.assign(jobs.bench.deps, { service: { ...service, jobs: { ...service.jobs, create } } });
    expect(failed(await jobs.bench.start()).message).toBe('the run stops here');
    jobs.reconnect();
    return jobs;
  }

  it('is answered although another slice stops the run, and its job is used by the next start', async () => {
    await using jobs = await stopDuringCreation();
    const { manifest } = completed(await jobs.bench.start());
    expect(reportIds(jobs.bench, manifest)).toEqual(all);
    expect(jobs.vendor.created()).toBe(4);
  });

  it('is not awaited after an interruption', async () => {
    const interruption = new AbortController();
    await using jobs = await startJobs(walked, {
      fault(asked) {
        if (isCreation(asked)) interruption.abort();
        return isCreation(asked) ? 'silent' : undefined;
      },
    });
    const { signal } = interruption;
    expect(await runExecution(jobs.bench.deps, { name: 'one', input: {} }, { signal })).toEqual({
      status: 'interrupted',
    });
  });
});

describe('a job', () => {
  it('that the service does not know yet is waited for, for five minutes', async () => {
    let unknown = 4;
    const isPoll = ({ path }: { readonly path: string }) => path.endsWith('/query/7f3a-1');
    await using jobs = await startJobs(walked, {
      fault: (_, asked) => (isPoll(asked) && (unknown -= 1) >= 0 ? { status: 404 } : undefined),
    });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.created()).toBe(1);
  });

  it('that the service does not know any more is replaced by another one', async () => {
    await using jobs = await startJobs(walked, {
      fault: (_, { path }) => (path.endsWith('/query/7f3a-1') ? { status: 410 } : undefined),
    });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.created()).toBe(2);
  });

  it('that is over without a result is polled again, and then replaced by another one', async () => {
    await using jobs = await startJobs(walked, {
      fault: (_, { path }) => (path.includes('/7f3a-1/results') ? { status: 404 } : undefined),
    });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.created()).toBe(2);
    const results = jobs.vendor.received.filter(({ path }) => path.includes('/7f3a-1/results'));
    expect(results).toHaveLength(2);
  });

  it('selects the reports until the run began, so that the watermark skips none', async () => {
    await using jobs = await startJobs(walked, { settings: {} });
    const late = Date.UTC(2026, 10, 20, 2, 0, 45);
    jobs.vendor.world.rows.push({ id: 'f', at: late });
    const first = completed(await jobs.bench.start());
    expect(first).toMatchObject({ reports: 5, watermark: '2026-11-20T02:00:00Z' });
    const second = completed(await jobs.bench.start());
    expect(reportIds(jobs.bench, second.manifest)).toEqual(['f']);
  });

  it('has the reports of when it was requested, not of when a slow response arrives', async () => {
    await using jobs = await startJobs(walked, {
      fault: (asked) => void (isCreation(asked) && jobs.bench.advance(20_000)),
    });
    const period = { since: instantOf(0), begunAt: instantOf(0), cursor: null, label: 'the job' };
    const created = await jobs.bench.deps.service.jobs?.create({ ...period, request: jobs.definition.request }, {});
    expect(created).toMatchObject({ serviceTime: '2026-11-20T02:00:00Z' });
  });

  it.each([
    ['an ID of 4,096 characters', (excess: number) => `{"id":"${'j'.repeat(4_096 + excess)}"}`, 'an ID that requests'],
    ['a response of 1 MiB', (excess: number) => '{"id":"j"}'.padEnd(2 ** 20 + excess), 'more than 1048576 bytes'],
  ])('is created with %s at most', async (_, bodyWith, problem) => {
    let excess = 0;
    await using jobs = await startJobs(walked, { fault: () => ({ body: bodyWith(excess) }) });
    const period = { since: instantOf(0), begunAt: instantOf(0), cursor: null, label: 'the job' };
    const create = async () =>
      await jobs.bench.deps.service.jobs?.create({ ...period, request: jobs.definition.request }, {});
    expect(await create()).toMatchObject({ kind: 'created' });
    excess = 1;
    await expect(create()).rejects.toThrow(problem);
  });

  it('without reports moves the watermark no further than the clock of the service', async () => {
    await using jobs = await startJobs(walked, {
      rows: [],
      change: withWhen({ empty: { at: '/state', is: 'JobComplete' }, done: { at: '/state', is: 'never' } }),
      fault: (asked) =>
        isCreation(asked)
          ? { headers: { date: 'Fri, 20 Nov 2026 01:00:00 GMT' }, body: { id: jobs.vendor.world.create(0, 1).id } }
          : undefined,
    });
    jobs.vendor.world.waits = 0;
    expect(completed(await jobs.bench.start())).toMatchObject({ pages: 0, watermark: '2026-11-20T01:00:00Z' });
  });

  it('is for one slice of the period, and others go on while it is not over', async () => {
    await using jobs = await startJobs(withFiles, {
      settings: { slices: { parallel: 2, length: 7 * 86_400_000 } },
    });
    const first = jobs.vendor.world.poll;
    Object.assign(jobs.vendor.world, {
      poll(id: string) {
        const polled = first(id);
        // The first one takes longer than all others.
        const isSlow = id === '7f3a-1' && jobs.vendor.created() < 4;
        return polled && { ...polled, state: isSlow ? 'waiting' : polled.state };
      },
    });
    const { manifest } = completed(await jobs.bench.start());
    expect(reportIds(jobs.bench, manifest)).toEqual(all);
    expect(jobs.vendor.created()).toBe(4);
    const exported = jobs.bench.events.flatMap((each) => (each.event === 'page-exported' ? [each.slice] : []));
    expect(exported.at(-1)).toBe(1);
  });

  it('costs nothing without one: no read of a record', async () => {
    await using jobs = await startJobs(walked);
    const reads: string[] = [];
    Object.assign(jobs.bench.deps.log, { job: (name: string) => reads.push(name) });
    Object.assign(jobs.bench.deps, { definition: { ...jobs.definition, job: undefined } });
    await jobs.bench.start();
    expect(reads).toEqual([]);
  });
});

describe('the job of a parent', () => {
  const settings = { parents: { values: ['a', 'b'] }, slices: { parallel: 1 } };
  const change = (api: Description): Description => ({ ...api, when: { ...api.when, gone: { status: [404, 410] } } });

  it('is not created if the parent is gone', async () => {
    let creations = 0;
    await using jobs = await startJobs(walked, {
      settings,
      change,
      fault: (asked) => (isCreation(asked) && (creations += 1) === 2 ? { status: 404 } : undefined),
    });
    const { manifest } = completed(await jobs.bench.start());
    expect(jobs.bench.manifest(manifest)).toMatchObject({ parents: { count: 2, gone: 1 }, totals: { reports: 5 } });
  });

  it('says nothing of the parent if its result is missing', async () => {
    await using jobs = await startJobs(walked, {
      settings,
      change,
      fault: (_, { path }) => (path.includes('/7f3a-1/results') ? { status: 404 } : undefined),
    });
    const { manifest } = completed(await jobs.bench.start());
    expect(jobs.bench.manifest(manifest)).toMatchObject({ parents: { count: 2, gone: 0 }, totals: { reports: 10 } });
    expect(jobs.vendor.created()).toBe(3);
  });
});

describe('a result', () => {
  it('may be there at once: a job without polls', async () => {
    const withoutPolls = (api: Description): Description => ({
      ...api,
      job: api.job && { create: api.job.create, id: api.job.id },
    });
    await using jobs = await startJobs(walked, { change: withoutPolls });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.bench.slept).toEqual([]);
    expect(jobs.vendor.received.map(({ method }) => method)).toEqual(['POST', 'GET']);
  });

  it('may be a list of IDs, each of which is requested with the credentials', async () => {
    const withItems = (api: Description): Description => ({
      ...api,
      job: api.job && { ...api.job, result: { at: '/parts/*', request: { path: '/files/{job}/{item}' } } },
    });
    await using jobs = await startJobs(listed, { change: withItems });
    const { manifest, pages } = completed(await jobs.bench.start());
    expect([pages, reportIds(jobs.bench, manifest)]).toEqual([2, all]);
    const files = jobs.vendor.received.filter(({ path }) => path.startsWith('/files/'));
    expect(files.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${jobs.secret}`,
      `Bearer ${jobs.secret}`,
    ]);
  });
});

it.each([
  ['on the service', listed, 'api'],
  ['on another host', withFiles, 'files'],
] as const)('a key in the query is sent to the service alone: files %s', async (_, vendor, place) => {
  const auth = { kind: 'key', query: { k: '{secret}' } } as const;
  await using jobs = await startJobs(vendor, { auth });
  completed(await jobs.bench.start());
  const keys = jobs.vendor.received.map(({ at, path }) =>
    [at, new URL(path, 'http://a').searchParams.get('k')].join(' '),
  );
  const others = place === 'api' ? [] : ['files '];
  expect(new Set(keys)).toEqual(new Set([`api ${jobs.secret}`, ...others]));
});

it('a key in the query is no part of an ID in a URL that repeats it', async () => {
  const auth = { kind: 'key', query: { k: '{secret}' } } as const;
  await using jobs = await startJobs(listed, {
    auth,
    fault(_, { path }) {
      if (!path.includes('/$export?')) return undefined;
      const { id } = jobs.vendor.world.create(0, Number.POSITIVE_INFINITY);
      const place = `/r4/$export-poll-status?_jobId=${id}&k=${new URL(path, 'http://a').searchParams.get('k')}`;
      return { status: 202, headers: { 'content-location': place } };
    },
  });
  expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
});

it('a URL of a file on another host that has the key is not requested', async () => {
  const auth = { kind: 'key', query: { k: '{secret}' } } as const;
  await using jobs = await startJobs(withFiles, {
    auth,
    fault: (_, { path }) =>
      path.startsWith('/reports/2021-06-30/documents/')
        ? { status: 200, body: { url: `https://files.example/f?k=${new URL(path, 'http://a').searchParams.get('k')}` } }
        : undefined,
  });
  const { error, message } = failed(await jobs.bench.start());
  expect({ error, message }).toMatchObject({ error: 'ContractError' });
  expect(message).not.toContain(jobs.secret);
});

/** A poll that says that the job has these files, or a file, whose report has the last character of its URL as ID. */
function resultOf(url: URL, places: () => readonly string[]) {
  if (url.searchParams.has('_jobId'))
    return { body: { transactionTime: 'now', output: places().map((place) => ({ url: place })) } };
  if (!url.pathname.startsWith('/download')) return undefined;
  return { headers: { 'content-type': 'application/fhir+ndjson' }, body: `{"id":"${url.href.at(-1)}"}\n` };
}

describe('the files of a result', () => {
  it('are the same list after an end of the process in between', async () => {
    const end = endingAt('after the page is logged');
    await using jobs = await startJobs(listed, { bench: { crash: end.crash } });
    await jobs.bench.start().catch(() => {});
    end.restart();
    jobs.reconnect();
    const result = completed(await jobs.bench.start());
    expect(result).toMatchObject({ pages: 2, reports: 5 });
    expect(reportIds(jobs.bench, result.manifest)).toEqual(all);
    // Its URLs are not stored: it was asked again.
    const polls = jobs.vendor.received.filter(({ path }) => path.includes('_jobId=7f3a-1'));
    expect(polls).toHaveLength(5);
  });

  it('start over with the same job if they are others', async () => {
    const end = endingAt('after the page is logged');
    await using jobs = await startJobs(listed, { bench: { crash: end.crash } });
    await jobs.bench.start().catch(() => {});
    end.restart();
    jobs.reconnect();
    // One report less in the first file: another number of files.
    const [job] = jobs.vendor.world.jobs.values();
    Object.assign(job ?? {}, { rows: job?.rows.slice(0, 1) });
    const { manifest } = completed(await jobs.bench.start());
    expect(reportIds(jobs.bench, manifest)).toEqual(['a']);
    expect(jobs.vendor.created()).toBe(1);
  });

  it('are those of another job if a later start begins another run', async () => {
    const ends = [endingAt('after the page is logged'), endingAt('after the job is recorded')];
    let current = ends[0];
    await using jobs = await startJobs(listed, { bench: { crash: (moment) => current?.crash(moment) } });
    await jobs.bench.start().catch(() => {});
    current = ends[1];
    jobs.reconnect();
    const [job] = jobs.vendor.world.jobs.values();
    Object.assign(job ?? {}, { rows: job?.rows.slice(0, 1) });
    // The job is kept for the next pass, which does not begin.
    await jobs.bench.start().catch(() => {});
    current = undefined;
    const since = '2026-11-06T00:00:00Z';
    const { manifest } = completed(await jobs.bench.start({ restart: true, since }));
    expect(reportIds(jobs.bench, manifest)).toEqual(['d', 'e']);
    expect(jobs.vendor.created()).toBe(2);
  });

  it('are asked for again after the service did not say where they are', async () => {
    let errors = 1;
    await using jobs = await startJobs(withFiles, {
      fault: (_, { path }) => (path.includes('/documents/') && (errors -= 1) >= 0 ? { status: 503 } : undefined),
    });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
  });

  it('are not awaited after an interruption', async () => {
    const interruption = new AbortController();
    await using jobs = await startJobs(withFiles, {
      fault(_, { at }) {
        if (at !== 'files') return undefined;
        interruption.abort();
        return 'silent';
      },
    });
    const { signal } = interruption;
    expect(await runExecution(jobs.bench.deps, { name: 'one', input: {} }, { signal })).toEqual({
      status: 'interrupted',
    });
  });

  it.each([
    ['queries tell them apart', { at: '/output/*/url' }, '/download?part='],
    ['they are IDs', { at: '/output/*/url', request: { path: '/download/{item}' } }, 'a?'],
  ])('start over with the same job if they have another order, and %s', async (_, result, prefix) => {
    let parts = ['1', '2', '3'];
    const end = endingAt('after the page is logged');
    await using jobs = await startJobs(listed, {
      bench: { crash: end.crash },
      change: (api) => ({ ...api, job: api.job && { ...api.job, result } }),
      fault: ({ url }) => resultOf(url, () => parts.map((part) => prefix + part)),
    });
    await jobs.bench.start().catch(() => {});
    end.restart();
    jobs.reconnect();
    parts = ['3', '2', '1'];
    const { manifest } = completed(await jobs.bench.start());
    expect(reportIds(jobs.bench, manifest)).toEqual(parts);
  });

  it.each([
    ['the same file twice', ['/download?1', '/download?1'], 'has the same file twice'],
    ['a URL without a host', ['data:text/plain,1'], 'no URL of a file'],
  ])('are refused in a list with %s', async (_, list, problem) => {
    await using jobs = await startJobs(listed, { fault: ({ url }) => resultOf(url, () => list) });
    const { error, message } = failed(await jobs.bench.start());
    expect({ error, message }).toMatchObject({ error: 'ContractError', message: expect.stringContaining(problem) });
    expect(jobs.vendor.received.some(({ path }) => path.startsWith('/download'))).toBe(false);
  });

  it.each(['.', '..'])('are not requested at another path, which the ID %s would lead to', async (id) => {
    await using jobs = await startJobs(listed, {
      change: (api) => ({
        ...api,
        job: api.job && { ...api.job, result: { at: '/output/*/url', request: { path: '/download/{item}/file' } } },
      }),
      fault: ({ url }) => resultOf(url, () => [id]),
    });
    expect(failed(await jobs.bench.start())).toMatchObject({
      error: 'ContractError',
      message: expect.stringMatching(
        /^The path \/download\/\{item\}\/file in the description .* would lead to another path/,
      ),
    });
    expect(jobs.vendor.received.some(({ path }) => path.startsWith('/download'))).toBe(false);
  });

  it.each([
    ['that the job is not over', 202, { result: { reports: 5 } }],
    ['what no condition names', 203, { failed: { message: expect.stringMatching(/^Report service says status 203/) } }],
  ])('are not taken from a poll that says %s', async (_, status, outcome) => {
    let polls = 0;
    await using jobs = await startJobs(listed, {
      change: (api) => ({ ...api, job: api.job && { ...api.job, when: { ...api.job.when, done: { status: 200 } } } }),
      fault({ url }) {
        const isListing = url.searchParams.has('_jobId') && (polls += 1) === 2;
        return isListing ? { status, body: { output: [{ url: '/files/7f3a-1/1' }] } } : undefined;
      },
    });
    jobs.vendor.world.waits = 0;
    expect(await jobs.bench.start()).toMatchObject(outcome);
    expect(jobs.vendor.created()).toBe(1);
  });

  it('are asked for again, and then from another job, if the last poll does not say where they are', async () => {
    await using jobs = await startJobs(listed, {
      change: (api) => ({
        ...api,
        job: api.job && { ...api.job, result: { at: '/url', request: { path: '/download/{poll:/document}' } } },
      }),
    });
    expect(failed(await jobs.bench.start())).toMatchObject({
      error: 'CursorRejectedError',
      message: expect.stringContaining('nothing at /document'),
    });
    expect(jobs.vendor.created()).toBe(2);
  });

  it.each([403, 404, 410])('are asked for again if a URL answers %i', async (status) => {
    let expired = 1;
    await using jobs = await startJobs(withFiles, {
      fault: (_, { at }) => (at === 'files' && (expired -= 1) >= 0 ? { status } : undefined),
    });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.created()).toBe(1);
  });

  it('hold back only their own chain with a Retry-After', async () => {
    let busy = 1;
    await using jobs = await startJobs(withFiles, {
      fault: (_, { at }) =>
        at === 'files' && (busy -= 1) >= 0 ? { status: 503, headers: { 'retry-after': '45' } } : undefined,
    });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.bench.slept).toContain(45_000);
    expect(jobs.bench.events.map(({ event }) => event)).not.toContain('service-asked-to-wait');
  });

  it.each<[string, (host: string) => string]>([
    ['that is not listed', () => 'files.example.com'],
    ['whose name ends as a listed one, within a label', (host) => `*.${host.slice(2)}`],
  ])('are not requested from a host %s', async (_, listedFor) => {
    await using jobs = await startJobs(withFiles, {
      change: withResult(({ hosts: [host = ''] = [], ...result }) => ({ ...result, hosts: [listedFor(host)] })),
    });
    expect(failed(await jobs.bench.start())).toMatchObject({
      error: 'ConfigurationError',
      message: expect.stringContaining('which api.job.result.hosts does not list'),
    });
    expect(jobs.vendor.received.some(({ at }) => at === 'files')).toBe(false);
  });

  it.each(['http://files.example.com/1', 'https://user@files.example.com/1', 'https://:pass@files.example.com/1'])(
    'are not requested from %s',
    async (url) => {
      await using jobs = await startJobs(withFiles, {
        change: withResult((result) => ({ ...result, hosts: ['files.example.com'] })),
        fault: (_, { path }) => (path.includes('/documents/') ? { body: { url } } : undefined),
      });
      expect(failed(await jobs.bench.start())).toMatchObject({
        error: 'ConfigurationError',
        message: expect.stringMatching(/ is not https, or has a user\. It is not requested$/),
      });
    },
  );

  it('are requested from another host through the proxy, without certificates or credentials', async () => {
    const all: ServiceNetwork = {
      proxy: { origin: 'http://proxy.example.com:3128' },
      ca: 'the only authority',
      clientCertificate: { cert: 'a certificate', key: 'its key' },
    };
    const opened: ServiceNetwork[] = [];
    await using jobs = await startJobs(withFiles, {
      connection: {
        network: { get: async () => all, refresh: async () => all },
        createPool({ origin }, _, network) {
          opened.push(network);
          return new Pool(origin);
        },
      },
    });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(opened).toEqual([all, { proxy: all.proxy }]);
    const [file] = jobs.vendor.received.filter(({ at }) => at === 'files');
    expect(Object.keys(file?.headers ?? {}).toSorted()).toEqual(['accept', 'accept-encoding', 'connection', 'host']);
  });

  it('are not redirected', async () => {
    await using jobs = await startJobs(withFiles, {
      fault: (_, { at }) =>
        at === 'files' ? { status: 302, headers: { location: 'https://files.example.com' } } : undefined,
    });
    expect(failed(await jobs.bench.start()).message).toContain('redirects are not followed');
  });

  const archive = Buffer.from(zipSync({ 'a.csv': Buffer.from('id\n1\n') }, { level: 0 }));
  const asArchive = (body: Buffer) => ({
    change: (api: Description): Description => ({ ...api, page: { format: 'zip' } }),
    fault: (_: unknown, { at }: { readonly at: string }) => (at === 'files' ? { body } : undefined),
  });

  it('stay as they are if they are ZIP archives', async () => {
    await using jobs = await startJobs(withFiles, asArchive(archive));
    const end = completed(await jobs.bench.start());
    const { pages } = jobs.bench.manifest(end.manifest);
    expect([pages.map(({ key }) => pageAt(jobs.bench, key)), end.reports]).toEqual([
      [archive.toString('latin1')],
      null,
    ]);
  });

  it('are refused if an entry of a ZIP archive does not have its CRC', async () => {
    const damaged = Buffer.from(archive.toString('latin1').replace('id\n1', 'id\n2'), 'latin1');
    await using jobs = await startJobs(withFiles, asArchive(damaged));
    expect(failed(await jobs.bench.start())).toMatchObject({
      error: 'ContractError',
      message: expect.stringContaining('not a valid ZIP archive (the CRC of entry 1 is not that of its content)'),
    });
  });

  it.each([
    ['damaged gzip', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3, 4])],
    ['an error in place of a table', 'a\tb\n1\t2\t3\n'],
  ])('have URLs and contents in no message, event, state or key: %s', async (_, body) => {
    await using jobs = await startJobs(withFiles, { fault: (__, { at }) => (at === 'files' ? { body } : undefined) });
    const end = failed(await jobs.bench.start());
    const state = await jobs.bench.state();
    const record = await jobs.bench.log.job(jobs.definition.stateName, 1).read();
    const shown = JSON.stringify([end, state, record, jobs.bench.events, [...jobs.bench.store.objects]]);
    expect(end.error).toBe('ContractError');
    for (const secret of [signature, '/files/', jobs.secret, '1\\t2']) expect(shown).not.toContain(secret);
  });
});
