/** The simulated Step Functions: its count of events, its limits, its names. */

import { describe, expect, it } from 'vitest';
import { createTimeline } from '../world/virtual-time.ts';
import { definition, failed, loop, type Script, simulate } from './scripted-execution.ts';
import { createStepFunctions } from './step-functions.ts';

describe('the simulated Step Functions', () => {
  const page = { next: 'page', ...loop };
  const good: Script = {
    BeginRun: [{ next: 'export', ...loop }],
    ExportPage: [page, page, { next: 'finish', ...loop }],
    FinishRun: [{ run: 'run-1' }],
    FailRun: [failed],
  };

  it('counts events as the real one does: 5 a task, 2 a choice, a wait or an end, 3 a failed attempt', async () => {
    // Started; BeginRun, HasWork; three turns of ExportPage and NextAction; FinishRun, AnnounceCompleted, Completed; ended.
    expect((await simulate(good)).execution.events).toBe(1 + 7 + 3 * 7 + 5 + 5 + 2 + 1);
    const troubled = { ...good, ExportPage: ['ServiceUnavailableError', 'Lambda.Unknown', ...good.ExportPage] };
    expect((await simulate(troubled)).execution.events).toBe(42 + 2 * 3);
    const waiting = { ...good, ExportPage: [{ next: 'wait', ...loop, waitSeconds: 5 }, ...good.ExportPage] };
    expect((await simulate(waiting)).execution.events).toBe(42 + 7 + 2);
  });

  it('ends an execution whose history is full', async () => {
    const endless = { ...good, ExportPage: [page] };
    const { execution } = await simulate(endless);
    expect(execution).toMatchObject({ status: 'FAILED', error: 'States.Runtime', events: expect.any(Number) });
    expect(execution.events).toBeGreaterThanOrEqual(25_000);
  });

  it('takes the same name and input for the same execution while it runs, and refuses it otherwise', async () => {
    const time = createTimeline(0);
    const machine = createStepFunctions({
      definition,
      machine: 'arn:aws:states:us-east-1:123456789012:stateMachine:reports',
      time,
      random: () => 0,
      perform: () => new Promise(() => {}),
    });
    const one = machine.start('one', { restart: true });
    expect(machine.start('one', { restart: true })).toBe(one);
    expect(() => machine.start('one', {})).toThrow('ExecutionAlreadyExists');
    machine.stop(one);
    expect(one.status).toBe('ABORTED');
    expect(() => machine.start('one', { restart: true })).toThrow('ExecutionAlreadyExists');
    expect(machine.find('arn:aws:states:us-east-1:123456789012:execution:reports:one')).toBe(one);
  });

  it('gives a task up when its time is over, though it goes on', async () => {
    const time = createTimeline(0);
    let asked = 0;
    const machine = createStepFunctions({
      definition,
      machine: 'arn:aws:states:us-east-1:123456789012:stateMachine:reports',
      time,
      random: () => 0,
      perform() {
        asked += 1;
        return new Promise(() => {});
      },
    });
    const execution = machine.start('one', {});
    await time.run({ until: 901_000 });
    expect({ asked, status: execution.status, events: execution.events }).toEqual({
      asked: 2,
      status: 'RUNNING',
      events: 8,
    });
  });
});
