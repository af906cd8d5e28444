/** The status of all exports of a stack: every export with its newest run, in few requests. */

import { BatchGetItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import type { ScheduleSummary } from '@aws-sdk/client-scheduler';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Item } from '../../../lib/aws/dynamodb/items.ts';
import type { ExportState } from '../../../lib/core/model.ts';
import { readStatuses, type StatusEntry } from '../../../lib/operator/run-status.ts';
import type { Runtime } from '../../../lib/core/ports.ts';
import {
  type AService,
  arn,
  awsError,
  type MockedAws,
  mockStack,
  nightly,
  openMockedStack,
  type StackContent,
  stubAwsEnvironment,
} from '../../support/aws/mocked-stack.ts';
import { aCompletion, anAbandonedRun, anExportState, aPageEntry, aRun, at } from '../../support/builders.ts';

const now = '2026-11-20T12:00:00Z';
const runtime: Runtime = {
  now: () => Date.parse(now),
  monotonicNow: () => 0,
  sleep: async () => {},
  randomHex: (length) => '0'.repeat(length),
};

beforeEach(stubAwsEnvironment);
let aws: MockedAws | undefined;
afterEach(() => {
  vi.unstubAllEnvs();
  aws?.restore();
});

async function statusesOf(content: StackContent) {
  const mocked = mockStack(content);
  aws = mocked;
  await using stack = await openMockedStack(runtime);
  const entries = await readStatuses(stack, runtime.now());
  return { entries, requests: mocked.requests() };
}
const one = async (content: StackContent): Promise<StatusEntry | undefined> => (await statusesOf(content)).entries[0];

const names = (count: number) =>
  Array.from({ length: count }, (_, index) => `export-${String(index).padStart(3, '0')}`);
const completed = (exportName: string, completedAt = at('2026-11-20T02:10:00Z')) =>
  anExportState({ export: exportName, lastCompleted: { ...aCompletion('x', { export: exportName }), completedAt } });
const active = (exportName: string, service = 'acme', overrides: Parameters<typeof aRun>[0] = {}) =>
  anExportState({
    export: exportName,
    active: aRun({ export: exportName, execution: arn('execution', `${service}:${exportName}`), ...overrides }),
  });
const lastFailure = { error: 'ServiceUnavailableError', message: 'responded with 503', at: at('2026-11-20T03:00:00Z') };

describe('the status of a hundred exports', () => {
  const exports = names(100);
  const service = (schedules = {}): AService => ({ name: 'acme', exports, schedules });

  it('takes four requests if none is active, and one for the bounded runs of each', async () => {
    const schedules = Object.fromEntries(exports.map((name) => [name, nightly()]));
    const { entries, requests } = await statusesOf({
      services: [service(schedules)],
      states: { acme: exports.map((name) => completed(name)) },
    });
    expect(requests).toEqual({
      DescribeStacks: 1,
      DescribeStackResource: 1,
      BatchGetItem: 1,
      ListSchedules: 1,
      Query: 100,
    });
    expect(entries.map((entry) => entry.export)).toEqual(exports);
    for (const entry of entries) {
      expect(entry).toMatchObject({
        service: 'acme',
        state: 'completed',
        stale: false,
        pages: 3,
        reports: 250,
        bytes: 123_456,
        completedAt: '2026-11-20T02:10:00Z',
        schedule: { kind: 'scheduled', expression: 'cron(0 2 * * ? *)' },
      });
    }
  });

  it('takes a request more for the running executions, and one for each unfinished run', async () => {
    const [first = '', second = '', ...rest] = exports;
    const { entries, requests } = await statusesOf({
      services: [service()],
      states: { acme: [active(first), active(second), ...rest.map((name) => completed(name))] },
      running: [first, second].map((name) => arn('execution', `acme:${name}`)),
    });
    expect(requests).toEqual({
      DescribeStacks: 1,
      DescribeStackResource: 1,
      BatchGetItem: 1,
      ListExecutions: 1,
      Query: 102,
    });
    expect(entries.slice(0, 3)).toMatchObject([{ state: 'running' }, { state: 'running' }, { state: 'completed' }]);
  });

  it('sends at most eight requests about single runs at the same time', async () => {
    const states = { acme: exports.map((name) => active(name, 'acme', { lastFailure })) };
    const mocked = mockStack({ services: [service()], states });
    aws = mocked;
    let inProgress = 0;
    let most = 0;
    mocked.dynamoDb.on(QueryCommand).callsFake(async () => {
      inProgress += 1;
      most = Math.max(most, inProgress);
      await new Promise((resolve) => setImmediate(resolve));
      inProgress -= 1;
      return { Items: [] };
    });
    await using stack = await openMockedStack(runtime);
    expect(await readStatuses(stack, runtime.now())).toHaveLength(100);
    expect(mocked.requests()).toMatchObject({ Query: 200, ListExecutions: 1 });
    expect(most).toBe(8);
  });

  it('reads more than a hundred states in several requests', async () => {
    const many = names(250);
    const { entries, requests } = await statusesOf({
      services: [{ name: 'acme', exports: many }],
      states: { acme: many.map((name) => completed(name)) },
    });
    expect(requests).toMatchObject({ BatchGetItem: 3 });
    expect(entries.map((entry) => 'state' in entry && entry.state)).toEqual(Array(250).fill('completed'));
  });
});

describe('the status of two services', () => {
  it('has the exports of both by name, each with its newest run', async () => {
    const run = aRun({ export: 'orders', execution: arn('execution', 'globex:one'), startedAt: at(now) });
    const { entries, requests } = await statusesOf({
      services: [
        { name: 'acme', exports: ['weekly', 'daily'], schedules: { daily: nightly() } },
        { name: 'globex', exports: ['invoices', 'orders'], schedules: { orders: nightly({ freshnessSeconds: null }) } },
      ],
      states: {
        acme: [completed('daily')],
        globex: [anExportState({ export: 'orders', active: run, sequence: 2 })],
      },
      entries: [aPageEntry({ export: 'orders', run: run.run, page: 7, bytes: 100, reports: 10 })],
      running: [arn('execution', 'globex:one'), arn('execution', 'acme:one')],
    });
    expect(entries).toMatchObject([
      { export: 'daily', service: 'acme', state: 'completed', freshnessSeconds: 93_600, watermark: null },
      { export: 'invoices', service: 'globex', state: 'never', run: null, since: null, startedAt: null, pages: 0 },
      {
        export: 'orders',
        service: 'globex',
        state: 'running',
        run: run.run,
        since: run.since,
        startedAt: now,
        pages: 7,
        reports: 70,
        bytes: 700,
        completedAt: null,
        stale: false,
        lastFailure: null,
      },
      { export: 'weekly', service: 'acme', state: 'never', schedule: { kind: 'manual' }, stale: false },
    ]);
    expect(requests).toEqual({
      DescribeStacks: 1,
      DescribeStackResource: 2,
      BatchGetItem: 1,
      ListSchedules: 2,
      // Only the machine of globex has an unfinished run.
      ListExecutions: 1,
      Query: 5,
    });
  });
});

describe('the state of the newest run', () => {
  const services: readonly AService[] = [{ name: 'acme', exports: ['daily'], schedules: { daily: nightly() } }];
  const execution = arn('execution', 'acme:daily');

  it('is failed if its execution has ended with a failure, without another request', async () => {
    const { entries, requests } = await statusesOf({
      services,
      states: { acme: [active('daily', 'acme', { lastFailure })] },
    });
    expect(entries).toMatchObject([{ state: 'failed', lastFailure }]);
    expect(requests).not.toHaveProperty('DescribeExecution');
  });

  it('is stopped if its execution has ended without one, which is asked for: it may have started just now', async () => {
    const states = { acme: [active('daily')] };
    expect(await one({ services, states })).toMatchObject({ state: 'interrupted', lastFailure: null });
    aws?.restore();
    expect(await one({ services, states, described: [execution] })).toMatchObject({ state: 'running' });
    expect(aws?.requests()).toMatchObject({ DescribeExecution: 1 });
  });

  it('is asked for if there are too many running executions to list', async () => {
    const states = { acme: [active('daily', 'acme', { lastFailure })] };
    expect(await one({ services, states, isTruncated: true, described: [execution] })).toMatchObject({
      state: 'running',
    });
    expect(aws?.requests()).toMatchObject({ ListExecutions: 5, DescribeExecution: 1 });
  });

  it('is failed if it was abandoned because it can never complete', async () => {
    const abandoned = anAbandonedRun();
    const state = { ...completed('daily'), lastAbandoned: abandoned };
    expect(await one({ services, states: { acme: [state] } })).toMatchObject({
      state: 'failed',
      run: abandoned.run,
      pages: 2,
      reports: 20,
      lastFailure: { error: 'CursorRejectedError' },
      completedAt: '2026-11-20T02:10:00Z',
    });
  });
});

describe('an export is stale', () => {
  const isStale = async (
    schedule: Partial<ReturnType<typeof nightly>>,
    state: ExportState | undefined,
    schedules?: StackContent['schedules'],
  ) => {
    const services = [{ name: 'acme', exports: ['daily'], schedules: { daily: nightly(schedule) } }];
    const entry = await one({ services, states: { acme: state === undefined ? [] : [state] }, schedules });
    aws?.restore();
    return entry !== undefined && 'stale' in entry && entry.stale;
  };
  /** 26 hours are allowed. */
  const justInTime = completed('daily', at('2026-11-19T10:00:00Z'));
  const tooOld = completed('daily', at('2026-11-19T09:59:59Z'));

  it('if its newest completed run is older than its freshness, or if it has none', async () => {
    expect(await isStale({}, justInTime)).toBe(false);
    expect(await isStale({}, tooOld)).toBe(true);
    expect(await isStale({}, undefined)).toBe(true);
    expect(await isStale({}, { ...tooOld, active: active('daily').active })).toBe(true);
  });

  it('only if it has a freshness and an enabled schedule', async () => {
    expect(await isStale({ freshnessSeconds: null }, tooOld)).toBe(false);
    expect(await isStale({ enabled: false }, tooOld)).toBe(false);
    // Someone has disabled or deleted the schedule, or enabled it.
    const disable = (schedules: ScheduleSummary[]) =>
      schedules.map((each) => ({ ...each, State: 'DISABLED' as const }));
    const enable = (schedules: ScheduleSummary[]) => schedules.map((each) => ({ ...each, State: 'ENABLED' as const }));
    expect(await isStale({}, tooOld, disable)).toBe(false);
    expect(await isStale({}, tooOld, () => [])).toBe(false);
    expect(await isStale({ enabled: false }, tooOld, enable)).toBe(true);
  });
});

it('lacks reports if no completed run has had some for longer than expected', async () => {
  const services = [{ name: 'acme', exports: [{ name: 'daily', expect: { reportsEvery: 'P2D' } }] }];
  const lastReportsAt = at('2026-11-18T02:00:00Z');
  const state = anExportState({ export: 'daily', lastCompleted: { ...aCompletion('x'), lastReportsAt } });
  expect(await one({ services, states: { acme: [state] } })).toMatchObject({
    lastReportsAt,
    reportsEverySeconds: 172_800,
    reportsOverdue: true,
  });
});

describe('an export that cannot be read', () => {
  const services: readonly AService[] = [{ name: 'acme', exports: ['daily', 'hourly', 'weekly'] }];
  const states = { acme: [completed('daily'), active('hourly', 'acme', { lastFailure }), completed('weekly')] };
  const edit = (exportName: string, isEntry: boolean) => (item: Item) => {
    const isEdited = item.export?.S === exportName && (item.page !== undefined) === isEntry;
    return isEdited ? { ...item, checksum: { S: 'edited' } } : item;
  };

  it.each([
    ['state', 'weekly', edit('weekly', false)],
    ['last page', 'hourly', edit('hourly', true)],
  ] as const)('because its %s was edited does not hide the others', async (_, edited, changeItem) => {
    const entries = [aPageEntry({ export: 'hourly', run: states.acme[1]?.active?.run ?? aRun().run })];
    const { entries: found } = await statusesOf({ services, states, entries, changeItem });
    expect(found.map((entry) => [entry.export, 'error' in entry ? entry.error.name : entry.state])).toEqual(
      [
        ['daily', 'completed'],
        ['hourly', 'failed'],
        ['weekly', 'completed'],
      ].map(([name, state]) => [name, name === edited ? 'PageConflictError' : state]),
    );
    expect(found.find((entry) => entry.export === edited)).toMatchObject({
      service: 'acme',
      error: { message: expect.stringContaining(`export ${edited}`) },
    });
  });
});

describe('a denied request', () => {
  it('is an error of the command as a whole', async () => {
    const mocked = mockStack({ services: [{ name: 'acme', exports: ['daily'] }] });
    aws = mocked;
    mocked.dynamoDb.on(BatchGetItemCommand).rejects(awsError('AccessDeniedException'));
    await using stack = await openMockedStack(runtime);
    await expect(readStatuses(stack, runtime.now())).rejects.toMatchObject({ name: 'AccessDeniedException' });
  });
});
