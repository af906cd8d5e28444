/** Builds execution histories of this state machine, event by event, as Step Functions returns them. */

import type { HistoryEvent, HistoryEventType } from '@aws-sdk/client-sfn';

const lambda = { resourceType: 'lambda', resource: 'invoke' };

/** The cause that Lambda returns for an error of a function. */
export const lambdaCause = (errorType: string, errorMessage: string): string =>
  JSON.stringify({
    errorType,
    errorMessage,
    trace: [`${errorType}: ${errorMessage}`, '    at file:///var/task/index.mjs:1:1'],
  });

/** Starts at 02:00:00, with one event per second. */
export function aHistory(startsAt = '2026-11-20T02:00:00Z') {
  const events: HistoryEvent[] = [];
  const add = (type: HistoryEventType, details: Partial<HistoryEvent> = {}) => {
    const id = events.length + 1;
    events.push({
      id,
      previousEventId: id - 1,
      timestamp: new Date(Date.parse(startsAt) + events.length * 1_000),
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
    /** A step that succeeds at the first attempt. */
    step: (name: string, input: unknown, output: unknown) => {
      history.enter(name, input).scheduled();
      add('TaskSucceeded', { taskSucceededEventDetails: { ...lambda, output: JSON.stringify({ Payload: output }) } });
      return exited('Task', name, output);
    },
    choice: (name: string, input: unknown) => {
      entered('Choice', name, input);
      return exited('Choice', name, input);
    },
    wait: (input: unknown, state: 'WaitForService' | 'WaitForSlot' = 'WaitForService') => {
      entered('Wait', state, input);
      return exited('Wait', state, input);
    },
    /** A wait that has not ended. */
    waiting: (input: unknown, state: 'WaitForService' | 'WaitForSlot') => entered('Wait', state, input),
    failState: (input: unknown) => entered('Fail', 'Failed', input),
    ended: (type: 'Failed' | 'TimedOut' | 'Aborted', details: { error?: string; cause?: string } = {}) =>
      add(`Execution${type}`, { [`execution${type}EventDetails`]: details }),
  };
  return history;
}

/** The loop state for a page of a run. */
export const aLoopState = (run: string, page: number, more: object = {}) => ({
  export: 'nightly',
  run,
  executionNumber: 1,
  page,
  iterations: page - 1,
  waits: 0,
  ...more,
});

/** A history up to the first ExportPage. */
export function aBegunHistory(run: string, page = 1, executionNumber = 1) {
  const loop = aLoopState(run, page, { executionNumber, next: 'export' });
  return aHistory().started().step('BeginRun', {}, loop).choice('HasWork', loop);
}
