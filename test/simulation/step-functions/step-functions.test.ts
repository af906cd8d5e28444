import { describe, expect, it } from 'vitest';
import { createTimeline } from '../world/virtual-time.ts';
import { byStep, type StepName } from '../../../lib/core/state-machine/definition.ts';
import { definition, execute, stateMachineArn } from '../../support/export/function-machine.ts';
import { createStepFunctions } from './step-functions.ts';

const loop = { export: 'reports', run: 'run-1', executionNumber: 1, page: 1, iterations: 0, waits: 0 };
const failed = { export: 'reports', run: 'run-1', since: null, message: 'm', resumable: true };

/** What each step returns in order, or the name of the error it throws; the last one repeats. */
type Script = Readonly<Record<StepName, readonly (object | string)[]>>;

function simulate(script: Script) {
  const functions = byStep((step) => {
    let calls = 0;
    return async () => {
      const result = script[step][calls] ?? script[step].at(-1) ?? {};
      calls += 1;
      if (typeof result === 'string') throw Object.assign(new Error(`${result} was thrown`), { name: result });
      return result;
    };
  });
  return execute(functions, { name: 'one' });
}

describe('the simulated Step Functions', () => {
  const page = { next: 'page', ...loop };
  const success: Script = {
    BeginRun: [{ next: 'export', ...loop }],
    ExportPage: [page, page, { next: 'finish', ...loop }],
    FinishRun: [{ export: 'reports', run: 'run-1', manifest: 'reports/manifest.json' }],
    FailRun: [failed],
  };

  it('counts events as the real service does: 5 for a task, 2 for another state, 3 for a failed attempt', async () => {
    // Started; BeginRun, HasWork; ExportPage and NextAction three times; FinishRun, IsPublished, AnnounceCompleted,
    // Completed; ended.
    expect((await simulate(success)).eventCount).toBe(1 + 7 + 3 * 7 + 7 + 5 + 2 + 1);
    const withErrors = { ...success, ExportPage: ['ServiceUnavailableError', 'Lambda.Unknown', ...success.ExportPage] };
    expect((await simulate(withErrors)).eventCount).toBe(44 + 2 * 3);
    const withWait = { ...success, ExportPage: [{ next: 'wait', ...loop, waitSeconds: 5 }, ...success.ExportPage] };
    expect((await simulate(withWait)).eventCount).toBe(44 + 7 + 2);
  });

  it('fails an execution whose history is full', async () => {
    const endless = { ...success, ExportPage: [page] };
    const { status, error, eventCount } = await simulate(endless);
    expect({ status, error }).toEqual({ status: 'failed', error: 'States.Runtime' });
    expect(eventCount).toBeGreaterThanOrEqual(25_000);
  });

  it('returns the running execution for the same name and input, and rejects the name otherwise', async () => {
    const stepFunctions = createStepFunctions({
      definition,
      stateMachineArn,
      time: createTimeline(0),
      random: () => 0,
      perform: () => new Promise(() => {}),
    });
    const one = stepFunctions.start('one', { restart: true });
    expect(stepFunctions.start('one', { restart: true })).toBe(one);
    expect(() => stepFunctions.start('one', {})).toThrow('ExecutionAlreadyExists');
    stepFunctions.stop(one);
    expect(one.status).toBe('ABORTED');
    expect(() => stepFunctions.start('one', { restart: true })).toThrow('ExecutionAlreadyExists');
    expect(stepFunctions.find('arn:aws:states:us-east-1:123456789012:execution:reports:one')).toBe(one);
  });

  it('retries a task after its timeout, although the first attempt never ends', async () => {
    const time = createTimeline(0);
    let attempts = 0;
    const stepFunctions = createStepFunctions({
      definition,
      stateMachineArn,
      time,
      random: () => 0,
      perform() {
        attempts += 1;
        return new Promise(() => {});
      },
    });
    const execution = stepFunctions.start('one', {});
    await time.run({ until: 901_000 });
    expect({ attempts, status: execution.status, eventCount: execution.eventCount }).toEqual({
      attempts: 2,
      status: 'RUNNING',
      eventCount: 8,
    });
  });

  it('redrives an execution that was stopped: the same state again, whatever its first attempt returns later', async () => {
    const time = createTimeline(0);
    const attempts: ((value: unknown) => void)[] = [];
    const stepFunctions = createStepFunctions({
      definition,
      stateMachineArn,
      time,
      random: () => 0,
      perform: ({ state }) =>
        state === 'BeginRun'
          ? Promise.resolve({ Payload: { next: 'export', ...loop } })
          : new Promise((resolve) => attempts.push(resolve)),
    });
    const execution = stepFunctions.start('one', {});
    await time.run({ until: 1_000 });
    stepFunctions.stop(execution);
    expect(execution).toMatchObject({ status: 'ABORTED', state: 'ExportPage', eventCount: 13 });
    stepFunctions.redrive(execution);
    await time.run({ until: 2_000 });
    expect(execution).toMatchObject({ status: 'RUNNING', state: 'ExportPage', redriveCount: 1, stateInput: loop });
    expect(attempts).toHaveLength(2);
    attempts[0]?.({ Payload: { next: 'finish', ...loop } });
    await time.run({ until: 3_000 });
    expect(execution.state).toBe('ExportPage');
    attempts[1]?.({ Payload: { next: 'finish', ...loop } });
    await time.run({ until: 4_000 });
    expect(execution.state).toBe('FinishRun');
  });

  it('gives a new execution the definition of its start, and keeps that of a running one', async () => {
    const time = createTimeline(0);
    let current = definition;
    const stepFunctions = createStepFunctions({
      definition,
      definitionFor: () => current,
      stateMachineArn,
      time,
      random: () => 0,
      perform: () => new Promise(() => {}),
    });
    const one = stepFunctions.start('one', {});
    current = { ...definition, TimeoutSeconds: 10 };
    const two = stepFunctions.start('two', {});
    await time.run({ until: 11_000 });
    expect([one.status, two.status]).toEqual(['RUNNING', 'TIMED_OUT']);
  });
});
