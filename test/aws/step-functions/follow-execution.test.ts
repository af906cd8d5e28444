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
import { standOf } from '../../../lib/aws/step-functions/progress-poller.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import { asRunId, type Run } from '../../../lib/core/model.ts';
import type { Retry } from '../../../lib/core/operations/deployment.ts';
import type { ExportEvent } from '../../../lib/core/ports.ts';
import { aPageEntry, aRun, aRunResult, at } from '../../support/builders.ts';
import { createMemoryLog } from '../../support/memory-adapters.ts';
import { aTurn, begun, lambdaCause } from './state-machine-history.ts';

const arnOf = (name: string) => `arn:aws:states:us-east-1:123456789012:execution:nightly:${name}`;
const id = asRunId('20261120T020003Z-1f3a5c');
const first = arnOf('by-hand-1');
const error = (name: string, more: object = {}) => Object.assign(new Error(name), { name, ...more });

type Answer = Partial<DescribeExecutionCommandOutput> | Error;

/** An execution under a watcher's eyes: with each second that passes, the next of what `happens`. */
function aWatchedRun() {
  const client = new SFNClient({ region: 'us-east-1' });
  const stepFunctions = mockClient(client);
  const log = createMemoryLog();
  const histories = new Map<string, readonly HistoryEvent[]>();
  const answers = new Map<string, Answer>();
  const events: ExportEvent[] = [];
  const retries: Retry[] = [];
  const pauses: number[] = [];
  const said: string[] = [];
  const interruption = new AbortController();
  const answered = (answer: Answer) => {
    if (answer instanceof Error) throw answer;
    return answer;
  };
  stepFunctions
    .on(DescribeExecutionCommand)
    .callsFake(({ executionArn }) =>
      answered({ executionArn, ...answered(answers.get(executionArn) ?? { status: 'RUNNING' }) }),
    );
  stepFunctions.on(GetExecutionHistoryCommand).callsFake(({ executionArn, maxResults }) => ({
    events: (histories.get(executionArn) ?? []).toReversed().slice(0, maxResults),
  }));
  const world = {
    stepFunctions,
    log,
    histories,
    answers,
    events,
    retries,
    pauses,
    said,
    interrupt: () => interruption.abort(),
    /** The head, as BeginRun leaves it. */
    async own(changes: Partial<Run> = {}) {
      const head = await log.exportState('nightly');
      const active = aRun({ export: 'nightly', run: id, startedBy: first, execution: first, ...changes });
      await log.replaceState({ export: 'nightly', sequence: 1, version: (head?.version ?? 0) + 1, active });
    },
    /** As FinishRun leaves it. */
    async release() {
      const {
        active: _,
        version = 0,
        ...head
      } = (await log.exportState('nightly')) ?? { export: 'nightly', sequence: 1 };
      await log.replaceState({ ...head, version: version + 1 });
    },
    async publish(execution: string) {
      const {
        active: _,
        version = 0,
        ...head
      } = (await log.exportState('nightly')) ?? { export: 'nightly', sequence: 1 };
      await log.replaceState({ ...head, version: version + 1, lastCompleted: { execution, result } });
    },
    async page(page: number, changes: object = {}) {
      await log.append(aPageEntry({ export: 'nightly', run: id, page, bytes: 100, reports: 10, ...changes }));
    },
    end(execution: string, output: unknown) {
      answers.set(execution, { status: 'SUCCEEDED', output: JSON.stringify(output) });
    },
    async watch(happens: readonly (() => void | Promise<void>)[], before = standOf(log, 'nightly')) {
      const left = [...happens];
      let now = 0;
      const clock = {
        now: () => now,
        async sleep(ms: number, signal?: AbortSignal) {
          pauses.push(ms);
          now += ms;
          const next = left.shift();
          if (next === undefined) throw new Error('The watcher waits for what never comes');
          await next();
          signal?.throwIfAborted();
        },
      };
      const store = { locate: (key: string) => `s3://bucket/${key}` };
      return await followExecution({ client, exportName: 'nightly', log, store, clock }, first, await before, {
        follow: true,
        emit: (event) => events.push(event),
        say: (text) => said.push(text),
        onRetry: (retry) => retries.push(retry),
        signal: interruption.signal,
      });
    },
  };
  return world;
}

const result = aRunResult({ export: 'nightly', run: id, pages: 3 });
const named = (events: readonly ExportEvent[]) =>
  events.map((event) => `${event.event}${'page' in event ? ` ${event.page}` : ''}`);

describe('a run that is followed', () => {
  it('is told as it gets on, with the newest page each time, to its end', async () => {
    const world = aWatchedRun();
    const end = await world.watch([
      () => world.own(),
      () => world.page(1),
      async () => {
        await world.page(2);
        await world.page(3, { timing: null });
      },
      async () => {
        await world.release();
        world.end(first, result);
      },
    ]);
    expect(end).toEqual({ status: 'completed', result, manifest: `s3://bucket/${result.manifest}` });
    expect(named(world.events)).toEqual(['run-started 1', 'page-exported 1', 'page-adopted 3', 'run-completed']);
    expect(world.events[2]).toMatchObject({
      export: 'nightly',
      run: id,
      bytes: 100,
      totalBytes: 300,
      totalReports: 30,
    });
  });

  it('is told in full as well where it is over before anybody looks', async () => {
    const world = aWatchedRun();
    await world.page(3);
    world.end(first, result);
    expect(await world.watch([])).toMatchObject({ status: 'completed' });
    expect(named(world.events)).toEqual(['run-started 1', 'page-exported 3', 'run-completed']);
  });

  it('goes on behind what was there before the start', async () => {
    const world = aWatchedRun();
    await world.own({ execution: arnOf('dead') });
    await world.page(1);
    const end = world.watch([
      () => world.own({ execution: first, executionNumber: 2 }),
      () => world.page(2),
      async () => world.end(first, result),
    ]);
    expect(await end).toMatchObject({ status: 'completed' });
    expect(world.events[0]).toMatchObject({
      event: 'run-resumed',
      page: 2,
      pages: 1,
      reports: 10,
      bytes: 100,
      executionNumber: 2,
    });
    expect(named(world.events)).toEqual(['run-resumed 2', 'page-exported 2', 'run-completed']);
  });

  it('is followed into the next execution, by what the one before says, or by what it was working on', async () => {
    const world = aWatchedRun();
    const second = arnOf(`${id}-2`);
    const third = arnOf(`${id}-3`);
    // Step Functions has begun the execution, and does not know it everywhere yet.
    world.answers.set(second, error('ExecutionDoesNotExist'));
    const end = await world.watch([
      () => world.own(),
      () => world.end(first, aTurn(id, 2, { next: 'continue' })),
      () => void world.answers.set(second, { status: 'RUNNING' }),
      () => world.own({ execution: second, executionNumber: 2 }),
      () => world.end(second, { Error: 'StepFunctions.ExecutionAlreadyExistsException', Cause: 'It exists' }),
      () => world.own({ execution: third, executionNumber: 3 }),
      () => world.end(third, result),
    ]);
    expect(end).toMatchObject({ status: 'completed', result: { run: id } });
    expect(named(world.events)).toEqual(['run-started 1', 'run-completed']);
  });

  it('is followed into the execution that stands in the way, where it was not seen at work itself', async () => {
    const world = aWatchedRun();
    const second = arnOf(`${id}-2`);
    const third = arnOf(`${id}-3`);
    const Cause = `Execution Already Exists: '${third}' (Service: Sfn, Status Code: 400, Request ID: 1)`;
    const end = await world.watch([
      () => world.own(),
      () => {
        world.end(first, aTurn(id, 2, { next: 'continue' }));
        world.end(second, { Error: 'StepFunctions.ExecutionAlreadyExistsException', Cause });
        world.end(third, result);
      },
    ]);
    expect(end).toMatchObject({ status: 'completed' });
  });

  it('is completed where it was published, even if its execution came to a bad end behind that', async () => {
    for (const [status, name] of [
      ['FAILED', 'EventBridge.FailedEntry'],
      ['ABORTED', 'ExecutionAborted'],
    ] as const) {
      const world = aWatchedRun();
      await world.own();
      await world.page(3);
      await world.publish(first);
      const failure = status === 'FAILED' ? { error: name, cause: 'No' } : {};
      const told = { run: null, since: null, pages: 0, reports: 0, bytes: 0, message: 'No', resumable: false };
      world.histories.set(first, begun(id).failState({ failed: told }).ended('Failed', failure).events);
      world.answers.set(first, { status, ...failure });
      const end = await world.watch([], Promise.resolve({ active: undefined, last: undefined }));
      expect(end).toEqual({ status: 'completed', result, manifest: `s3://bucket/${result.manifest}` });
      expect(world.said.at(-1)).toMatch(
        new RegExp(`^The run is published, but .*${name}: .*; no event may tell of it$`),
      );
    }
  });

  it('is told afresh where the service dropped its cursor', async () => {
    const world = aWatchedRun();
    const fresh = asRunId('20261120T030000Z-aaaaaa');
    const end = await world.watch([
      () => world.own(),
      () => world.page(1),
      () => world.own({ run: fresh }),
      () => world.page(1, { run: fresh }),
      () => world.end(first, { ...result, run: fresh }),
    ]);
    expect(end).toMatchObject({ status: 'completed' });
    expect(named(world.events)).toEqual([
      'run-started 1',
      'page-exported 1',
      'run-restarted',
      'page-exported 1',
      'run-completed',
    ]);
    expect(world.events[2]).toMatchObject({ run: fresh, abandoned: id });
  });

  it('that is skipped says why, whether in BeginRun or because another took it over', async () => {
    const skipped = aWatchedRun();
    skipped.end(first, { next: 'skip', export: 'nightly', reason: 'run x is still being worked on by y' });
    expect(await skipped.watch([])).toEqual({ status: 'skipped', reason: 'run x is still being worked on by y' });
    expect(named(skipped.events)).toEqual(['run-skipped']);

    const superseded = aWatchedRun();
    const message = `Run ${id} of export nightly belongs to execution y now; this execution ends here`;
    superseded.end(first, { Error: 'RunSupersededError', Cause: lambdaCause('RunSupersededError', message) });
    expect(await superseded.watch([])).toEqual({ status: 'skipped', reason: message });
  });

  it('that fails says so in the words of FailRun', async () => {
    const world = aWatchedRun();
    const cause = lambdaCause('CursorRejectedError', 'Report service answered 410');
    const told = {
      run: id,
      since: '2026-11-01T00:00:00Z',
      pages: 2,
      reports: null,
      bytes: 200,
      message: 'Report service answered 410',
      resumable: false,
    };
    const failure = { Error: 'CursorRejectedError', Cause: cause };
    world.histories.set(
      first,
      begun(id)
        .failState({ ...failure, failed: told })
        .ended('Failed', { error: 'CursorRejectedError', cause }).events,
    );
    world.answers.set(first, { status: 'FAILED', error: 'CursorRejectedError', cause });
    const failed = { export: 'nightly', error: 'CursorRejectedError', ...told };
    expect(await world.watch([])).toEqual({ status: 'failed', failed });
    expect(world.events).toEqual([{ event: 'run-failed', ...failed }]);
  });

  it.each([
    ['TIMED_OUT', 'States.Timeout', 'It took more time than it may'],
    ['ABORTED', 'ExecutionAborted', 'Somebody stopped the execution'],
    // Where not even FailRun could be made.
    ['FAILED', 'Lambda.TooManyRequestsException', 'Rate Exceeded'],
  ] as const)('that cannot say how it ended, %s, is told by the head and the log', async (status, name, message) => {
    const world = aWatchedRun();
    await world.own();
    await world.page(2);
    world.answers.set(first, { status, ...(status === 'FAILED' ? { error: name, cause: message } : {}) });
    const about = { export: 'nightly', error: name, message };
    expect(await world.watch([], Promise.resolve({ active: undefined, last: undefined }))).toMatchObject({
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

    const unowned = aWatchedRun();
    unowned.answers.set(first, { status, ...(status === 'FAILED' ? { error: name, cause: message } : {}) });
    expect(await unowned.watch([])).toMatchObject({ failed: { ...about, run: null, pages: 0, resumable: false } });
  });

  it('is told of each failed attempt and each wait once, while it stands still', async () => {
    const world = aWatchedRun();
    await world.own();
    const unavailable = lambdaCause('ServiceUnavailableError', 'answered 503');
    const failing = ['ServiceUnavailableError', unavailable] as const;
    const loop = aTurn(id, 1);
    const trying = begun(id).enter('ExportPage', loop).scheduled();
    const see = ({ events }: typeof trying) => void world.histories.set(first, [...events]);
    see(trying.failed(...failing));
    await world.watch([
      () => undefined,
      () => undefined,
      () => see(trying.scheduled().failed(...failing)),
      () =>
        see(
          trying
            .scheduled()
            .exit('ExportPage', {})
            .wait(aTurn(id, 1, { next: 'wait', waitSeconds: 90 })),
        ),
      // What is not repeated is told at the end, by itself.
      () => see(trying.enter('ExportPage', loop).scheduled().failed('ConfigurationError', '{}')),
      () => world.end(first, result),
    ]);
    expect(world.retries).toEqual(
      [1, 2].map((attempt) => ({
        state: 'ExportPage',
        error: 'ServiceUnavailableError',
        message: 'answered 503',
        attempt,
        attempts: 20,
      })),
    );
    expect(world.events.filter(({ event }) => event === 'service-asked-to-wait')).toEqual([
      { event: 'service-asked-to-wait', export: 'nightly', run: id, page: 1, seconds: 90, inside: false },
    ]);
  });

  it('does not have its history read while it gets on', async () => {
    const world = aWatchedRun();
    await world.own();
    await world.watch([() => world.page(1), () => world.page(2), () => world.page(3), () => world.end(first, result)]);
    expect(world.stepFunctions.commandCalls(GetExecutionHistoryCommand)).toEqual([]);
  });

  it('goes on when nobody watches any more', async () => {
    const world = aWatchedRun();
    await world.own();
    expect(await world.watch([() => undefined, world.interrupt])).toEqual({
      status: 'started',
      execution: first,
      run: id,
    });

    const unknown = aWatchedRun();
    expect(await unknown.watch([unknown.interrupt])).toEqual({ status: 'started', execution: first, run: null });
  });

  it('is watched on, if more seldom, while AWS throttles or cannot be reached', async () => {
    const world = aWatchedRun();
    await world.own();
    const trouble = [
      ...Array.from({ length: 100 }, () => error('ThrottlingException')),
      error('InternalServerError', { $fault: 'server' }),
      new ExportError('ServiceUnavailableError', 'AWS cannot be reached'),
      error('Unlucky', { $retryable: {} }),
    ];
    const end = await world.watch([
      ...trouble.map((each) => () => void world.answers.set(first, each)),
      () => world.end(first, result),
    ]);
    expect(end).toMatchObject({ status: 'completed' });
    expect(world.pauses.slice(0, 3)).toEqual([1_000, 2_000, 3_000]);
    expect(Math.max(...world.pauses)).toBe(30_000);
  });

  it('is given up where asking will not help, or has not helped for long', async () => {
    const forbidden = aWatchedRun();
    const refusal = new ExportError('ConfigurationError', 'The AWS credentials have expired');
    forbidden.answers.set(first, refusal);
    await expect(forbidden.watch([])).rejects.toBe(refusal);

    const broken = aWatchedRun();
    const failure = error('InternalServerError', { $fault: 'server' });
    broken.answers.set(first, failure);
    await expect(broken.watch(Array.from({ length: 30 }, () => () => undefined))).rejects.toBe(failure);
    expect(broken.pauses).toHaveLength(20);
    expect(Math.max(...broken.pauses)).toBe(30_000);
  });
});
