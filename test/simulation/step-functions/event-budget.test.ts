/** An execution's history never overflows, however much fails: nothing could catch that, and the run would stop unheard. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { LoopState } from '../../../lib/core/model.ts';
import { asRunId } from '../../../lib/core/model.ts';
import { exportSettingsSchema } from '../../../lib/core/settings/settings.ts';
import { type StepName, stepNames } from '../../../lib/core/state-machine/definition.ts';
import { stepRetries } from '../../../lib/core/state-machine/retry-policy.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { anExportBench } from '../../support/export-bench.ts';
import { someReports } from '../../support/scripted-service.ts';
import { createTimeline } from '../world/virtual-time.ts';
import { definition } from './scripted-execution.ts';
import { createStepFunctions, mostHistoryEvents, type SimulatedExecution, TaskFailure } from './step-functions.ts';

const { iterationsPerExecution, maxConsecutiveWaits } = exportSettingsSchema.parse({
  name: 'reports',
  maxConsecutiveWaits: 100,
});

/** One of every error that is tried again, as often as it is: what a visit of a state may meet at worst. */
const everyFailure = stepRetries.flatMap(({ ErrorEquals: [error = ''], MaxAttempts }) =>
  Array.from({ length: MaxAttempts }, () => (error === 'States.ALL' ? 'SlowDown' : error)),
);

interface Payload {
  readonly input: LoopState;
  readonly execution: string;
}

function asLambdaTells(error: Error): never {
  throw new TaskFailure(error.name, JSON.stringify({ errorType: error.name, errorMessage: error.message }));
}

/** Walks a run in which every attempt fails that may, and tells each execution it took. */
async function walk(pages: number, waitsBefore: (page: number) => number, iterations = iterationsPerExecution) {
  const waited = new Map<number, number>();
  const bench = anExportBench({
    reports: someReports(pages),
    size: 1,
    limits: { iterationsPerExecution: iterations, maxConsecutiveWaits },
    script() {
      const page = bench.store.objects.size + 1;
      const waits = waited.get(page) ?? 0;
      if (waits >= waitsBefore(page)) return undefined;
      waited.set(page, waits + 1);
      throw new ExportError('ServiceThrottledError', 'Report service answered 429', { retryAfterSeconds: 300 });
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
  let visit = '';
  let failures: string[] = [];
  const executions: SimulatedExecution[] = [];
  const machine = createStepFunctions({
    definition,
    machine: 'arn:aws:states:us-east-1:123456789012:stateMachine:reports',
    time,
    random: () => 0,
    async perform({ execution, state, parameters, attempt }) {
      const here = `${execution.name}/${state}/${execution.events - 3 * attempt}`;
      if (here !== visit) failures = [...everyFailure];
      visit = here;
      const failure = failures.pop();
      const step = stepNames.find((each) => each === state);
      if (failure !== undefined && step !== undefined) throw new TaskFailure(failure, 'on purpose');
      const {
        Payload: payload,
        Name,
        Input,
      } = parameters as {
        Payload: Payload;
        Name: string;
        Input: unknown;
      };
      if (state === 'ContinueInNewExecution') machine.start(Name, Input);
      if (step === undefined) return {};
      return { Payload: await steps[step](payload).catch(asLambdaTells) };
    },
    on({ what, execution }) {
      if (what === 'started') executions.push(execution);
    },
  });
  machine.start('first', {});
  await time.run({
    until: Number.POSITIVE_INFINITY,
    stop: () => executions.every(({ status }) => status !== 'RUNNING'),
  });
  return { executions, bench };
}

describe('the events of an execution', () => {
  it('are fewer than it holds where every attempt fails that may, on every page', async () => {
    const { executions } = await walk(2 * iterationsPerExecution + 10, () => 0);
    expect(executions.map(({ status }) => status)).toEqual(['SUCCEEDED', 'SUCCEEDED', 'SUCCEEDED']);
    const most = Math.max(...executions.map(({ events }) => events));
    expect(most).toBeLessThan(mostHistoryEvents);
    // Or else the setting could be higher.
    expect(most).toBeGreaterThan(0.9 * mostHistoryEvents);
  });

  it('are fewer than it holds where the service makes it wait too, as often as it may', async () => {
    const last = iterationsPerExecution - 1;
    const { executions } = await walk(iterationsPerExecution + 10, (page) => (page === last ? maxConsecutiveWaits : 0));
    expect(new Set(executions.map(({ status }) => status))).toEqual(new Set(['SUCCEEDED']));
    expect(Math.max(...executions.map(({ events }) => events))).toBeLessThan(mostHistoryEvents);
  });

  it('do not start patience anew: waits in a row are counted across executions', async () => {
    const { executions } = await walk(3, (page) => (page === 2 ? maxConsecutiveWaits + 1 : 0), 20);
    expect(executions.length).toBeGreaterThan(5);
    expect(executions.map(({ status }) => status).filter((status) => status !== 'SUCCEEDED')).toEqual(['FAILED']);
    expect(executions.at(-1)).toMatchObject({ error: 'RequestRejectedError' });
  });
});
