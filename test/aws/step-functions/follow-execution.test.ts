import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  GetExecutionHistoryCommand,
  type HistoryEvent,
  SFNClient,
} from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { followExecution } from '../../../lib/aws/step-functions/follow-execution.ts';
import { takeSnapshot } from '../../../lib/aws/step-functions/progress-poller.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import { asRunId, type Run } from '../../../lib/core/model.ts';
import type { Retry } from '../../../lib/target/target.ts';
import type { ExportEvent } from '../../../lib/core/ports.ts';
import { aPageEntry, aRun, aRunResult, at } from '../../support/builders.ts';
import { createMemoryLog } from '../../support/export/memory-adapters.ts';
import { aBegunHistory, aLoopState, lambdaCause } from './state-machine-history.ts';

const arnOf = (name: string) => `arn:aws:states:us-east-1:123456789012:execution:vendor:${name}`;
const id = asRunId('20261120T020003Z-1f3a5c');
const first = arnOf('nightly-manual-0123456789abcdef');
const next = (executionNumber: number) => arnOf(`nightly-${id}-${executionNumber}`);
const error = (name: string, more: object = {}) => Object.assign(new Error(name), { name, ...more });

type Description = Partial<DescribeExecutionCommandOutput> | Error;

/** A run that is followed: each poll is followed by the next of the given changes. */
function aFollowedRun() {
  const client = new SFNClient({ region: 'us-east-1' });
  const stepFunctions = mockClient(client);
  const log = createMemoryLog();
  const histories = new Map<string, readonly HistoryEvent[]>();
  const descriptions = new Map<string, Description>();
  const events: ExportEvent[] = [];
  const retries: Retry[] = [];
  const delays: number[] = [];
  const messages: string[] = [];
  const interruption = new AbortController();
  const describeExecution = (executionArn: string) => {
    const description = descriptions.get(executionArn) ?? { status: 'RUNNING' };
    if (description instanceof Error) throw description;
    return { executionArn, ...description };
  };
  stepFunctions.on(DescribeExecutionCommand).callsFake(({ executionArn }) => describeExecution(executionArn));
  stepFunctions.on(GetExecutionHistoryCommand).callsFake(({ executionArn, maxResults }) => ({
    events: (histories.get(executionArn) ?? []).toReversed().slice(0, maxResults),
  }));
  const fixture = {
    stepFunctions,
    log,
    histories,
    descriptions,
    events,
    retries,
    delays,
    messages,
    interrupt: () => interruption.abort(),
    /** Writes the export state as BeginRun does. */
    async claim(changes: Partial<Run> = {}) {
      const state = await log.exportState('nightly');
      const active = aRun({ export: 'nightly', run: id, startedBy: first, execution: first, ...changes });
      await log.replaceState({ export: 'nightly', sequence: 1, version: (state?.version ?? 0) + 1, active });
    },
    /** Writes the export state as FinishRun does. */
    async release() {
      const {
        active: _,
        version = 0,
        ...state
      } = (await log.exportState('nightly')) ?? { export: 'nightly', sequence: 1 };
      await log.replaceState({ ...state, version: version + 1 });
    },
    async publish(execution: string) {
      const {
        active: _,
        version = 0,
        ...state
      } = (await log.exportState('nightly')) ?? { export: 'nightly', sequence: 1 };
      await log.replaceState({
        ...state,
        version: version + 1,
        lastCompleted: { execution, completedAt: at('2026-11-20T02:10:00Z'), result },
      });
    },
    async page(page: number, changes: object = {}) {
      await log.append(aPageEntry({ export: 'nightly', run: id, page, bytes: 100, reports: 10, ...changes }));
    },
    end(execution: string, output: unknown) {
      descriptions.set(execution, { status: 'SUCCEEDED', output: JSON.stringify(output) });
    },
    async follow(
      changes: readonly (() => void | Promise<void>)[],
      before = takeSnapshot(log, 'nightly'),
      followers?: () => number,
    ) {
      const remaining = [...changes];
      let now = 0;
      const clock = {
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
      };
      const store = { locate: (key: string) => `s3://bucket/${key}` };
      return await followExecution({ client, exportName: 'nightly', log, store, clock }, first, await before, {
        follow: true,
        emit: (event) => events.push(event),
        say: (text) => messages.push(text),
        onRetry: (retry) => retries.push(retry),
        signal: interruption.signal,
        followers,
      });
    },
  };
  return fixture;
}

const result = aRunResult({ export: 'nightly', run: id, pages: 3 });
const summarize = (events: readonly ExportEvent[]) =>
  events.map((event) => `${event.event}${'page' in event ? ` ${event.page}` : ''}`);

describe('following a run', () => {
  it('reports the newest page each time there is progress, and the end', async () => {
    const run = aFollowedRun();
    const end = await run.follow([
      () => run.claim(),
      () => run.page(1),
      async () => {
        await run.page(2);
        await run.page(3, { timing: null });
      },
      async () => {
        await run.release();
        run.end(first, result);
      },
    ]);
    expect(end).toEqual({ status: 'completed', result, manifest: `s3://bucket/${result.manifest}` });
    expect(summarize(run.events)).toEqual(['run-started 1', 'page-exported 1', 'page-adopted 3', 'run-completed']);
    expect(run.events[2]).toMatchObject({
      export: 'nightly',
      run: id,
      bytes: 100,
      totalBytes: 300,
      totalReports: 30,
    });
  });

  it('reports a run that has ended before the first poll', async () => {
    const run = aFollowedRun();
    await run.page(3);
    run.end(first, result);
    expect(await run.follow([])).toMatchObject({ status: 'completed' });
    expect(summarize(run.events)).toEqual(['run-started 1', 'page-exported 3', 'run-completed']);
  });

  it('reports a resumed run, with the pages logged before the start', async () => {
    const run = aFollowedRun();
    await run.claim({ execution: arnOf('dead') });
    await run.page(1);
    const end = run.follow([
      () => run.claim({ execution: first, executionNumber: 2 }),
      () => run.page(2),
      async () => run.end(first, result),
    ]);
    expect(await end).toMatchObject({ status: 'completed' });
    expect(run.events[0]).toMatchObject({
      event: 'run-resumed',
      page: 2,
      pages: 1,
      reports: 10,
      bytes: 100,
      executionNumber: 2,
    });
    expect(summarize(run.events)).toEqual(['run-resumed 2', 'page-exported 2', 'run-completed']);
  });

  it('continues with the next execution, named by the output of the previous one or derived from its run', async () => {
    const run = aFollowedRun();
    const second = next(2);
    const third = next(3);
    // Step Functions has started the execution, but does not return it yet.
    run.descriptions.set(second, error('ExecutionDoesNotExist'));
    const end = await run.follow([
      () => run.claim(),
      () => run.end(first, aLoopState(id, 2, { next: 'continue' })),
      () => void run.descriptions.set(second, { status: 'RUNNING' }),
      () => run.claim({ execution: second, executionNumber: 2 }),
      () => run.end(second, { Error: 'StepFunctions.ExecutionAlreadyExistsException', Cause: 'It exists' }),
      () => run.claim({ execution: third, executionNumber: 3 }),
      () => run.end(third, result),
    ]);
    expect(end).toMatchObject({ status: 'completed', result: { run: id } });
    expect(summarize(run.events)).toEqual(['run-started 1', 'run-completed']);
  });

  it('continues with the execution named by ExecutionAlreadyExists if it never saw the run of the previous one', async () => {
    const run = aFollowedRun();
    const second = next(2);
    const third = next(3);
    const Cause = `Execution Already Exists: '${third}' (Service: Sfn, Status Code: 400, Request ID: 1)`;
    const end = await run.follow([
      () => run.claim(),
      () => {
        run.end(first, aLoopState(id, 2, { next: 'continue' }));
        run.end(second, { Error: 'StepFunctions.ExecutionAlreadyExistsException', Cause });
        run.end(third, result);
      },
    ]);
    expect(end).toMatchObject({ status: 'completed' });
  });

  it('reports a published run as completed, even if its execution failed afterwards', async () => {
    for (const [status, name] of [
      ['FAILED', 'EventBridge.FailedEntry'],
      ['ABORTED', 'ExecutionAborted'],
    ] as const) {
      const run = aFollowedRun();
      await run.claim();
      await run.page(3);
      await run.publish(first);
      const failure = status === 'FAILED' ? { error: name, cause: 'No' } : {};
      const failed = { run: null, since: null, pages: 0, reports: 0, bytes: 0, message: 'No', resumable: false };
      run.histories.set(first, aBegunHistory(id).failState({ failed }).ended('Failed', failure).events);
      run.descriptions.set(first, { status, ...failure });
      const end = await run.follow([], Promise.resolve({ active: undefined, last: undefined }));
      expect(end).toEqual({ status: 'completed', result, manifest: `s3://bucket/${result.manifest}` });
      expect(run.messages.at(-1)).toMatch(
        new RegExp(`^The run is published, but .*${name}: .*The event about its completion may be missing$`),
      );
    }
  });

  it('reports a run that starts over because the service rejected its cursor', async () => {
    const run = aFollowedRun();
    const fresh = asRunId('20261120T030000Z-aaaaaa');
    const end = await run.follow([
      () => run.claim(),
      () => run.page(1),
      () => run.claim({ run: fresh }),
      () => run.page(1, { run: fresh }),
      () => run.end(first, { ...result, run: fresh }),
    ]);
    expect(end).toMatchObject({ status: 'completed' });
    expect(summarize(run.events)).toEqual([
      'run-started 1',
      'page-exported 1',
      'run-restarted',
      'page-exported 1',
      'run-completed',
    ]);
    expect(run.events[2]).toMatchObject({ run: fresh, abandoned: id });
  });

  it('reports why an execution skipped, in BeginRun or because another execution took over the run', async () => {
    const skipped = aFollowedRun();
    skipped.end(first, { next: 'skip', export: 'nightly', reason: 'run x is still being worked on by y' });
    expect(await skipped.follow([])).toEqual({ status: 'skipped', reason: 'run x is still being worked on by y' });
    expect(summarize(skipped.events)).toEqual(['run-skipped']);

    const superseded = aFollowedRun();
    const message = `Run ${id} of export nightly belongs to execution y now; this execution ends here`;
    superseded.end(first, { Error: 'RunSupersededError', Cause: lambdaCause('RunSupersededError', message) });
    expect(await superseded.follow([])).toEqual({ status: 'skipped', reason: message });
  });

  it.each([
    ['', (output: object) => ({ Payload: output })],
    [', in an execution of version 1.0', (output: object) => output],
  ])('reports a failed run with what FailRun returned%s', async (_, stateOf) => {
    const run = aFollowedRun();
    const cause = lambdaCause('CursorRejectedError', 'Report service responded with 410');
    const failRunOutput = {
      run: id,
      since: '2026-11-01T00:00:00Z',
      pages: 2,
      reports: null,
      bytes: 200,
      message: 'Report service responded with 410',
      resumable: false,
    };
    const failure = { Error: 'CursorRejectedError', Cause: cause };
    run.histories.set(
      first,
      aBegunHistory(id)
        .failState({ ...failure, failed: stateOf(failRunOutput) })
        .ended('Failed', { error: 'CursorRejectedError', cause }).events,
    );
    run.descriptions.set(first, { status: 'FAILED', error: 'CursorRejectedError', cause });
    const failed = { export: 'nightly', error: 'CursorRejectedError', ...failRunOutput };
    expect(await run.follow([])).toEqual({ status: 'failed', failed });
    expect(run.events).toEqual([{ event: 'run-failed', ...failed }]);
  });

  it.each([
    ['TIMED_OUT', 'States.Timeout', 'Timed out'],
    ['ABORTED', 'ExecutionAborted', 'The execution was stopped'],
    // FailRun could not be invoked either.
    ['FAILED', 'Lambda.TooManyRequestsException', 'Rate Exceeded'],
  ] as const)(
    'reports a run that ended with %s from the export state and the page log',
    async (status, name, message) => {
      const run = aFollowedRun();
      await run.claim();
      await run.page(2);
      run.descriptions.set(first, { status, ...(status === 'FAILED' ? { error: name, cause: message } : {}) });
      const about = { export: 'nightly', error: name, message };
      expect(await run.follow([], Promise.resolve({ active: undefined, last: undefined }))).toMatchObject({
        status: 'failed',
        failed: {
          ...about,
          run: id,
          since: at('2026-11-01T00:00:00Z'),
          pages: 2,
          reports: 20,
          bytes: 200,
          resumable: true,
        },
      });

      const unowned = aFollowedRun();
      unowned.descriptions.set(first, { status, ...(status === 'FAILED' ? { error: name, cause: message } : {}) });
      expect(await unowned.follow([])).toMatchObject({ failed: { ...about, run: null, pages: 0, resumable: false } });
    },
  );

  it('reports each retry and each wait once while there is no progress', async () => {
    const run = aFollowedRun();
    await run.claim();
    const unavailable = lambdaCause('ServiceUnavailableError', 'responded with 503');
    const failing = ['ServiceUnavailableError', unavailable] as const;
    const loop = aLoopState(id, 1);
    const trying = aBegunHistory(id).enter('ExportPage', loop).scheduled();
    const see = ({ events }: typeof trying) => void run.histories.set(first, [...events]);
    see(trying.failed(...failing));
    await run.follow([
      () => undefined,
      () => undefined,
      () => see(trying.scheduled().failed(...failing)),
      () =>
        see(
          trying
            .scheduled()
            .exit('ExportPage', {})
            .wait(aLoopState(id, 1, { next: 'wait', waitSeconds: 90 })),
        ),
      // An error that is not retried is reported when the run fails.
      () => see(trying.enter('ExportPage', loop).scheduled().failed('ConfigurationError', '{}')),
      () => run.end(first, result),
    ]);
    expect(run.retries).toEqual(
      [1, 2].map((attempt) => ({
        state: 'ExportPage',
        error: 'ServiceUnavailableError',
        message: 'responded with 503',
        attempt,
        maxAttempts: 20,
        maxDelaySeconds: 2 ** attempt,
      })),
    );
    expect(run.events.filter(({ event }) => event === 'service-asked-to-wait')).toEqual([
      { event: 'service-asked-to-wait', export: 'nightly', run: id, page: 1, seconds: 90, inside: false },
    ]);
  });

  it('reports each wait for a slot once, while it lasts, and not as a wait for the service', async () => {
    const run = aFollowedRun();
    await run.claim();
    const queued = aLoopState(id, 4, { next: 'queue', waitSeconds: 12 });
    const waiting = aBegunHistory(id).step('ExportPage', aLoopState(id, 4), queued).choice('NextAction', queued);
    const see = ({ events }: typeof waiting) => void run.histories.set(first, [...events]);
    see(waiting.waiting(queued, 'WaitForSlot'));
    await run.follow([
      () => undefined,
      () => undefined,
      () => see(waiting.step('ExportPage', aLoopState(id, 4), queued).choice('NextAction', queued)),
      () => see(waiting.waiting(queued, 'WaitForSlot')),
      () => run.end(first, result),
    ]);
    const wait = { event: 'waiting-for-slot', export: 'nightly', run: id, page: 4, seconds: 12 };
    expect(run.events.filter(({ event }) => event.startsWith('wait') || event === 'service-asked-to-wait')).toEqual([
      wait,
      wait,
    ]);
  });

  it('polls each of many runs less frequently', async () => {
    const delaysOf = async (followers: number) => {
      const run = aFollowedRun();
      await run.claim();
      await run.follow(
        [() => undefined, () => run.end(first, result)],
        takeSnapshot(run.log, 'nightly'),
        () => followers,
      );
      return run.delays;
    };
    expect(await delaysOf(1)).toEqual([1_000, 1_000]);
    expect(await delaysOf(5)).toEqual([1_000, 1_000]);
    expect(await delaysOf(100)).toEqual([20_000, 20_000]);
    expect(await delaysOf(400)).toEqual([80_000, 80_000]);
  });

  it('counts retries separately for each kind of error, as Step Functions does', async () => {
    const run = aFollowedRun();
    await run.claim();
    const trying = aBegunHistory(id).enter('ExportPage', aLoopState(id, 1)).scheduled();
    for (const error of ['ServiceUnavailableError', 'ServiceUnavailableError', 'States.Timeout', 'ContractError']) {
      trying.failed(error, lambdaCause(error, 'failed')).scheduled();
    }
    run.histories.set(first, trying.events);
    await run.follow([() => undefined, () => run.end(first, result)]);
    expect(run.retries.map(({ error, attempt, maxAttempts }) => [error, attempt, maxAttempts])).toEqual([
      ['ServiceUnavailableError', 1, 20],
      ['ServiceUnavailableError', 2, 20],
      ['States.Timeout', 3, 20],
      ['ContractError', 1, 2],
    ]);
    // They have begun, so their delays are over.
    for (const retry of run.retries) expect(retry).not.toHaveProperty('maxDelaySeconds');
  });

  it('does not read the history while there is progress', async () => {
    const run = aFollowedRun();
    await run.claim();
    await run.follow([() => run.page(1), () => run.page(2), () => run.page(3), () => run.end(first, result)]);
    expect(run.stepFunctions.commandCalls(GetExecutionHistoryCommand)).toEqual([]);
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

  it('continues, polling less frequently, while AWS throttles or cannot be reached', async () => {
    const run = aFollowedRun();
    await run.claim();
    const errors = [
      ...Array.from({ length: 100 }, () => error('ThrottlingException')),
      error('InternalServerError', { $fault: 'server' }),
      new ExportError('ServiceUnavailableError', 'Cannot reach AWS'),
      error('Unlucky', { $retryable: {} }),
    ];
    const end = await run.follow([
      ...errors.map((each) => () => void run.descriptions.set(first, each)),
      () => run.end(first, result),
    ]);
    expect(end).toMatchObject({ status: 'completed' });
    expect(run.delays.slice(0, 3)).toEqual([1_000, 2_000, 3_000]);
    expect(Math.max(...run.delays)).toBe(30_000);
  });

  it('gives up on a permanent error, or after 20 transient errors in a row', async () => {
    const rejected = aFollowedRun();
    const permanent = new ExportError('ConfigurationError', 'The AWS credentials have expired');
    rejected.descriptions.set(first, permanent);
    await expect(rejected.follow([])).rejects.toBe(permanent);

    const broken = aFollowedRun();
    const failure = error('InternalServerError', { $fault: 'server' });
    broken.descriptions.set(first, failure);
    await expect(broken.follow(Array.from({ length: 30 }, () => () => undefined))).rejects.toBe(failure);
    expect(broken.delays).toHaveLength(20);
    expect(Math.max(...broken.delays)).toBe(30_000);
  });
});
