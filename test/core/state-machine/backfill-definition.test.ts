import aslValidator from 'asl-validator';
import { describe, expect, it } from 'vitest';
import type { DistributedMapState } from '../../../lib/core/state-machine/asl.ts';
import {
  type MachineState,
  backfillStateMachine,
  type WindowStateName,
} from '../../../lib/core/state-machine/backfill-definition.ts';
import { maxWindows } from '../../../lib/backfill/request.ts';

const machine = backfillStateMachine({
  bucket: 'reports',
  stateMachine: 'arn:aws:states:us-east-1:123456789012:stateMachine:reports',
  partition: 'aws',
  executionTimeoutSeconds: 86_400,
});
const map = machine.States.ExportWindows as Extract<MachineState, { Type: 'Map' }>;
const windowStates = map.ItemProcessor.States;

function transitionsOf(states: Readonly<Record<string, object>>): string[] {
  return Object.entries(states).flatMap(([name, state]) => {
    const {
      Choices = [],
      Default,
      Next,
      Catch = [],
      End,
      Type,
    } = state as {
      readonly Type: string;
      readonly Next?: string;
      readonly Default?: string;
      readonly End?: boolean;
      readonly Choices?: readonly { readonly Next: string }[];
      readonly Catch?: readonly { readonly ErrorEquals: readonly string[]; readonly Next: string }[];
    };
    return [
      ...Choices.map(({ Next: next, ...test }) => `${name} ─ ${JSON.stringify(test)} ─▶ ${next}`),
      ...(Default === undefined ? [] : [`${name} ─ otherwise ─▶ ${Default}`]),
      ...(Next === undefined ? [] : [`${name} ─▶ ${Next}`]),
      ...Catch.map(({ ErrorEquals, Next: next }) => `${name} ─ ${ErrorEquals.join()} ─▶ ${next}`),
      ...(End === true || Type === 'Succeed' || Type === 'Fail' ? [`${name} (end)`] : []),
    ];
  });
}

describe('the state machine of backfills', () => {
  it('has exactly these transitions', () => {
    expect(transitionsOf(machine.States)).toEqual([
      'ExportWindows ─▶ AnyNotStarted',
      'AnyNotStarted ─ {"Variable":"$.notStarted","BooleanEquals":true} ─▶ NotStarted',
      'AnyNotStarted ─ otherwise ─▶ Ended',
      'NotStarted (end)',
      'Ended (end)',
    ]);
    expect(transitionsOf(windowStates)).toEqual([
      'ExportWindow ─▶ HasEnded',
      'ExportWindow ─ States.ALL ─▶ WasStarted',
      'HasEnded ─ {"Variable":"$.ended.output.done","IsPresent":true} ─▶ WindowDone',
      'HasEnded ─ {"Variable":"$.ended.output.pages","IsPresent":true} ─▶ WindowDone',
      'HasEnded ─ otherwise ─▶ WaitForWindow',
      'WaitForWindow ─▶ ExportWindow',
      'WasStarted ─ {"Variable":"$.failure.Error","StringEquals":"States.TaskFailed"} ─▶ WindowFailed',
      'WasStarted ─ {"Variable":"$.failure.Error","StringEquals":"States.Timeout"} ─▶ WindowFailed',
      'WasStarted ─ otherwise ─▶ WindowNotStarted',
      'WindowDone (end)',
      'WindowFailed (end)',
      'WindowNotStarted (end)',
    ]);
  });

  it('is valid Amazon States Language', () => {
    const { isValid, errors } = aslValidator(structuredClone(machine), { checkPaths: true, checkArn: false });
    expect(errors).toEqual([]);
    expect(isValid).toBe(true);
  });

  it('uses JSONPath without variables, as the one of exports', () => {
    const text = JSON.stringify(machine);
    expect(text).not.toMatch(/"(QueryLanguage|Assign|Arguments|Output|Condition)":/);
    expect(text).not.toContain('{%');
  });

  it('runs the windows in an object as executions of their own, as many at a time as the input says, whatever becomes of some', () => {
    expect(map satisfies DistributedMapState<WindowStateName, object>).toMatchObject({
      ItemReader: {
        Resource: 'arn:aws:states:::s3:getObject',
        ReaderConfig: { InputType: 'JSON' },
        Parameters: { Bucket: 'reports', 'Key.$': '$.windows' },
      },
      MaxConcurrencyPath: '$.parallel',
      ToleratedFailurePercentage: 100,
      ItemProcessor: { ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' } },
    });
  });

  it('waits for an execution of the service for longer than that may run', () => {
    expect(windowStates.ExportWindow).toMatchObject({
      Resource: 'arn:aws:states:::states:startExecution.sync:2',
      TimeoutSeconds: 86_400 + 300,
    });
  });

  it('does not retry an execution that has failed: States.TaskFailed would match any error', () => {
    const { Retry } = windowStates.ExportWindow as unknown as { Retry: { ErrorEquals: readonly string[] }[] };
    const named = Retry.flatMap(({ ErrorEquals }) => ErrorEquals);
    expect(named.length).toBeGreaterThan(0);
    for (const error of named) expect(error).toMatch(/^StepFunctions\./);
  });

  it('keeps the results of all windows below 256 KiB', () => {
    const outcomes = Object.values(windowStates).flatMap((state) => ('Result' in state ? [state.Result] : []));
    expect(outcomes).toEqual(['done', 'failed', 'not started']);
    const results = Array.from({ length: maxWindows }, () => 'not started');
    expect(JSON.stringify(results).length).toBeLessThan(256 * 1024);
  });

  it('gives executions names of at most 80 characters', () => {
    const { Parameters } = windowStates.ExportWindow as { Parameters: Record<string, unknown> };
    expect(Parameters['Name.$']).toBe("States.Format('{}-w-{}', $.export, States.UUID())");
    expect(`${'x'.repeat(40)}-w-${crypto.randomUUID()}`.length).toBeLessThanOrEqual(80);
  });
});
