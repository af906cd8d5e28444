import {
  type ExecutionListItem,
  GetExecutionHistoryCommand,
  type GetExecutionHistoryCommandInput,
  type HistoryEvent,
  ListExecutionsCommand,
  SFNClient,
} from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { incidentsOf, lastIncidentOf } from '../../../lib/aws/step-functions/incidents.ts';
import type { ExportState } from '../../../lib/core/model.ts';
import { asRunId } from '../../../lib/core/model.ts';
import type { RunSpan } from '../../../lib/core/operations/deployment.ts';
import { aHead, aRun, aRunResult, at, collect } from '../../support/builders.ts';
import { aHistory, aTurn, begun, lambdaCause } from './state-machine-history.ts';

const machine = 'arn:aws:states:us-east-1:123456789012:stateMachine:nightly';
const arnOf = (name: string) => `arn:aws:states:us-east-1:123456789012:execution:nightly:${name}`;
const run = asRunId('20261120T020003Z-1f3a5c');
const span: RunSpan = { export: 'nightly', run, startedAt: at('2026-11-20T02:00:03Z') };
const loop = (page: number, more: object = {}) => aTurn(run, page, more);
const unavailable = lambdaCause('ServiceUnavailableError', 'Report service answered 503 for page 2 of run x');

interface Execution {
  readonly name: string;
  readonly events: readonly HistoryEvent[];
  readonly startDate?: Date;
  readonly stopDate?: Date;
}

/** The newest execution first, as Step Functions lists them; histories come in parts of `partSize`. */
function someExecutions(
  executions: readonly Execution[],
  { head, partSize = 1_000 }: { head?: ExportState; partSize?: number } = {},
) {
  const client = new SFNClient({ region: 'us-east-1' });
  const stepFunctions = mockClient(client);
  const items = executions.map(
    ({ name, events, startDate, stopDate }): ExecutionListItem => ({
      executionArn: arnOf(name),
      stateMachineArn: machine,
      name,
      status: 'RUNNING',
      startDate: startDate ?? events[0]?.timestamp,
      ...(stopDate === undefined ? {} : { stopDate }),
    }),
  );
  stepFunctions.on(ListExecutionsCommand).callsFake(({ maxResults = 100, nextToken = '0' }) => {
    const end = Number(nextToken) + Math.min(maxResults, partSize);
    return {
      executions: items.slice(Number(nextToken), end),
      ...(end < items.length ? { nextToken: String(end) } : {}),
    };
  });
  stepFunctions.on(GetExecutionHistoryCommand).callsFake((asked: GetExecutionHistoryCommandInput) => {
    const { executionArn = '', reverseOrder = false, maxResults = 100, nextToken = '0' } = asked;
    const all = executions.find(({ name }) => arnOf(name) === executionArn)?.events ?? [];
    const events = reverseOrder ? all.toReversed() : all;
    const end = Number(nextToken) + Math.min(maxResults, partSize);
    return { events: events.slice(Number(nextToken), end), ...(end < events.length ? { nextToken: String(end) } : {}) };
  });
  return {
    stepFunctions,
    deps: {
      client,
      stateMachineArn: machine,
      log: { exportState: async () => head },
      now: () => Date.parse('2026-11-20T12:00:00Z'),
    },
  };
}

const incidents = (executions: readonly Execution[], options: { partSize?: number } = {}) =>
  collect(incidentsOf(someExecutions(executions, options).deps, span));
const eventsOf = ({ events }: { readonly events: readonly HistoryEvent[] }, name = 'by-hand-1') => [{ name, events }];

describe('what held a run up', () => {
  it('is every attempt that was repeated, with its page, and every wait', async () => {
    const history = begun(run)
      .step('ExportPage', loop(1), loop(2, { next: 'page' }))
      .choice('NextAction', loop(2, { next: 'page' }))
      .enter('ExportPage', loop(2))
      .scheduled()
      .failed('ServiceUnavailableError', unavailable)
      .scheduled()
      .timedOut()
      .scheduled()
      .failed('Lambda.TooManyRequestsException', 'Rate Exceeded. (Service: Lambda, Status Code: 429, Request ID: 7)')
      .scheduled()
      .exit('ExportPage', loop(2, { next: 'wait', waitSeconds: 90 }))
      .choice('NextAction', loop(2, { next: 'wait', waitSeconds: 90 }))
      .wait(loop(2, { next: 'wait', waitSeconds: 90 }))
      .step('ExportPage', loop(2), loop(3, { next: 'finish' }))
      .choice('NextAction', loop(3, { next: 'finish' }))
      .enter('FinishRun', loop(3, { next: 'finish' }))
      .scheduled()
      .failed('TimeoutError', lambdaCause('TimeoutError', 'connect ETIMEDOUT'))
      .scheduled()
      .exit('FinishRun', aRunResult({ run }));

    expect(await incidents(eventsOf(history))).toEqual([
      {
        kind: 'failed-attempt',
        at: '2026-11-20T02:00:18Z',
        page: 2,
        error: 'ServiceUnavailableError',
        message: 'Report service answered 503 for page 2 of run x',
      },
      {
        kind: 'failed-attempt',
        at: '2026-11-20T02:00:21Z',
        page: 2,
        error: 'States.Timeout',
        message: 'It took more time than it may',
      },
      {
        kind: 'failed-attempt',
        at: '2026-11-20T02:00:24Z',
        page: 2,
        error: 'Lambda.TooManyRequestsException',
        message: 'Rate Exceeded. (Service: Lambda, Status Code: 429, Request ID: 7)',
      },
      { kind: 'wait', at: '2026-11-20T02:00:30Z', page: 2, seconds: 90 },
      {
        kind: 'failed-attempt',
        at: expect.any(String),
        page: null,
        error: 'TimeoutError',
        message: 'connect ETIMEDOUT',
      },
    ]);
  });

  it('is told once where the attempt is the one that the run failed with', async () => {
    const cause = lambdaCause('RequestRejectedError', 'Report service answered 422 for page 1');
    const failure = { Error: 'RequestRejectedError', Cause: cause };
    const history = begun(run)
      .enter('ExportPage', loop(1))
      .scheduled()
      .failed('RequestRejectedError', cause)
      .exit('ExportPage', failure)
      .step('FailRun', failure, { ...failure, failed: { run } })
      .failState({ ...failure, failed: { run } })
      .ended('Failed', { error: 'RequestRejectedError', cause });

    expect(await incidents(eventsOf(history))).toEqual([
      {
        kind: 'failed-run',
        at: expect.any(String),
        page: 1,
        error: 'RequestRejectedError',
        message: 'Report service answered 422 for page 1',
      },
    ]);
  });

  it('is the attempt that waits to be repeated, too, and that of an execution which was stopped meanwhile', async () => {
    const trying = () =>
      begun(run).enter('ExportPage', loop(1)).scheduled().failed('ServiceUnavailableError', unavailable);
    const attempt = { kind: 'failed-attempt', page: 1, error: 'ServiceUnavailableError' };
    expect(await incidents(eventsOf(trying()))).toMatchObject([attempt]);
    for (const [end, error, message] of [
      ['Aborted', 'ExecutionAborted', 'Somebody stopped the execution'],
      ['TimedOut', 'States.Timeout', 'It took more time than it may'],
    ] as const) {
      const stopped = trying().ended(end);
      expect(await incidents(eventsOf(stopped))).toMatchObject([
        attempt,
        { kind: 'failed-run', page: 1, error, message },
      ]);
    }
    expect(await incidents(eventsOf(trying().ended('Aborted', { error: 'Enough', cause: 'for today' })))).toMatchObject(
      [attempt, { kind: 'failed-run', error: 'Enough', message: 'for today' }],
    );
  });

  it('is not that another execution took the run over', async () => {
    const history = begun(run)
      .enter('ExportPage', loop(1))
      .scheduled()
      .failed('RunSupersededError', lambdaCause('RunSupersededError', 'belongs to another now'))
      .exit('ExportPage', {});
    expect(await incidents(eventsOf(history))).toEqual([]);
  });

  it('counts from before BeginRun has said which run it is about', async () => {
    const turnOne = loop(1, { next: 'export' });
    const retried = aHistory()
      .started()
      .enter('BeginRun', {})
      .scheduled()
      .failed('ThrottlingException', 'Slow down')
      .scheduled();
    const expected = [{ kind: 'failed-attempt', page: null, error: 'ThrottlingException', message: 'Slow down' }];
    expect(await incidents(eventsOf(retried))).toEqual([]);
    // A later segment says in its name whose it is.
    expect(await incidents(eventsOf(retried, `${run}-2`))).toMatchObject(expected);
    retried.exit('BeginRun', turnOne).choice('HasWork', turnOne);
    expect(await incidents(eventsOf(retried))).toMatchObject(expected);
  });

  it('is kept apart from what held up the runs before and after in the same execution', async () => {
    const other = '20261120T010000Z-abcdef';
    const history = begun(other)
      .enter('ExportPage', aTurn(other, 7))
      .scheduled()
      .failed('ServiceUnavailableError', unavailable)
      .scheduled()
      // Its cursor was dropped: it starts afresh as another run.
      .exit('ExportPage', loop(1, { next: 'page' }))
      .choice('NextAction', loop(1, { next: 'page' }))
      .enter('ExportPage', loop(1))
      .scheduled()
      .failed('ContractError', lambdaCause('ContractError', 'malformed'))
      .scheduled();
    expect(await incidents(eventsOf(history))).toMatchObject([{ page: 1, error: 'ContractError' }]);
  });

  it('is told in words that fit a terminal, however long and odd they came', async () => {
    const history = begun(run)
      .enter('ExportPage', loop(1))
      .scheduled()
      .failed('Odd\u001b[31mError', lambdaCause('OddError', `first\nsecond \u202e${'x'.repeat(5_000)}`));
    const [incident] = await incidents(eventsOf(history));
    expect(incident).toMatchObject({ error: 'Odd[31mError', message: expect.stringMatching(/^first second x+$/) });
    expect(incident).toHaveProperty('message.length', 1_000);
  });

  it('comes out of all executions of its time in their order, whatever parts lists and histories come in', async () => {
    const failing = (page: number, begins: string) => {
      const history = aHistory(begins).started();
      history.choice('HasWork', loop(page));
      history.enter('ExportPage', loop(page)).scheduled().failed('ServiceUnavailableError', unavailable).scheduled();
      return history.events;
    };
    const executions: Execution[] = [
      { name: `${run}-3`, events: failing(5, '2026-11-20T06:00:00Z') },
      { name: `${run}-2`, events: failing(3, '2026-11-20T04:00:00Z') },
      { name: 'skipped', events: aHistory('2026-11-20T03:00:00Z').started().events },
      { name: 'first', events: failing(1, '2026-11-20T02:00:00Z') },
      // What was over before the run began is not even looked at.
      { name: 'before', events: failing(9, '2026-11-20T01:00:00Z'), stopDate: new Date('2026-11-20T01:30:00Z') },
      { name: 'long-ago', events: failing(8, '2026-11-01T01:00:00Z') },
      { name: 'longer-ago', events: failing(7, '2026-10-01T01:00:00Z') },
    ];
    const { deps, stepFunctions } = someExecutions(executions, { partSize: 2 });

    expect(await collect(incidentsOf(deps, span))).toMatchObject([{ page: 1 }, { page: 3 }, { page: 5 }]);

    const asked = stepFunctions
      .commandCalls(GetExecutionHistoryCommand)
      .map(({ args: [{ input }] }) => input.executionArn);
    expect([...new Set(asked)]).toEqual(['first', 'skipped', `${run}-2`, `${run}-3`].map(arnOf));
    // The list is left as soon as it has come to executions that are too old.
    expect(stepFunctions.commandCalls(ListExecutionsCommand)).toHaveLength(3);
    const until = { ...span, completedAt: at('2026-11-20T04:30:00Z') };
    expect(await collect(incidentsOf(deps, until))).toMatchObject([{ page: 1 }, { page: 3 }]);
  });

  it('is read out of two hundred executions at most, the newest ones', async () => {
    const many = Array.from(
      { length: 250 },
      (_, index): Execution => ({
        name: `${run}-${250 - index}`,
        events: aHistory(new Date(Date.parse('2026-11-20T02:00:00Z') + (250 - index) * 60_000).toISOString()).started()
          .events,
      }),
    );
    const { deps, stepFunctions } = someExecutions(many);
    await collect(incidentsOf(deps, span));
    const asked = stepFunctions
      .commandCalls(GetExecutionHistoryCommand)
      .map(({ args: [{ input }] }) => input.executionArn);
    expect(asked).toHaveLength(200);
    expect([asked[0], asked.at(-1)]).toEqual([arnOf(`${run}-51`), arnOf(`${run}-250`)]);
  });
});

describe('what held a run up last', () => {
  const failing = begun(run)
    .enter('ExportPage', loop(1))
    .scheduled()
    .failed('ServiceUnavailableError', unavailable)
    .scheduled()
    .failed('ContractError', lambdaCause('ContractError', 'malformed'))
    .scheduled().events;
  const active = aRun({ run, export: 'nightly', execution: arnOf('owner') });

  it('is asked of the execution that the head names, in one request', async () => {
    const head = aHead({ export: 'nightly', active });
    const { deps, stepFunctions } = someExecutions([{ name: 'owner', events: failing }], { head });
    expect(await lastIncidentOf(deps, span)).toMatchObject({ error: 'ContractError', message: 'malformed', page: 1 });
    expect(stepFunctions.calls().map(({ args: [{ input }] }) => input)).toEqual([
      { executionArn: arnOf('owner'), reverseOrder: true, maxResults: 200 },
    ]);
  });

  it('is found as well where its run has completed', async () => {
    const lastCompleted = { execution: arnOf('owner'), result: aRunResult({ run }) };
    const { deps } = someExecutions([{ name: 'owner', events: failing }], { head: aHead({ lastCompleted }) });
    expect(await lastIncidentOf(deps, span)).toMatchObject({ error: 'ContractError' });
  });

  it('is none where the run goes smoothly, whatever it met long before', async () => {
    const history = { events: [...failing] };
    const smooth = begun(run);
    for (let page = 1; page <= 60; page += 1) smooth.step('ExportPage', loop(page), loop(page + 1, { next: 'page' }));
    history.events.push(...smooth.events);
    const head = aHead({ export: 'nightly', active });
    const { deps } = someExecutions([{ name: 'owner', events: history.events }], { head });
    expect(await lastIncidentOf(deps, span)).toBeUndefined();
  });

  it('is looked for among the newest executions where the head knows nothing of the run', async () => {
    const skipped = aHistory().started().events;
    const { deps } = someExecutions([
      { name: 'skipped', events: skipped },
      { name: 'other', events: begun('20261120T090000Z-abcdef').events },
      { name: 'owner', events: failing },
    ]);
    expect(await lastIncidentOf(deps, span)).toMatchObject({ error: 'ContractError' });
  });
});
