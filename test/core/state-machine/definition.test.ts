import aslValidator from 'asl-validator';
import { describe, expect, it } from 'vitest';
import { errorNames } from '../../../lib/core/errors.ts';
import type { State, TaskState } from '../../../lib/core/state-machine/asl.ts';
import { byStep, stateMachine, stepNames } from '../../../lib/core/state-machine/definition.ts';

const machine = stateMachine({
  exportName: 'reports',
  functions: { BeginRun: 'begin', ExportPage: 'page', FinishRun: 'finish', FailRun: 'fail' },
  eventBus: 'default',
  partition: 'aws',
  stepTimeoutSeconds: byStep(() => 330),
  executionTimeoutSeconds: 86_400,
});
const states = Object.entries<State>(machine.States);
const tasks = states.filter((entry): entry is [string, TaskState] => entry[1].Type === 'Task');

describe('the state machine', () => {
  it('goes these ways, and no other', () => {
    const ways = states.flatMap(([name, state]) => {
      if (state.Type === 'Choice') return state.Choices.map((rule) => `${name} ─ ${rule.StringEquals} ─▶ ${rule.Next}`);
      if (state.Type === 'Succeed' || state.Type === 'Fail') return [`${name} (${state.Type})`];
      const caught = state.Type === 'Task' ? state.Catch : [];
      return [`${name} ─▶ ${state.Next}`, ...caught.map((by) => `${name} ─ ${by.ErrorEquals.join()} ─▶ ${by.Next}`)];
    });
    expect(`\n${ways.join('\n')}\n`).toMatchInlineSnapshot(`
      "
      BeginRun ─▶ HasWork
      BeginRun ─ RunSupersededError ─▶ Skipped
      BeginRun ─ States.ALL ─▶ FailRun
      HasWork ─ skip ─▶ Skipped
      HasWork ─ export ─▶ ExportPage
      HasWork ─ finish ─▶ FinishRun
      ExportPage ─▶ NextAction
      ExportPage ─ RunSupersededError ─▶ Skipped
      ExportPage ─ States.ALL ─▶ FailRun
      NextAction ─ page ─▶ ExportPage
      NextAction ─ wait ─▶ WaitForService
      NextAction ─ continue ─▶ ContinueInNewExecution
      NextAction ─ finish ─▶ FinishRun
      WaitForService ─▶ ExportPage
      ContinueInNewExecution ─▶ Continued
      ContinueInNewExecution ─ StepFunctions.ExecutionAlreadyExistsException ─▶ Continued
      ContinueInNewExecution ─ States.ALL ─▶ FailRun
      FinishRun ─▶ AnnounceCompleted
      FinishRun ─ RunSupersededError ─▶ Skipped
      FinishRun ─ States.ALL ─▶ FailRun
      AnnounceCompleted ─▶ Completed
      AnnounceCompleted ─ States.ALL ─▶ FailRun
      FailRun ─▶ AnnounceFailed
      FailRun ─ States.ALL ─▶ AnnounceFailed
      AnnounceFailed ─▶ Failed
      AnnounceFailed ─ States.ALL ─▶ Failed
      Skipped (Succeed)
      Continued (Succeed)
      Completed (Succeed)
      Failed (Fail)
      "
    `);
  });

  it('is valid Amazon States Language', () => {
    // A copy: the validator writes its defaults into what it is given.
    const { isValid, errors } = aslValidator(structuredClone(machine), { checkPaths: true, checkArn: false });
    expect(errors).toEqual([]);
    expect(isValid).toBe(true);
  });

  it('uses JSONPath without variables, for the interpreter silently ignores JSONata and Assign', () => {
    const text = JSON.stringify(machine);
    expect(text).not.toMatch(/"(QueryLanguage|Assign|Arguments|Output|Condition)"/);
    expect(text).not.toContain('{%');
  });

  it('decides about the retry of every error by its name, exactly once, before the rest is matched', () => {
    for (const name of stepNames) {
      const { Retry } = machine.States[name] as TaskState;
      const named = Retry.flatMap(({ ErrorEquals }) => ErrorEquals);
      for (const error of errorNames) expect(named.filter((each) => each === error)).toHaveLength(1);
      expect(Retry.at(-1)?.ErrorEquals).toEqual(['States.ALL']);
      expect(named.filter((each) => each === 'States.ALL')).toHaveLength(1);
      expect(named).toEqual(
        expect.arrayContaining(['Lambda.TooManyRequestsException', 'Lambda.Unknown', 'States.Timeout']),
      );
    }
  });

  it('repeats with back-off, a longest delay or few attempts, and full jitter', () => {
    for (const [, { Retry }] of tasks) {
      for (const retrier of Retry.filter(({ MaxAttempts }) => MaxAttempts > 0)) {
        expect(retrier).toMatchObject({ BackoffRate: expect.any(Number), JitterStrategy: 'FULL' });
        const longest =
          retrier.MaxDelaySeconds ??
          (retrier.IntervalSeconds ?? 1) * (retrier.BackoffRate ?? 2) ** (retrier.MaxAttempts - 1);
        expect(longest).toBeLessThanOrEqual(300);
      }
    }
  });

  it('lets no error escape without FailRun, and shows the real one at the end', () => {
    for (const [name, { Catch }] of tasks) {
      expect(Catch.at(-1)?.ErrorEquals).toEqual(['States.ALL']);
      expect(Catch.at(-1)?.Next).toBe(
        name === 'FailRun' ? 'AnnounceFailed' : name === 'AnnounceFailed' ? 'Failed' : 'FailRun',
      );
    }
    expect(machine.States.Failed).toMatchObject({ ErrorPath: '$.Error', CausePath: '$.Cause' });
  });

  it('announces under the names and the version that consumers build on', () => {
    const announced = ['AnnounceCompleted', 'AnnounceFailed'].map(
      (name) => (machine.States[name as 'AnnounceFailed'] as TaskState).Parameters.Entries,
    );
    expect(announced).toMatchObject([
      [{ Source: 'report-exporter', DetailType: 'Report Export Completed', Detail: { eventVersion: 1 } }],
      [{ Source: 'report-exporter', DetailType: 'Report Export Failed', Detail: { eventVersion: 1 } }],
    ]);
  });

  it('gives each task a timeout', () => {
    for (const [, task] of tasks) expect(task.TimeoutSeconds).toBeGreaterThan(0);
  });
});
