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
import {
  countIncidentsOf,
  createExecutionCache,
  incidentsOf,
  lastIncidentOf,
} from '../../../lib/aws/step-functions/incidents.ts';
import type { ExportState } from '../../../lib/core/model.ts';
import { asRunId } from '../../../lib/core/model.ts';
import type { RunSpan } from '../../../lib/target/target.ts';
import { aCompletion, anExportState, aRun, aRunResult, at, collect } from '../../support/builders.ts';
import { aBegunHistory, aHistory, aLoopState, lambdaCause } from './state-machine-history.ts';

const machine = 'arn:aws:states:us-east-1:123456789012:stateMachine:vendor';
const arnOf = (name: string) => `arn:aws:states:us-east-1:123456789012:execution:vendor:${name}`;
const manual = (exportName: string, number = 1) => `${exportName}-manual-${String(number).padStart(16, '0')}`;
const continuation = (number: number) => `nightly-${run}-${number}`;
const run = asRunId('20261120T020003Z-1f3a5c');
const span: RunSpan = { export: 'nightly', run, startedAt: at('2026-11-20T02:00:03Z') };
const loop = (page: number, more: object = {}) => aLoopState(run, page, more);
const unavailable = lambdaCause('ServiceUnavailableError', 'Report service responded with 503 for page 2 of run x');

interface Execution {
  readonly name: string;
  readonly events: readonly HistoryEvent[];
  readonly startDate?: Date;
  readonly stopDate?: Date;
}

/** The newest execution first, as Step Functions lists them. Lists and histories have pages of `pageSize`. */
function aMockedClient(
  executions: readonly Execution[],
  { state, pageSize = 1_000 }: { state?: ExportState; pageSize?: number } = {},
) {
  const client = new SFNClient({ region: 'us-east-1' });
  const stepFunctions = mockClient(client);
  const items = executions.map(({ name, events, startDate, stopDate }): ExecutionListItem => ({
    executionArn: arnOf(name),
    stateMachineArn: machine,
    name,
    status: 'RUNNING',
    startDate: startDate ?? events[0]?.timestamp,
    ...(stopDate === undefined ? {} : { stopDate }),
  }));
  stepFunctions.on(ListExecutionsCommand).callsFake(({ maxResults = 100, nextToken = '0' }) => {
    const end = Number(nextToken) + Math.min(maxResults, pageSize);
    return {
      executions: items.slice(Number(nextToken), end),
      ...(end < items.length ? { nextToken: String(end) } : {}),
    };
  });
  stepFunctions.on(GetExecutionHistoryCommand).callsFake((input: GetExecutionHistoryCommandInput) => {
    const { executionArn = '', reverseOrder = false, maxResults = 100, nextToken = '0' } = input;
    const all = executions.find(({ name }) => arnOf(name) === executionArn)?.events ?? [];
    const events = reverseOrder ? all.toReversed() : all;
    const end = Number(nextToken) + Math.min(maxResults, pageSize);
    return { events: events.slice(Number(nextToken), end), ...(end < events.length ? { nextToken: String(end) } : {}) };
  });
  return {
    stepFunctions,
    deps: {
      client,
      stateMachineArn: machine,
      log: { exportState: async () => state },
      now: () => Date.parse('2026-11-20T12:00:00Z'),
    },
  };
}

const incidents = (executions: readonly Execution[], options: { pageSize?: number } = {}) =>
  collect(incidentsOf(aMockedClient(executions, options).deps, span));
const oneExecution = ({ events }: { readonly events: readonly HistoryEvent[] }, name = manual('nightly')) => [
  { name, events },
];

type MockedClient = ReturnType<typeof aMockedClient>['stepFunctions'];
const historyRequests = (stepFunctions: MockedClient) =>
  stepFunctions.commandCalls(GetExecutionHistoryCommand).map(({ args: [{ input }] }) => input);
const startInputsRead = (stepFunctions: MockedClient) =>
  historyRequests(stepFunctions).flatMap(({ executionArn, maxResults }) => (maxResults === 1 ? [executionArn] : []));
const historiesRead = (stepFunctions: MockedClient) =>
  historyRequests(stepFunctions).flatMap(({ executionArn, maxResults }) => (maxResults === 1 ? [] : [executionArn]));

describe('the incidents of a run', () => {
  it('are the attempts that were retried, with their page, and the waits', async () => {
    const history = aBegunHistory(run)
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

    expect(await incidents(oneExecution(history))).toEqual([
      {
        kind: 'failed-attempt',
        at: '2026-11-20T02:00:18Z',
        page: 2,
        error: 'ServiceUnavailableError',
        message: 'Report service responded with 503 for page 2 of run x',
      },
      {
        kind: 'failed-attempt',
        at: '2026-11-20T02:00:21Z',
        page: 2,
        error: 'States.Timeout',
        message: 'Timed out',
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

  it('show the last attempt and the failure of the run as one', async () => {
    const cause = lambdaCause('RequestRejectedError', 'Report service responded with 422 for page 1');
    const failure = { Error: 'RequestRejectedError', Cause: cause };
    const history = aBegunHistory(run)
      .enter('ExportPage', loop(1))
      .scheduled()
      .failed('RequestRejectedError', cause)
      .exit('ExportPage', failure)
      .step('FailRun', failure, { ...failure, failed: { run } })
      .failState({ ...failure, failed: { run } })
      .ended('Failed', { error: 'RequestRejectedError', cause });

    expect(await incidents(oneExecution(history))).toEqual([
      {
        kind: 'failed-run',
        at: expect.any(String),
        page: 1,
        error: 'RequestRejectedError',
        message: 'Report service responded with 422 for page 1',
      },
    ]);
  });

  it('include an attempt whose retry has not begun, also if its execution is stopped before it', async () => {
    const trying = () =>
      aBegunHistory(run).enter('ExportPage', loop(1)).scheduled().failed('ServiceUnavailableError', unavailable);
    const attempt = { kind: 'failed-attempt', page: 1, error: 'ServiceUnavailableError' };
    expect(await incidents(oneExecution(trying()))).toMatchObject([attempt]);
    for (const [end, error, message] of [
      ['Aborted', 'ExecutionAborted', 'The execution was stopped'],
      ['TimedOut', 'States.Timeout', 'Timed out'],
    ] as const) {
      const stopped = trying().ended(end);
      expect(await incidents(oneExecution(stopped))).toMatchObject([
        attempt,
        { kind: 'failed-run', page: 1, error, message },
      ]);
    }
    expect(
      await incidents(oneExecution(trying().ended('Aborted', { error: 'Enough', cause: 'for today' }))),
    ).toMatchObject([attempt, { kind: 'failed-run', error: 'Enough', message: 'for today' }]);
  });

  it('do not include the takeover by another execution', async () => {
    const history = aBegunHistory(run)
      .enter('ExportPage', loop(1))
      .scheduled()
      .failed('RunSupersededError', lambdaCause('RunSupersededError', 'belongs to another now'))
      .exit('ExportPage', {});
    expect(await incidents(oneExecution(history))).toEqual([]);
  });

  it('include those before BeginRun has returned the run', async () => {
    const firstLoop = loop(1, { next: 'export' });
    const retried = aHistory()
      .started()
      .enter('BeginRun', {})
      .scheduled()
      .failed('ThrottlingException', 'Slow down')
      .scheduled();
    const expected = [{ kind: 'failed-attempt', page: null, error: 'ThrottlingException', message: 'Slow down' }];
    expect(await incidents(oneExecution(retried))).toEqual([]);
    // The name of a later execution contains the run.
    expect(await incidents(oneExecution(retried, continuation(2)))).toMatchObject(expected);
    retried.exit('BeginRun', firstLoop).choice('HasWork', firstLoop);
    expect(await incidents(oneExecution(retried))).toMatchObject(expected);
  });

  it('exclude those of other runs in the same execution', async () => {
    const other = '20261120T010000Z-abcdef';
    const history = aBegunHistory(other)
      .enter('ExportPage', aLoopState(other, 7))
      .scheduled()
      .failed('ServiceUnavailableError', unavailable)
      .scheduled()
      // The service rejected its cursor: it starts over as another run.
      .exit('ExportPage', loop(1, { next: 'page' }))
      .choice('NextAction', loop(1, { next: 'page' }))
      .enter('ExportPage', loop(1))
      .scheduled()
      .failed('ContractError', lambdaCause('ContractError', 'malformed'))
      .scheduled();
    expect(await incidents(oneExecution(history))).toMatchObject([{ page: 1, error: 'ContractError' }]);
  });

  it('have printable error names and messages of limited length', async () => {
    const history = aBegunHistory(run)
      .enter('ExportPage', loop(1))
      .scheduled()
      .failed('Odd\u001b[31mError', lambdaCause('OddError', `first\nsecond \u202e${'x'.repeat(5_000)}`));
    const [incident] = await incidents(oneExecution(history));
    expect(incident).toMatchObject({ error: 'Odd[31mError', message: expect.stringMatching(/^first second x+$/) });
    expect(incident).toHaveProperty('message.length', 1_000);
  });

  it('come from all executions during the run, in order, from paged lists and histories', async () => {
    const failing = (page: number, begins: string) => {
      const history = aHistory(begins).started();
      history.choice('HasWork', loop(page));
      history.enter('ExportPage', loop(page)).scheduled().failed('ServiceUnavailableError', unavailable).scheduled();
      return history.events;
    };
    const executions: Execution[] = [
      { name: continuation(3), events: failing(5, '2026-11-20T06:00:00Z') },
      { name: continuation(2), events: failing(3, '2026-11-20T04:00:00Z') },
      { name: 'skipped', events: aHistory('2026-11-20T03:00:00Z').started().events },
      { name: 'first', events: failing(1, '2026-11-20T02:00:00Z') },
      // Not read: it ended before the run began.
      { name: 'before', events: failing(9, '2026-11-20T01:00:00Z'), stopDate: new Date('2026-11-20T01:30:00Z') },
      { name: 'long-ago', events: failing(8, '2026-11-01T01:00:00Z') },
      { name: 'longer-ago', events: failing(7, '2026-10-01T01:00:00Z') },
    ];
    const { deps, stepFunctions } = aMockedClient(executions, { pageSize: 2 });

    expect(await collect(incidentsOf(deps, span))).toMatchObject([{ page: 1 }, { page: 3 }, { page: 5 }]);

    expect([...new Set(historiesRead(stepFunctions))]).toEqual(
      ['first', 'skipped', continuation(2), continuation(3)].map(arnOf),
    );
    expect(startInputsRead(stepFunctions)).toEqual(['skipped', 'first'].map(arnOf));
    // Listing ends at the first execution that is too old.
    expect(stepFunctions.commandCalls(ListExecutionsCommand)).toHaveLength(3);
    const until = { ...span, completedAt: at('2026-11-20T04:30:00Z') };
    expect(await collect(incidentsOf(deps, until))).toMatchObject([{ page: 1 }, { page: 3 }]);
  });

  it('come from the newest two hundred executions at most', async () => {
    const many = Array.from({ length: 250 }, (_, index): Execution => ({
      name: continuation(250 - index),
      events: aHistory(new Date(Date.parse('2026-11-20T02:00:00Z') + (250 - index) * 60_000).toISOString()).started()
        .events,
    }));
    const { deps, stepFunctions } = aMockedClient(many);
    await collect(incidentsOf(deps, span));
    const read = historiesRead(stepFunctions);
    expect(read).toHaveLength(200);
    expect([read[0], read.at(-1)]).toEqual([arnOf(continuation(51)), arnOf(continuation(250))]);
    expect(startInputsRead(stepFunctions)).toEqual([]);
  });
});

describe('executions of other exports of the service', () => {
  const failing = (exportName: string) => {
    const history = aHistory().started({ export: exportName });
    history.choice('HasWork', loop(1));
    return history.enter('ExportPage', loop(1)).scheduled().failed('ServiceUnavailableError', unavailable).scheduled();
  };
  /** Its history names the same run, so that only the selection of executions keeps it out. */
  const execution = (name: string, exportName: string): Execution => ({ name, events: failing(exportName).events });
  const others = [
    manual('weekly'),
    // The names of these exports begin with, or contain, the name of the other.
    manual('nightly-manual-0123456789abcdef'),
    manual('nightly-2'),
    manual('my-nightly'),
    `nightly-archive-${run}-2`,
    `${run}-nightly-${run}-2`,
  ];

  it('are recognized by the names that we chose, without a request', async () => {
    const { deps, stepFunctions } = aMockedClient([
      ...others.map((name) => execution(name, 'nightly')),
      execution(manual('nightly'), 'nightly'),
      execution(continuation(2), 'nightly'),
    ]);
    expect(await collect(incidentsOf(deps, span))).toHaveLength(2);
    expect(historyRequests(stepFunctions).map(({ executionArn }) => executionArn)).toEqual(
      [continuation(2), manual('nightly')].map(arnOf),
    );
  });

  it('are recognized by their start input if Scheduler or a person chose the name', async () => {
    const scheduled = 'bd5b4a9c-2f3e-4c44-8c84-0b0b3a3c2f11_7f0c7ad2-6ddc-4b5c-a5d4-28fd07b5b6c0';
    const { deps, stepFunctions } = aMockedClient([
      execution('weekly-again', 'nightly'),
      execution(`${run}-2`, 'weekly'),
      execution(`nightly-${run}`, 'weekly'),
      execution('nightly-manual-1', 'weekly'),
      execution(scheduled, 'nightly'),
    ]);
    expect(await collect(incidentsOf(deps, span))).toHaveLength(2);
    expect(startInputsRead(stepFunctions)).toHaveLength(5);
    expect(historiesRead(stepFunctions)).toEqual([scheduled, 'weekly-again'].map(arnOf));
  });

  it('are not excluded if their start input names no export: then it is the only one of the service', async () => {
    for (const input of [{}, { export: 7 }, null, 'x']) {
      const history = failing('nightly');
      const [started, ...rest] = history.events;
      const executionStartedEventDetails = { input: JSON.stringify(input) };
      const { deps } = aMockedClient([
        { name: 'one', events: [{ ...started, executionStartedEventDetails } as HistoryEvent, ...rest] },
      ]);
      expect(await collect(incidentsOf(deps, span))).toHaveLength(1);
    }
  });

  it('cost a limited number of requests, and do not hide the executions that the export state names', async () => {
    const strangers = Array.from({ length: 600 }, (_, index) => execution(`stranger-${index}`, 'weekly'));
    const first = execution('first', 'nightly');
    const active = aRun({ run, export: 'nightly', startedBy: arnOf('first'), execution: arnOf(continuation(2)) });
    const state = anExportState({ export: 'nightly', active });
    const { deps, stepFunctions } = aMockedClient([...strangers, first], { state });
    expect(await collect(incidentsOf(deps, span))).toHaveLength(1);
    expect(startInputsRead(stepFunctions)).toHaveLength(500);
    expect(startInputsRead(stepFunctions)).not.toContain(arnOf('first'));
  });
});

describe('a wait for a slot', () => {
  it('is not reported as a Retry-After of the service, and does not hide the page', async () => {
    const queued = loop(2, { next: 'queue', waitSeconds: 5 });
    const history = aBegunHistory(run)
      .step('ExportPage', loop(2), queued)
      .choice('NextAction', queued)
      .wait(queued, 'WaitForSlot')
      .enter('ExportPage', loop(2))
      .scheduled()
      .failed('ServiceUnavailableError', unavailable);
    expect(await incidents(oneExecution(history))).toMatchObject([{ kind: 'failed-attempt', page: 2 }]);
    const stopped = aBegunHistory(run).step('ExportPage', loop(2), queued).waiting(queued, 'WaitForSlot');
    expect(await incidents(oneExecution(stopped.ended('Aborted')))).toMatchObject([{ kind: 'failed-run', page: 2 }]);
  });
});

describe('the last incident of a run', () => {
  const failing = aBegunHistory(run)
    .enter('ExportPage', loop(1))
    .scheduled()
    .failed('ServiceUnavailableError', unavailable)
    .scheduled()
    .failed('ContractError', lambdaCause('ContractError', 'malformed'))
    .scheduled().events;
  const active = aRun({ run, export: 'nightly', execution: arnOf('owner') });

  it('is read from the execution in the export state, in one request', async () => {
    const state = anExportState({ export: 'nightly', active });
    const { deps, stepFunctions } = aMockedClient([{ name: 'owner', events: failing }], { state });
    expect(await lastIncidentOf(deps, span)).toMatchObject({ error: 'ContractError', message: 'malformed', page: 1 });
    expect(stepFunctions.calls().map(({ args: [{ input }] }) => input)).toEqual([
      { executionArn: arnOf('owner'), reverseOrder: true, maxResults: 200 },
    ]);
  });

  it('is found after the run has completed', async () => {
    const lastCompleted = aCompletion(arnOf('owner'), { run });
    const { deps } = aMockedClient([{ name: 'owner', events: failing }], { state: anExportState({ lastCompleted }) });
    expect(await lastIncidentOf(deps, span)).toMatchObject({ error: 'ContractError' });
  });

  it('is undefined if the run has made progress since', async () => {
    const history = { events: [...failing] };
    const smooth = aBegunHistory(run);
    for (let page = 1; page <= 60; page += 1) smooth.step('ExportPage', loop(page), loop(page + 1, { next: 'page' }));
    history.events.push(...smooth.events);
    const state = anExportState({ export: 'nightly', active });
    const { deps } = aMockedClient([{ name: 'owner', events: history.events }], { state });
    expect(await lastIncidentOf(deps, span)).toBeUndefined();
  });

  it('is searched in the newest executions if the export state does not name the run', async () => {
    const skipped = aHistory().started().events;
    const { deps, stepFunctions } = aMockedClient([
      ...Array.from({ length: 150 }, (_, index) => ({
        name: `of-another-export-${index}`,
        events: aHistory('2026-11-20T03:00:00Z').started({ export: 'weekly' }).events,
      })),
      { name: 'skipped', events: skipped },
      { name: 'other', events: aBegunHistory('20261120T090000Z-abcdef').events },
      { name: 'owner', events: failing },
    ]);
    expect(await lastIncidentOf(deps, span)).toMatchObject({ error: 'ContractError' });
    expect(historiesRead(stepFunctions)).toEqual(['skipped', 'other', 'owner'].map(arnOf));
  });
});

describe('the incidents of several runs', () => {
  const attempt = aBegunHistory(run)
    .enter('ExportPage', loop(2))
    .scheduled()
    .failed('ServiceUnavailableError', unavailable)
    .scheduled()
    .exit('ExportPage', loop(3, { next: 'wait', waitSeconds: 90 }))
    .choice('NextAction', loop(3, { next: 'wait', waitSeconds: 90 }))
    .wait(loop(3, { next: 'wait', waitSeconds: 90 }));

  it('are counted', async () => {
    const { deps } = aMockedClient(oneExecution(attempt));
    expect(await countIncidentsOf(deps, span)).toEqual({ failedAttempts: 1, waits: 1, waitSeconds: 90, failures: 0 });
  });

  it('are not known if no execution of the run is listed any more', async () => {
    expect(await countIncidentsOf(aMockedClient([]).deps, span)).toBeUndefined();
    const { deps } = aMockedClient(oneExecution(attempt, manual('other')));
    expect(await countIncidentsOf(deps, span)).toBeUndefined();
  });

  it('share the list of executions and the start inputs, also if they are read at the same time', async () => {
    const name = 'scheduled-by-someone';
    const { deps, stepFunctions } = aMockedClient(oneExecution(attempt, name));
    const cached = { ...deps, cache: createExecutionCache() };
    const ended = { ...span, completedAt: at('2026-11-20T04:00:00Z') };
    await Promise.all([ended, ended, ended].map((each) => countIncidentsOf(cached, each)));
    await collect(incidentsOf(cached, ended));
    expect(stepFunctions.commandCalls(ListExecutionsCommand)).toHaveLength(1);
    expect(startInputsRead(stepFunctions)).toEqual([arnOf(name)]);
    expect(historiesRead(stepFunctions)).toHaveLength(4);
  });

  it('are not shared with a run that may have had another execution since', async () => {
    const { deps, stepFunctions } = aMockedClient(oneExecution(attempt));
    const cached = { ...deps, cache: createExecutionCache() };
    await collect(incidentsOf(cached, span));
    await collect(incidentsOf(cached, span));
    await collect(incidentsOf(cached, { ...span, completedAt: at('2026-11-20T12:00:00Z') }));
    expect(stepFunctions.commandCalls(ListExecutionsCommand)).toHaveLength(3);
  });

  it('are requested again after an error', async () => {
    const { deps, stepFunctions } = aMockedClient(oneExecution(attempt));
    stepFunctions.on(ListExecutionsCommand).rejectsOnce(new Error('throttled'));
    const cached = { ...deps, cache: createExecutionCache() };
    const ended = { ...span, completedAt: at('2026-11-20T04:00:00Z') };
    await expect(countIncidentsOf(cached, ended)).rejects.toThrow('throttled');
    stepFunctions.on(ListExecutionsCommand).resolves({ executions: [] });
    expect(await countIncidentsOf(cached, ended)).toBeUndefined();
  });
});

describe('executions of windows of a backfill', () => {
  const uuid = (number: number) => `bd5b4a9c-2f3e-4c44-8c84-${String(number).padStart(12, '0')}`;
  const ofWindow = (number: number) => `nightly-w-${uuid(number)}`;
  const window = { since: at('2020-01-01T00:00:00Z'), until: at('2020-01-08T00:00:00Z') };
  const name = `nightly/${window.since}/${window.until}`;
  const failing = (exportName: string) => {
    const history = aHistory().started({ export: exportName });
    history.choice('HasWork', loop(1));
    return history.enter('ExportPage', loop(1)).scheduled().failed('ServiceUnavailableError', unavailable).scheduled();
  };
  const execution = (executionName: string, exportName: string): Execution => ({
    name: executionName,
    events: failing(exportName).events,
  });

  it('do not count as those of a run of the export, and need no request', async () => {
    const executions = [execution(ofWindow(1), 'nightly'), execution(manual('nightly'), 'nightly')];
    const { deps, stepFunctions } = aMockedClient(executions);
    expect(await collect(incidentsOf(deps, span))).toHaveLength(1);
    expect(historyRequests(stepFunctions).map(({ executionArn }) => executionArn)).toEqual([arnOf(manual('nightly'))]);
  });

  it('are those of the run of a window, by its state, by the name of the run, or by their start input', async () => {
    const active = aRun({ export: 'nightly', run, ...window, startedBy: arnOf(ofWindow(1)), execution: arnOf('x') });
    const executions = [
      execution(ofWindow(1), 'not read'),
      execution(ofWindow(2), name),
      execution(continuation(3), 'not read'),
      // Of the export itself, of another window, of another run, of another export.
      execution(manual('nightly'), 'not read'),
      execution('bd5b4a9c-2f3e-4c44-8c84-0b0b3a3c2f11_1', 'nightly'),
      execution(ofWindow(4), `nightly/${window.until}/2020-01-15T00:00:00Z`),
      execution('nightly-20200101T020003Z-1f3a5c-2', 'not read'),
      execution(`weekly-w-${uuid(5)}`, name),
    ];
    const { deps, stepFunctions } = aMockedClient(executions, { state: anExportState({ export: name, active }) });
    const asked: string[] = [];
    const log = {
      exportState: (stateName: string) => {
        asked.push(stateName);
        return deps.log.exportState();
      },
    };

    expect(await collect(incidentsOf({ ...deps, log }, { ...span, ...window }))).toHaveLength(3);

    expect(asked).toEqual([name]);
    expect(new Set(historiesRead(stepFunctions))).toEqual(
      new Set([ofWindow(1), ofWindow(2), continuation(3)].map(arnOf)),
    );
  });
});
