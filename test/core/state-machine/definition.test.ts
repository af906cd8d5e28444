import aslValidator from 'asl-validator';
import { describe, expect, it } from 'vitest';
import { errorNames } from '../../../lib/core/errors.ts';
import type { Retrier, State, TaskState } from '../../../lib/core/state-machine/asl.ts';
import { byStep, stateMachine, stepNames } from '../../../lib/core/state-machine/definition.ts';
import { findRetrier, maxRetryDelaySeconds } from '../../../lib/core/state-machine/retry-policy.ts';

const machine = stateMachine({
  functions: { BeginRun: 'begin', ExportPage: 'page', FinishRun: 'finish', FailRun: 'fail' },
  eventBus: 'default',
  store: { bucket: 'reports', prefix: 'exports/' },
  partition: 'aws',
  stepTimeoutSeconds: byStep(() => 330),
  executionTimeoutSeconds: 86_400,
});
const states = Object.entries<State>(machine.States);
const tasks = states.filter((entry): entry is [string, TaskState] => entry[1].Type === 'Task');

describe('the state machine', () => {
  it('is valid Amazon States Language', () => {
    // The validator adds its defaults to its argument.
    const { isValid, errors } = aslValidator(structuredClone(machine), { checkPaths: true, checkArn: false });
    expect(errors).toEqual([]);
    expect(isValid).toBe(true);
  });

  it('uses JSONPath without variables, because the interpreter of the tests ignores JSONata and Assign', () => {
    const text = JSON.stringify(machine);
    expect(text).not.toMatch(/"(QueryLanguage|Assign|Arguments|Output|Condition)"/);
    expect(text).not.toContain('{%');
  });

  it('names every error in exactly one retrier, before the one that matches all errors', () => {
    for (const name of stepNames) {
      const { Retry } = machine.States[name] as TaskState;
      const named = Retry.flatMap(({ ErrorEquals }) => ErrorEquals);
      for (const error of errorNames) expect(named.filter((other) => other === error)).toHaveLength(1);
      expect(Retry.at(-1)?.ErrorEquals).toEqual(['States.ALL']);
      expect(named.filter((error) => error === 'States.ALL')).toHaveLength(1);
      for (const error of ['Lambda.TooManyRequestsException', 'Lambda.Unknown', 'States.Timeout', 'Sandbox.Timedout']) {
        expect(named.filter((other) => other === error)).toEqual([error]);
      }
      expect(new Set(named).size).toBe(named.length);
    }
  });

  it.each([
    ['ExportPage', 'ServiceUnavailableError', 20, 300],
    ['ExportPage', 'ServiceUnreachableError', 2, 15],
    ['ExportPage', 'ContractError', 2, 15],
    ['ExportPage', 'ConfigurationError', 0, 0],
    ['ExportPage', 'AccessDeniedException', 2, 15],
    ['BeginRun', 'AccessDenied', 2, 15],
    ['ExportPage', 'SlowDown', 8, 120],
    ['ExportPage', 'Sandbox.Timedout', 20, 300],
    ['FinishRun', 'Sandbox.Timedout', 1, 5],
    ['FinishRun', 'States.Timeout', 1, 5],
    ['FinishRun', 'Lambda.Unknown', 20, 300],
    ['ExportPage', 'Lambda.TooManyRequestsException', 20, 3_600],
    ['FailRun', 'Lambda.TooManyRequestsException', 20, 3_600],
    // A function that was idle for weeks answered its first calls after 40 to 106 s.
    ['BeginRun', 'Lambda.CodeArtifactUserPendingException', 20, 300],
    ['BeginRun', 'Lambda.CodeArtifactUserDeletedException', 20, 300],
    ['BeginRun', 'Lambda.ResourceNotReadyException', 20, 300],
    ['ExportPage', 'Lambda.ResourceConflictException', 20, 300],
    ['ExportPage', 'Lambda.ENINotReadyException', 20, 300],
    ['ExportPage', 'Lambda.ENILimitReachedException', 20, 300],
    ['ExportPage', 'Lambda.SubnetIPAddressLimitReachedException', 20, 300],
    ['FinishRun', 'Lambda.EC2ThrottledException', 20, 300],
    ['FailRun', 'Lambda.EC2UnexpectedException', 20, 300],
    // Permissions and settings, which may be correct in a moment, but seldom are.
    ['ExportPage', 'Lambda.EC2AccessDeniedException', 8, 120],
    ['ExportPage', 'Lambda.KMSAccessDeniedException', 8, 120],
    ['ExportPage', 'Lambda.InvalidSubnetIDException', 8, 120],
  ] as const)('%s retries %s %d times, after at most %d s', (step, error, retries, maxDelaySeconds) => {
    const retrier = findRetrier(error, step) as Retrier;
    const delays = Array.from({ length: retries }, (_, index) => maxRetryDelaySeconds(retrier, index + 1));
    expect({ retries: retrier.MaxAttempts, maxDelay: Math.max(0, ...delays) }).toEqual({
      retries,
      maxDelay: maxDelaySeconds,
    });
    expect((machine.States[step] as TaskState).Retry).toContainEqual(retrier);
  });

  it('waits for hours, on average, for a place among the concurrent executions of Lambda', () => {
    const retrier = findRetrier('Lambda.TooManyRequestsException', 'ExportPage') as Retrier;
    const delays = Array.from({ length: retrier.MaxAttempts }, (_, index) => maxRetryDelaySeconds(retrier, index + 1));
    // Full jitter halves the delays on average.
    expect(delays.reduce((sum, delay) => sum + delay / 2, 0)).toBeGreaterThan(4 * 3_600);
    // A short burst costs little.
    expect(delays.slice(0, 5).reduce((sum, delay) => sum + delay, 0)).toBeLessThanOrEqual(62);
  });

  it('retries with exponential backoff, a maximum delay and full jitter', () => {
    for (const [, { Retry }] of tasks) {
      for (const retrier of Retry.filter(({ MaxAttempts }) => MaxAttempts > 0)) {
        expect(retrier).toMatchObject({ BackoffRate: expect.any(Number), JitterStrategy: 'FULL' });
        const maxDelay =
          retrier.MaxDelaySeconds ??
          (retrier.IntervalSeconds ?? 1) * (retrier.BackoffRate ?? 2) ** (retrier.MaxAttempts - 1);
        const isThrottled = retrier.ErrorEquals.join() === 'Lambda.TooManyRequestsException';
        expect(maxDelay).toBeLessThanOrEqual(isThrottled ? 3_600 : 300);
      }
    }
  });

  it('leads every error to FailRun, and ends with the original error and cause', () => {
    for (const [name, { Catch }] of tasks) {
      expect(Catch.at(-1)?.ErrorEquals).toEqual(['States.ALL']);
      expect(Catch.at(-1)?.Next).toBe(
        name === 'FailRun' ? 'FailureNotRecorded' : name === 'AnnounceFailed' ? 'Failed' : 'FailRun',
      );
    }
    expect(machine.States.Failed).toMatchObject({ ErrorPath: '$.Error', CausePath: '$.Cause' });
  });

  it('sends events with the names and the version that consumers depend on', () => {
    const entries = ['AnnounceCompleted', 'AnnounceFailed'].map(
      (name) => (machine.States[name as 'AnnounceFailed'] as TaskState).Parameters.Entries,
    );
    expect(entries).toMatchObject([
      [{ Source: 'report-exporter', DetailType: 'Report Export Completed', Detail: { eventVersion: 1 } }],
      [{ Source: 'report-exporter', DetailType: 'Report Export Failed', Detail: { eventVersion: 1 } }],
    ]);
  });

  it('gives each task a timeout', () => {
    for (const [, task] of tasks) expect(task.TimeoutSeconds).toBeGreaterThan(0);
  });
});
