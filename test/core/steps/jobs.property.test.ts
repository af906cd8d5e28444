/**
 * Random histories of report jobs: a vendor whose jobs fail, stay and expire, responses that are lost, and processes
 * that end at any write. What is published has each report once, from one job; and no job is created without need.
 */

import { describe, expect } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { asCursor, type JobRecord } from '../../../lib/core/model.ts';
import type {
  JobService,
  PageRequest,
  ReceivedPage,
  ReportService,
  StepDependencies,
} from '../../../lib/core/ports.ts';
import { byStep } from '../../../lib/core/state-machine/definition.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { aFetchedPage, respondWith } from '../../support/builders.ts';
import { anExportBench, type Bench, manifestsOf, reportIdsOf } from '../../support/export/export-bench.ts';
import { execute, type ExecutionResult, stepFunctions } from '../../support/export/function-machine.ts';
import { someReports } from '../../support/export/scripted-service.ts';
import { cases, fc, it } from '../../support/property.ts';

const minute = 60_000;
const hour = 60 * minute;
const everyMs = minute;

type Random = (below: number) => number;

function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    const mixed = Math.imul(state ^ (state >>> 12), 0x297a2d39) >>> 0;
    return ((mixed ^ (mixed >>> 15)) >>> 0) % below;
  };
}

interface VendorJob {
  readonly id: string;
  readonly rows: readonly { readonly id: string; readonly date: number }[];
  readonly fate: 'done' | 'failed' | 'stays' | 'expires';
  readonly creation: Creation;
  readonly waits: number;
  polls: number;
}

interface Creation {
  readonly query: string;
  readonly at: number;
  /** Whether the ID was recorded. */
  isAnswered: boolean;
}

/** A vendor, while `hasFaults` says that anything may happen. */
function createVendor(random: Random, now: () => number, hasFaults: () => boolean, violate: (problem: string) => void) {
  const start = now();
  const reports = Array.from({ length: 14 }, (_, index) => ({
    id: `r${index}`,
    date: start - 3 * hour + index * 37 * minute,
  }));
  const jobs = new Map<string, VendorJob>();
  const creations: Creation[] = [];
  const chance = (percent: number) => hasFaults() && random(100) < percent;
  const unavailable = () => new ExportError('ServiceUnavailableError', 'no response');
  const boundsOf = ({ since, until, begunAt }: PageRequest) =>
    [Date.parse(since), Date.parse(until ?? begunAt)] as const;

  function order(request: PageRequest, creation: Creation): VendorJob {
    const [since, until] = boundsOf(request);
    const rows = reports.filter(({ date }) => date >= since && date < until && date <= now());
    const fates = ['failed', 'stays', 'expires'] as const;
    const fate: VendorJob['fate'] = chance(35) ? (fates[random(3)] ?? 'done') : 'done';
    const job = { id: `job-${jobs.size + 1}`, rows, fate, creation, waits: random(4), polls: 0 };
    jobs.set(job.id, job);
    return job;
  }

  const service: Required<ReportService> & { readonly jobs: JobService } = {
    jobs: {
      async create(request) {
        await request.beforeSend?.();
        const query = boundsOf(request).join();
        // A wait of another chain sets the clock of the bench while this request is being sent.
        const before = creations.findLast((each) => each.query === query);
        if (before !== undefined && !before.isAnswered && now() - before.at < 9.5 * minute) {
          violate(`a job was ordered again ${now() - before.at} ms after a request without a response`);
        }
        if (chance(8)) throw new ExportError('RequestRejectedError', 'refused');
        if (chance(8)) throw new ExportError('ServiceThrottledError', 'busy', { retryAfterSeconds: 5 });
        const creation = { query, at: now(), isAnswered: false };
        creations.push(creation);
        if (chance(10)) throw unavailable();
        const { id } = order(request, creation);
        if (chance(10)) throw unavailable();
        return { kind: 'created', id, serviceTime: instantOf(now()) };
      },
      async poll(request) {
        await request.beforeSend?.();
        if (chance(10)) throw unavailable();
        const job = jobs.get(request.job ?? '');
        if (job === undefined) return { kind: 'unknown', status: '404' };
        job.creation.isAnswered = true;
        if (now() - job.creation.at < 3 * minute && chance(20)) return { kind: 'unknown', status: '404' };
        job.polls += 1;
        if (job.fate === 'stays' || job.polls <= job.waits) return { kind: 'waiting', status: 'RUNNING' };
        if (job.fate === 'failed') return { kind: 'failed', status: 'FATAL' };
        if (job.fate === 'expires' && job.polls > job.waits + 1) return { kind: 'unknown', status: '410' };
        return job.rows.length === 0 ? { kind: 'empty', status: 'EMPTY' } : { kind: 'done', status: 'DONE' };
      },
    },
    async fetch(request, options) {
      await request.beforeSend?.();
      const job = jobs.get(request.job ?? '');
      if (job === undefined || job.polls <= job.waits) violate(`page of ${request.job} requested too early`);
      if (chance(10)) throw unavailable();
      if (job === undefined || job.fate === 'expires' || chance(4)) {
        throw new ExportError('CursorRejectedError', 'the result is missing');
      }
      const position = Number(request.cursor ?? 0);
      const rows = job.rows.slice(position, position + 2);
      const end = position + rows.length;
      const body = `<reports>${rows.map(({ id }) => `<report id="${id}"/>`).join('')}</reports>`;
      const nextCursor = end < job.rows.length ? asCursor(String(end)) : null;
      const page = aFetchedPage({ body, reports: rows.length, nextCursor, serviceTime: instantOf(now()) });
      return (await respondWith(page, options)) as ReceivedPage;
    },
  };
  return { service, reports, jobs, creations };
}

/** Breaks the protocol. */
type Break = (deps: StepDependencies) => Partial<StepDependencies>;

interface HistoryPlan {
  readonly seed: number;
  readonly isSliced: boolean;
}

/** Runs a history, and returns what is wrong. */
async function violationsIn({ seed, isSliced }: HistoryPlan, breakIt: Break = () => ({})): Promise<readonly string[]> {
  const random = randomFrom(seed);
  const violations: string[] = [];
  let bench: Bench | undefined;
  let [hasFaults, isOver, ends] = [true, false, 0];
  const crash = () => {
    if (isOver) throw new Error('the process is over');
    if (!hasFaults || random(100) >= 3) return;
    isOver = true;
    ends += 1;
    throw new Error('the process is over');
  };
  const clock = () => bench?.deps.runtime.now() ?? Date.UTC(2026, 10, 20, 2);
  const slicing = isSliced ? { slicing: { parallel: 2, lengthMs: hour } } : {};
  bench = anExportBench({
    crash,
    limits: { maxCursorRestarts: 2 },
    definition: {
      job: { poll: { everyMs, withinMs: 30 * minute } },
      since: { from: 'watermark', initial: instantOf(Date.UTC(2026, 10, 19, 22)), overlapMs: 0 },
      publishEmptyRuns: true,
      ...slicing,
    },
  });
  const vendor = createVendor(
    random,
    clock,
    () => hasFaults,
    (problem) => violations.push(problem),
  );
  Object.assign(bench.deps, { service: vendor.service });
  Object.assign(bench.deps, breakIt(bench.deps));
  for (let start = 0; start < 8; start += 1) {
    isOver = false;
    await bench.start().catch(() => {});
    bench.advance(random(4) * 40 * minute);
  }
  [hasFaults, isOver] = [false, false];
  bench.advance(hour);
  for (let start = 0; start < 4; start += 1) {
    const end = await bench.start();
    if (end.status === 'completed') break;
    if (start === 3) violations.push(`the last start has not completed: ${JSON.stringify(end)}`);
  }
  violations.push(...problemsOf(bench, vendor, ends));
  return violations;
}

function problemsOf(
  bench: Bench,
  { reports, jobs, creations }: ReturnType<typeof createVendor>,
  ends: number,
): string[] {
  const problems: string[] = [];
  const published = new Set<string>();
  let [watermark, chains] = [0, 0];
  for (const manifest of manifestsOf(bench)) {
    const key = `${manifest.pages[0]?.key.replace(/\/[^/]*$/, '')}/manifest.json`;
    const ids = manifest.pages.length === 0 ? [] : reportIdsOf(bench, key);
    if (new Set(ids).size < ids.length) problems.push(`${key} has reports twice: ${ids.join()}`);
    for (const id of ids) published.add(id);
    watermark = Math.max(watermark, Date.parse(String(manifest.watermark ?? manifest.startedAt)));
    chains += Array.isArray(manifest.slices) ? manifest.slices.length : 1;
  }
  const missing = reports.filter(
    ({ id, date }) => date >= Date.UTC(2026, 10, 19, 22) && date < watermark && !published.has(id),
  );
  if (missing.length > 0) problems.push(`missing: ${missing.map(({ id }) => id).join()}`);
  const bad = [...jobs.values()].filter(({ fate }) => fate !== 'done').length;
  const unanswered = creations.filter(({ isAnswered }) => !isAnswered).length;
  const allowed = chains + ends + bad + unanswered + bench.events.filter(({ event }) => /restarted/.test(event)).length;
  if (jobs.size > allowed) problems.push(`${jobs.size} jobs were created, and ${allowed} were needed at most`);
  return problems;
}

const plans = fc.record({ seed: fc.nat(), isSliced: fc.boolean() });

describe('random histories of report jobs', () => {
  it.prop([plans], { numRuns: cases(300) })(
    'publish each report once, and create no job without need',
    async (plan) => {
      expect(await violationsIn(plan)).toEqual([]);
    },
  );
});

const inRecords =
  (change: (record: JobRecord) => JobRecord | undefined, onRead = false): Break =>
  ({ log }) => ({
    log: Object.assign(Object.create(log) as typeof log, {
      job(...chain: Parameters<typeof log.job>) {
        const record = log.job(...chain);
        return {
          async read() {
            const read = await record.read();
            return onRead && read.content !== undefined ? { ...read, content: change(read.content) } : read;
          },
          async replace(...[read, content]: Parameters<typeof record.replace>) {
            if (onRead) return await record.replace(read, content);
            const changed = change(content);
            return changed === undefined ? { ...read, content } : await record.replace(read, changed);
          },
        };
      },
    }),
  });

const inPolls =
  (change: (polled: Awaited<ReturnType<JobService['poll']>>) => Awaited<ReturnType<JobService['poll']>>): Break =>
  ({ service }) => {
    const { jobs } = service;
    if (jobs === undefined) throw new Error('no jobs');
    return { service: { ...service, jobs: { ...jobs, poll: async (...asked) => change(await jobs.poll(...asked)) } } };
  };

describe('the histories find a protocol', () => {
  it.each<readonly [string, Break]>([
    ['that does not write ahead', inRecords((record) => (record.phase === 'creating' ? undefined : record))],
    [
      'that does not wait for a request without a response',
      inRecords((record) => (record.phase === 'creating' ? { ...record, phase: 'notCreated' } : record), true),
    ],
    ['that forgets the ID', inRecords((record) => (record.id === undefined ? record : undefined), true)],
    [
      'that takes any status for done',
      inPolls((polled) => (polled.kind === 'waiting' ? { ...polled, kind: 'done' } : polled)),
    ],
    [
      'that takes a failed job for one without reports',
      inPolls((polled) => (polled.kind === 'failed' ? { ...polled, kind: 'empty' } : polled)),
    ],
  ])('%s', async (_, breakIt) => {
    let found: readonly string[] = [];
    for (let seed = 1; seed <= 200 && found.length === 0; seed += 1) {
      found = await violationsIn({ seed, isSliced: seed % 2 === 0 }, breakIt);
    }
    expect(found).not.toEqual([]);
  });
});

/** What AWS bills: list prices of us-east-1, for functions with 512 MB on arm64. */
const prices = { transition: 0.025 / 1_000, invocation: 0.2 / 1_000_000, second: 0.5 * 0.0000133334 };

describe('a report job that takes three hours', () => {
  it.each([
    { everyMs: 30_000, transitions: 1_073, invocations: 358, seconds: 178, cost: '0.028' },
    { everyMs: 5 * minute, transitions: 116, invocations: 39, seconds: 19, cost: '0.003' },
  ])('costs little if it is polled every $everyMs ms', async ({ everyMs, ...expected }) => {
    const requestMs = 500;
    const bench = anExportBench({
      reports: someReports(2),
      limits: { maxConsecutiveWaits: 0 },
      definition: { job: { poll: { everyMs, withinMs: 6 * hour } } },
    });
    const { deps } = bench;
    const { now } = deps.runtime;
    const doneAt = now() + 3 * hour;
    const jobs: JobService = {
      async create({ beforeSend }) {
        await beforeSend?.();
        bench.advance(requestMs);
        return { kind: 'created', id: '7f3a', serviceTime: null };
      },
      async poll() {
        bench.advance(requestMs);
        return now() < doneAt ? { kind: 'waiting', status: 'RUNNING' } : { kind: 'done', status: 'DONE' };
      },
    };
    Object.assign(deps, { service: { ...deps.service, jobs } });
    let [ms, invocations] = [0, 0];
    const steps = stepFunctions(deps);
    const functions = byStep((step) => async (...called: Parameters<(typeof steps)[typeof step]>) => {
      const begunAt = now();
      const outcome = await steps[step](...called);
      invocations += 1;
      ms += now() - begunAt;
      const { waitSeconds = 0 } = outcome as { readonly waitSeconds?: number };
      bench.advance(waitSeconds * 1_000);
      return outcome;
    });
    const states: string[] = [];
    for (let next: ExecutionResult['next'] = { name: 'first', input: {} }; next !== undefined;) {
      const execution: ExecutionResult = await execute(functions, next);
      expect(execution.status).toBe('succeeded');
      states.push(...execution.states);
      next = execution.next;
    }
    expect(manifestsOf(bench)).toHaveLength(1);
    const seconds = ms / 1_000;
    const cost = states.length * prices.transition + invocations * prices.invocation + seconds * prices.second;
    expect({ transitions: states.length, invocations, seconds: Math.round(seconds), cost: cost.toFixed(3) }).toEqual(
      expected,
    );
  });
});
