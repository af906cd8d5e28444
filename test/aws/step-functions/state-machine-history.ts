/** An execution's history as Step Functions tells it, event by event, in the shapes that it has for this state machine. */

import type { HistoryEvent, HistoryEventType } from '@aws-sdk/client-sfn';

const lambda = { resourceType: 'lambda', resource: 'invoke' };

/** What the deployed functions throw, as Lambda passes it on. */
export const lambdaCause = (errorType: string, errorMessage: string): string =>
  JSON.stringify({
    errorType,
    errorMessage,
    trace: [`${errorType}: ${errorMessage}`, '    at file:///var/task/index.mjs:1:1'],
  });

/** Begins at 02:00:00; each event comes a second after the one before. */
export function aHistory(begins = '2026-11-20T02:00:00Z') {
  const events: HistoryEvent[] = [];
  const add = (type: HistoryEventType, details: Partial<HistoryEvent> = {}) => {
    const id = events.length + 1;
    events.push({
      id,
      previousEventId: id - 1,
      timestamp: new Date(Date.parse(begins) + events.length * 1_000),
      type,
      ...details,
    });
    return history;
  };
  const entered = (kind: 'Task' | 'Choice' | 'Wait' | 'Succeed' | 'Fail', name: string, input: unknown) =>
    add(`${kind}StateEntered`, {
      stateEnteredEventDetails: { name, input: JSON.stringify(input), inputDetails: { truncated: false } },
    });
  const exited = (kind: 'Task' | 'Choice' | 'Wait' | 'Succeed', name: string, output: unknown) =>
    add(`${kind}StateExited`, {
      stateExitedEventDetails: { name, output: JSON.stringify(output), outputDetails: { truncated: false } },
    });
  const history = {
    events,
    started: (input: unknown = {}) =>
      add('ExecutionStarted', { executionStartedEventDetails: { input: JSON.stringify(input), roleArn: 'arn:role' } }),
    enter: (name: string, input: unknown) => entered('Task', name, input),
    exit: (name: string, output: unknown) => exited('Task', name, output),
    scheduled: () => {
      add('TaskScheduled', { taskScheduledEventDetails: { ...lambda, region: 'us-east-1', parameters: '{}' } });
      return add('TaskStarted', { taskStartedEventDetails: lambda });
    },
    failed: (error: string, cause: string) =>
      add('TaskFailed', { taskFailedEventDetails: { ...lambda, error, cause } }),
    timedOut: () => add('TaskTimedOut', { taskTimedOutEventDetails: { ...lambda, error: 'States.Timeout' } }),
    /** A step that succeeds at once. */
    step: (name: string, input: unknown, output: unknown) => {
      history.enter(name, input).scheduled();
      add('TaskSucceeded', { taskSucceededEventDetails: { ...lambda, output: JSON.stringify({ Payload: output }) } });
      return exited('Task', name, output);
    },
    choice: (name: string, input: unknown) => {
      entered('Choice', name, input);
      return exited('Choice', name, input);
    },
    wait: (input: unknown) => {
      entered('Wait', 'WaitForService', input);
      return exited('Wait', 'WaitForService', input);
    },
    failState: (input: unknown) => entered('Fail', 'Failed', input),
    ended: (type: 'Failed' | 'TimedOut' | 'Aborted', details: { error?: string; cause?: string } = {}) =>
      add(`Execution${type}`, { [`execution${type}EventDetails`]: details }),
  };
  return history;
}

/** The turn for a page of a run. */
export const aTurn = (run: string, page: number, more: object = {}) => ({
  export: 'nightly',
  run,
  executionNumber: 1,
  page,
  iterations: page - 1,
  waits: 0,
  ...more,
});

/** BeginRun with all that follows from it. */
export function begun(run: string, page = 1, executionNumber = 1) {
  const loop = aTurn(run, page, { executionNumber, next: 'export' });
  return aHistory().started().step('BeginRun', {}, loop).choice('HasWork', loop);
}
