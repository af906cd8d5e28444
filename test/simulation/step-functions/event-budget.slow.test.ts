/** Nothing can catch a full execution history, and the run would stop without a message. So it must never fill up. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { LoopState } from '../../../lib/core/model.ts';
import { asRunId } from '../../../lib/core/model.ts';
import { exportSettingsSchema } from '../../../lib/settings/settings.ts';
import { type StepName, stepNames } from '../../../lib/core/state-machine/definition.ts';
import { stepRetries } from '../../../lib/core/state-machine/retry-policy.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { anExportBench } from '../../support/export/export-bench.ts';
import { someReports } from '../../support/export/scripted-service.ts';
import { createTimeline } from '../world/virtual-time.ts';
import { definition } from './scripted-execution.ts';
import { createStepFunctions, maxHistoryEvents, type SimulatedExecution, TaskFailure } from './step-functions.ts';

const { iterationsPerExecution, maxConsecutiveWaits } = exportSettingsSchema.parse({
  name: 'reports',
  maxConsecutiveWaits: 100,
});

/** Every error that is retried, as often as it is retried: the most failures that one task can have before it succeeds. */
const allRetriedErrors = (step: StepName) =>
  stepRetries(step).flatMap(({ ErrorEquals: [error = ''], MaxAttempts }) =>
    Array.from({ length: MaxAttempts }, () => (error === 'States.ALL' ? 'SlowDown' : error)),
  );

interface Payload {
  readonly input: LoopState;
  readonly execution: string;
}

/** Exports `pages` pages. Every task first fails with every error that is retried. */
async function exportWithAllErrors({
  pages,
  waitsBefore,
  iterations = iterationsPerExecution,
}: {
  readonly pages: number;
  /** How often the service asks for a wait before this page. */
  readonly waitsBefore: (page: number) => number;
  readonly iterations?: number;
}) {
  const waits = new Map<number, number>();
  const bench = anExportBench({
    reports: someReports(pages),
    size: 1,
    limits: { iterationsPerExecution: iterations, maxConsecutiveWaits },
    script() {
      const page = bench.store.objects.size + 1;
      const count = waits.get(page) ?? 0;
      if (count >= waitsBefore(page)) return undefined;
      waits.set(page, count + 1);
      throw new ExportError('ServiceThrottledError', 'Report service responded with 429', { retryAfterSeconds: 300 });
    },
  });
  const { deps } = bench;
  const steps: Readonly<Record<StepName, (payload: Payload) => Promise<unknown>>> = {
    BeginRun: (payload) => beginRun(deps, payload),
    ExportPage: ({ input, execution }) => exportPage(deps, { loop: input, execution }),
    FinishRun: ({ input, execution }) => finishRun(deps, { run: asRunId(input.run), execution }),
    FailRun: ({ input, execution }) => failRun(deps, { failure: input, execution }),
  };
  const time = createTimeline(0);
  let currentTask = '';
  let remainingErrors: string[] = [];
  const executions: SimulatedExecution[] = [];
  const stepFunctions = createStepFunctions({
    definition,
    stateMachineArn: 'arn:aws:states:us-east-1:123456789012:stateMachine:reports',
    time,
    random: () => 0,
    async perform({ execution, state, parameters, attempt }) {
      const task = `${execution.name}/${state}/${execution.eventCount - 3 * attempt}`;
      const step = stepNames.find((each) => each === state);
      if (task !== currentTask) remainingErrors = step === undefined ? [] : allRetriedErrors(step);
      currentTask = task;
      const error = remainingErrors.pop();
      if (error !== undefined && step !== undefined) throw new TaskFailure(error, 'injected');
      const {
        Payload: payload,
        Name,
        Input,
      } = parameters as {
        Payload: Payload;
        Name: string;
        Input: unknown;
      };
      if (state === 'ContinueInNewExecution') stepFunctions.start(Name, Input);
      if (step === undefined) return {};
      return { Payload: await steps[step](payload).catch(throwAsTaskFailure) };
    },
    onEvent({ type, execution }) {
      if (type === 'started') executions.push(execution);
    },
  });
  stepFunctions.start('first', {});
  await time.run({
    until: Number.POSITIVE_INFINITY,
    stop: () => executions.every(({ status }) => status !== 'RUNNING'),
  });
  return executions;
}

function throwAsTaskFailure(error: Error): never {
  throw new TaskFailure(error.name, JSON.stringify({ errorType: error.name, errorMessage: error.message }));
}

describe('the history of an execution', () => {
  it('stays within its limit when every task on every page fails as often as it may', async () => {
    const executions = await exportWithAllErrors({ pages: 2 * iterationsPerExecution + 10, waitsBefore: () => 0 });
    expect(executions.map(({ status }) => status)).toEqual(['SUCCEEDED', 'SUCCEEDED', 'SUCCEEDED']);
    const max = Math.max(...executions.map(({ eventCount }) => eventCount));
    expect(max).toBeLessThan(maxHistoryEvents);
    // Otherwise iterationsPerExecution could be higher.
    expect(max).toBeGreaterThan(0.9 * maxHistoryEvents);
  });

  it('stays within its limit when the service also asks for as many waits as are allowed', async () => {
    const last = iterationsPerExecution - 1;
    const executions = await exportWithAllErrors({
      pages: iterationsPerExecution + 10,
      waitsBefore: (page) => (page === last ? maxConsecutiveWaits : 0),
    });
    expect(new Set(executions.map(({ status }) => status))).toEqual(new Set(['SUCCEEDED']));
    expect(Math.max(...executions.map(({ eventCount }) => eventCount))).toBeLessThan(maxHistoryEvents);
  });

  it('does not reset the count of consecutive waits when the run continues in a new execution', async () => {
    const executions = await exportWithAllErrors({
      pages: 3,
      waitsBefore: (page) => (page === 2 ? maxConsecutiveWaits + 1 : 0),
      iterations: 20,
    });
    expect(executions.length).toBeGreaterThan(5);
    expect(executions.map(({ status }) => status).filter((status) => status !== 'SUCCEEDED')).toEqual(['FAILED']);
    expect(executions.at(-1)).toMatchObject({ error: 'RequestRejectedError' });
  });
});
