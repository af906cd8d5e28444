import { describe, expect, it } from 'vitest';
import { createTimeline } from '../world/virtual-time.ts';
import { definition, failed, loop, type Script, simulate } from './scripted-execution.ts';
import { createStepFunctions } from './step-functions.ts';

const stateMachineArn = 'arn:aws:states:us-east-1:123456789012:stateMachine:reports';

describe('the simulated Step Functions', () => {
  const page = { next: 'page', ...loop };
  const success: Script = {
    BeginRun: [{ next: 'export', ...loop }],
    ExportPage: [page, page, { next: 'finish', ...loop }],
    FinishRun: [{ export: 'reports', run: 'run-1', manifest: 'reports/manifest.json' }],
    FailRun: [failed],
  };

  it('counts events as the real service does: 5 for a task, 2 for another state, 3 for a failed attempt', async () => {
    // Started; BeginRun, HasWork; ExportPage and NextAction three times; FinishRun, IsPublished, AnnounceCompleted, Completed; ended.
    expect((await simulate(success)).execution.eventCount).toBe(1 + 7 + 3 * 7 + 7 + 5 + 2 + 1);
    const withErrors = { ...success, ExportPage: ['ServiceUnavailableError', 'Lambda.Unknown', ...success.ExportPage] };
    expect((await simulate(withErrors)).execution.eventCount).toBe(44 + 2 * 3);
    const withWait = { ...success, ExportPage: [{ next: 'wait', ...loop, waitSeconds: 5 }, ...success.ExportPage] };
    expect((await simulate(withWait)).execution.eventCount).toBe(44 + 7 + 2);
  });

  it('fails an execution whose history is full', async () => {
    const endless = { ...success, ExportPage: [page] };
    const { execution } = await simulate(endless);
    expect(execution).toMatchObject({ status: 'FAILED', error: 'States.Runtime', eventCount: expect.any(Number) });
    expect(execution.eventCount).toBeGreaterThanOrEqual(25_000);
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
});
