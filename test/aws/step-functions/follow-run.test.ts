import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  GetExecutionHistoryCommand,
  type HistoryEvent,
  SFNClient,
} from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { followExecution, type SeenRun } from '../../../lib/aws/step-functions/follow-run.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import { stateNameOfRun } from '../../../lib/core/bounded-runs.ts';
import { asRunId, type ExportDefinition, type ExportState, type Run } from '../../../lib/core/model.ts';

import {
  aCompletion,
  anEndEntry,
  aPageEntry,
  anExportDefinition,
  aRun,
  aRunResult,
  at,
} from '../../support/builders.ts';
import { createMemoryLog } from '../../support/export/memory-adapters.ts';

const arnOf = (name: string) => `arn:aws:states:us-east-1:123456789012:execution:vendor:${name}`;
const id = asRunId('20261120T020003Z-1f3a5cb2d407');
const first = arnOf('nightly-manual-0123456789abcdef');
const next = (executionNumber: number) => arnOf(`nightly-${id}-${executionNumber}`);
const error = (name: string, more: object = {}) => Object.assign(new Error(name), { name, ...more });

/** The cause that Lambda returns for an error of a function. */
const lambdaCause = (errorType: string, errorMessage: string): string =>
  JSON.stringify({ errorType, errorMessage, trace: [`${errorType}: ${errorMessage}`, '    at file:///index.mjs:1:1'] });

/** When following begins. */
const begin = Date.parse('2026-11-20T02:00:00Z');

type Description = Partial<DescribeExecutionCommandOutput> | Error;

/** A run that is followed: each poll is followed by the next of the given changes. */
function aFollowedRun(input: object = {}) {
  const client = new SFNClient({ region: 'us-east-1' });
  const stepFunctions = mockClient(client);
  const log = createMemoryLog();
  const descriptions = new Map<string, Description>();
  const histories = new Map<string, readonly HistoryEvent[] | Error>();
  const seen: SeenRun[] = [];
  const delays: number[] = [];
  const messages: string[] = [];
  const interruption = new AbortController();
  let now = begin;
  const found = <Value>(value: Value | Error): Value => {
    if (value instanceof Error) throw value;
    return value;
  };
  stepFunctions.on(DescribeExecutionCommand).callsFake(({ executionArn }) => ({
    executionArn,
    ...found(descriptions.get(executionArn) ?? { status: 'RUNNING' as const }),
  }));
  stepFunctions
    .on(GetExecutionHistoryCommand)
    .callsFake(({ executionArn }) => ({ events: found(histories.get(executionArn) ?? []) }));
  const change = async (update: (state: Partial<ExportState>) => Partial<ExportState>, stateName = 'nightly') => {
    const state = (await log.exportState(stateName)) ?? { export: stateName, sequence: 1, version: 0 };
    await log.replaceState({ ...state, ...update(state), version: state.version + 1 });
  };
  return {
    log,
    descriptions,
    histories,
    seen,
    delays,
    messages,
    interrupt: () => interruption.abort(),
    /** Writes the export state as BeginRun does. */
    claim: (changes: Partial<Run> = {}) => {
      const active = aRun({ export: 'nightly', run: id, startedBy: first, execution: first, ...changes });
      return change(() => ({ active }), stateNameOfRun(active));
    },
    /** As FinishRun does. */
    publish: (execution: string) => {
      const lastCompleted = { ...aCompletion(execution), result };
      return change(() => ({ active: undefined, lastCompleted }));
    },
    /** The newest event in the history of the first execution. */
    happened: (newest: HistoryEvent) => void histories.set(first, [newest]),
    async page(page: number, changes: object = {}) {
      await log.append(aPageEntry({ export: 'nightly', run: id, page, bytes: 100, reports: 10, ...changes }));
    },
    end(execution: string, output: unknown) {
      descriptions.set(execution, { status: 'SUCCEEDED', output: JSON.stringify(output) });
    },
    async follow(changes: readonly (() => void | Promise<void>)[], own: Partial<ExportDefinition> = {}) {
      const remaining = [...changes];
      const runtime = {
        now: () => now,
        monotonicNow: () => now,
        async sleep(ms: number, signal?: AbortSignal) {
          delays.push(ms);
          now += ms;
          const next = remaining.shift();
          if (next === undefined) throw new Error('Another poll after the last change');
          await next();
          signal?.throwIfAborted();
        },
        randomHex: () => '0',
      };
      const store = { locate: (key: string) => `s3://bucket/${key}` };
      const deps = { client, definition: { ...definition, ...own }, log, store, runtime };
      return await followExecution(
        deps,
        first,
        { export: 'nightly', ...input },
        {
          onProgress: (run) => seen.push(run),
          notify: (text) => messages.push(text),
          signal: interruption.signal,
        },
      );
    },
  };
}

const continued = {
  export: 'nightly',
  run: id,
  executionNumber: 1,
  page: 2,
  iterations: 1,
  waits: 0,
  next: 'continue',
};

/** What happened in the given second. */
const waited = (second: number): HistoryEvent => ({
  id: second,
  type: 'WaitStateEntered',
  timestamp: new Date(begin + second * 1_000),
  stateEnteredEventDetails: { name: 'WaitForService', input: JSON.stringify({ ...continued, waitSeconds: 90 }) },
});
const failed = (second: number, error: string): HistoryEvent => ({
  id: second,
  type: 'TaskFailed',
  timestamp: new Date(begin + second * 1_000),
  taskFailedEventDetails: { resourceType: 'lambda', resource: 'invoke', error, cause: 'it failed' },
});

const definition = anExportDefinition({ name: 'nightly', dates: { unitMs: 1, zone: 'UTC', upperBound: 'date.lt' } });
const result = aRunResult({ export: 'nightly', run: id, pages: 3 });
const pagesOf = (seen: readonly SeenRun[]) =>
  seen.map(({ pages, isResumed }) => (isResumed ? [pages, 'resumed'] : pages));

describe('following a run', () => {
  it('reports a resumed run, with the pages logged before the start', async () => {
    const run = aFollowedRun();
    await run.page(1);
    const end = run.follow([
      () => run.claim({ startedBy: arnOf('dead'), executionNumber: 2 }),
      () => run.page(2),
      async () => run.end(first, result),
    ]);
    expect(await end).toMatchObject({ status: 'completed' });
    expect(pagesOf(run.seen)).toEqual([
      [1, 'resumed'],
      [2, 'resumed'],
    ]);
    expect(run.seen[0]).toMatchObject({ reports: 10, bytes: 100 });
  });

  it('reports a bounded run by its own state', async () => {
    const bounds = { since: at('2026-01-01T00:00:00Z'), until: at('2026-02-01T00:00:00Z') };
    const run = aFollowedRun(bounds);
    await run.follow([() => run.claim({ ...bounds, bounded: true }), () => run.page(1), () => run.end(first, result)]);
    expect(pagesOf(run.seen)).toEqual([0, 1]);
  });

  it.each([
    [10, true],
    [11, false],
  ])('says whether the next start resumes a complete run with 10 of %i reports', async (minReports, resumable) => {
    const failure = { error: 'ConfigurationError', message: 'Run … has 10 reports' };
    const run = aFollowedRun();
    await run.claim();
    await run.page(1, { nextCursor: null });
    const cause = lambdaCause(failure.error, failure.message);
    run.descriptions.set(first, { status: 'FAILED', error: failure.error, cause });
    expect(await run.follow([], { expect: { minReports } })).toEqual({
      status: 'failed',
      failed: {
        export: 'nightly',
        run: id,
        since: at('2026-11-01T00:00:00Z'),
        pages: 1,
        reports: 10,
        bytes: 100,
        ...failure,
        resumable,
      },
    });
  });

  it('continues with the next execution, named by the output of the previous one or derived from its run', async () => {
    const run = aFollowedRun();
    const second = next(2);
    const third = next(3);
    // Step Functions has started the execution, but does not return it yet.
    run.descriptions.set(second, error('ExecutionDoesNotExist'));
    const end = await run.follow([
      () => run.claim(),
      () => run.end(first, continued),
      () => void run.descriptions.set(second, { status: 'RUNNING' }),
      () => run.claim({ execution: second, executionNumber: 2 }),
      () => run.end(second, { Error: 'StepFunctions.ExecutionAlreadyExistsException', Cause: `Exists: '${third}' (` }),
      () => run.claim({ execution: third, executionNumber: 3 }),
      () => run.end(third, result),
    ]);
    expect(end).toMatchObject({ status: 'completed', result: { run: id } });
    expect(pagesOf(run.seen)).toEqual([0]);
  });

  it.each([
    ['FAILED', { error: 'EventBridge.FailedEntry', cause: 'No' }, 'EventBridge.FailedEntry'],
    ['ABORTED', {}, 'ExecutionAborted'],
  ] as const)(
    'reports a published run as completed, even if its execution %s afterwards',
    async (status, failure, name) => {
      const run = aFollowedRun();
      await run.claim();
      await run.publish(first);
      run.descriptions.set(first, { status, ...failure });
      const end = await run.follow([]);
      expect(end).toEqual({ status: 'completed', result, manifest: `s3://bucket/${result.manifest}` });
      expect(run.messages.at(-1)).toMatch(
        new RegExp(`^The run is published, but .*${name}: .*The event about its completion may be missing$`),
      );
    },
  );

  it('reports a run that starts over as a new one', async () => {
    const run = aFollowedRun();
    const fresh = asRunId('20261120T030000Z-aaaaaab2d407');
    const end = await run.follow([
      () => run.claim(),
      () => run.page(1),
      () => run.claim({ run: fresh }),
      () => run.page(1, { run: fresh }),
      () => run.end(first, { ...result, run: fresh }),
    ]);
    expect(end).toMatchObject({ status: 'completed' });
    expect(pagesOf(run.seen)).toEqual([0, 1, 0, 1]);
    expect(run.seen[2]).toMatchObject({ run: fresh });
  });

  it('reports why an execution skipped, in BeginRun or because another execution took over the run', async () => {
    const superseded = `Run ${id} of export nightly belongs to execution y now; this execution ends here`;
    for (const [reason, output] of [
      ['run x is still being worked on by y', { next: 'skip', reason: 'run x is still being worked on by y' }],
      [superseded, { Error: 'RunSupersededError', Cause: lambdaCause('RunSupersededError', superseded) }],
    ] as const) {
      const run = aFollowedRun();
      run.end(first, output);
      expect(await run.follow([])).toEqual({ status: 'skipped', reason });
    }
  });

  it.each([
    ['TIMED_OUT', 'States.Timeout', 'Timed out'],
    ['ABORTED', 'ExecutionAborted', 'The execution was stopped'],
    // FailRun could not be invoked either.
    ['FAILED', 'Lambda.TooManyRequestsException', 'Rate Exceeded'],
  ] as const)(
    'reports a run that ended with %s from the export state and the page log',
    async (status, name, message) => {
      const description = { status, ...(status === 'FAILED' ? { error: name, cause: message } : {}) };
      const run = aFollowedRun();
      await run.claim();
      await run.page(2);
      run.descriptions.set(first, description);
      const about = { export: 'nightly', error: name, message };
      const known = { run: id, since: at('2026-11-01T00:00:00Z'), pages: 2, reports: 20, bytes: 200, resumable: true };
      expect(await run.follow([])).toMatchObject({ status: 'failed', failed: { ...about, ...known } });

      const unowned = aFollowedRun();
      unowned.descriptions.set(first, description);
      expect(await unowned.follow([])).toMatchObject({ failed: { ...about, run: null, pages: 0, resumable: false } });
    },
  );

  it('says once what seems to hold the run up, if it may read the history', async () => {
    const run = aFollowedRun();
    run.happened(failed(1, 'Lambda.TooManyRequestsException'));
    await run.follow([
      () => undefined,
      () => run.happened(failed(2, 'ServiceUnavailableError')),
      () => run.happened(waited(3)),
      () => void run.histories.set(first, error('AccessDeniedException')),
      () => run.end(first, result),
    ]);
    expect(run.messages).toEqual([
      'Retrying: Lambda.TooManyRequestsException: it failed',
      'Retrying: ServiceUnavailableError: it failed',
      'Waiting 90 s (Retry-After)',
    ]);
  });

  it('ends without a result when it is interrupted; the run continues', async () => {
    const run = aFollowedRun();
    await run.claim();
    expect(await run.follow([() => undefined, run.interrupt])).toEqual({
      status: 'started',
      execution: first,
      run: id,
    });

    const notBegun = aFollowedRun();
    expect(await notBegun.follow([notBegun.interrupt])).toEqual({ status: 'started', execution: first, run: null });
  });

  it('continues while AWS throttles or cannot be reached, however often', async () => {
    const run = aFollowedRun();
    await run.claim();
    const errors = [
      ...Array.from({ length: 10 }, () => error('ThrottlingException')),
      error('InternalServerError', { $metadata: { httpStatusCode: 500 } }),
      new ExportError('ServiceUnavailableError', 'Cannot reach AWS'),
      error('Unlucky', { $retryable: {} }),
    ];
    const outage = [
      ...errors.map((each) => () => void run.descriptions.set(first, each)),
      () => void run.descriptions.delete(first),
    ];
    // Two outages are together longer than one that ends the command.
    const end = await run.follow([...outage, ...outage, () => run.end(first, result)]);
    expect(end).toMatchObject({ status: 'completed' });
  });

  it('gives up on a permanent error, or after many transient errors in a row', async () => {
    const rejected = aFollowedRun();
    const permanent = new ExportError('ConfigurationError', 'The AWS credentials have expired');
    rejected.descriptions.set(first, permanent);
    await expect(rejected.follow([])).rejects.toBe(permanent);

    const broken = aFollowedRun();
    const failure = error('InternalServerError', { $metadata: { httpStatusCode: 500 } });
    broken.descriptions.set(first, failure);
    await expect(broken.follow(Array.from({ length: 30 }, () => () => undefined))).rejects.toBe(failure);
    // The longer it lasts, the less often it is polled.
    expect(broken.delays).toEqual(broken.delays.toSorted((one, other) => one - other));
  });
});

describe('following a run with slices', () => {
  const slices = { count: 3, lengthMs: 3_600_000, parallel: 2 };
  const inSlice = (slice: number, more: object = {}) => ({ slice, attempt: 1, ...more });

  it('reports the slices that are done, and the totals of all of them', async () => {
    const run = aFollowedRun();
    await run.follow([
      () => run.claim({ slices }),
      async () => {
        await run.page(1, inSlice(1));
        await run.page(1, inSlice(2, { nextCursor: null }));
      },
      () => undefined,
      () => run.page(2, inSlice(1, { nextCursor: null })),
      () => run.page(1, inSlice(3)),
      () => run.end(first, result),
    ]);
    const progress = run.seen.map((each) => [each.slices, each.pages, each.reports, each.bytes]);
    expect(progress).toEqual([
      [{ done: 0, count: 3 }, 0, 0, 0],
      [{ done: 1, count: 3 }, 2, 20, 200],
      [{ done: 2, count: 3 }, 3, 30, 300],
      [{ done: 2, count: 3 }, 4, 40, 400],
    ]);
  });

  it('reports how many parents were planned, and those without pages', async () => {
    const run = aFollowedRun();
    const planned = { count: 3, parallel: 2 };
    const missing = anEndEntry(aPageEntry({ export: 'nightly', run: id, ...inSlice(1) }), { page: 1, reason: 'gone' });
    await run.follow([
      () => run.claim(),
      () => run.claim({ slices: planned }),
      async () => void (await run.log.append(missing)),
      () => run.end(first, result),
    ]);
    expect(run.seen.map((each) => each.slices)).toEqual([
      undefined,
      { done: 0, count: 3, parents: { gone: 0, skipped: 0 } },
      { done: 1, count: 3, parents: { gone: 1, skipped: 0 } },
    ]);
  });
});
