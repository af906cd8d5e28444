/**
 * A deployment on AWS as a model: the real state machine, steps and invocation deadline, over a service, a store and a log that only
 * take time. Time is simulated, so the result is what the order of operations costs, to the millisecond and the same on any machine.
 * What our own code costs is measured separately, in real time.
 */

import { startInvocationDeadline } from '../../lib/aws/lambda/invocation-deadline.ts';
import { functionLimits } from '../../lib/cdk/function-limits.ts';
import { asRunId, type ExportDefinition, type LoopState } from '../../lib/core/model.ts';
import type { StepDependencies } from '../../lib/core/ports.ts';
import { exportDefinition, exportSettingsSchema, serviceSettingsSchema } from '../../lib/settings/settings.ts';
import { byStep, type StepName, stateMachine } from '../../lib/core/state-machine/definition.ts';
import { beginRun } from '../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../lib/core/steps/export-page.ts';
import { failRun } from '../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../lib/core/steps/finish-run.ts';
import { selectDefinition } from '../../lib/backfill/window-definition.ts';
import {
  createStepFunctions,
  type ExecutionEvent,
  type StepFunctions,
  type TaskCall,
  TaskFailure,
} from '../../test/simulation/step-functions/step-functions.ts';
import { createTimeline, type Timeline } from '../../test/simulation/world/virtual-time.ts';
import { modelledLog, modelledService, modelledStore, type RunModel } from './modelled-adapters.ts';

/** The export that is modelled. */
export const exportName = 'reports';

/** The operator of the upper bound of a window, as in `service.filterUntil`. */
export const untilOperator = 'lt';

export interface ModelledAws {
  readonly time: Timeline;
  readonly definition: ExportDefinition;
  readonly log: ReturnType<typeof modelledLog>;
  readonly stepFunctions: StepFunctions;
  /** Of ExportPage so far. */
  readonly figures: { readonly invocations: number; readonly lambdaMs: number };
}

interface Payload {
  readonly input: unknown;
  readonly execution: string;
}

/** `onEvent`: also throws the first failure of a task, as no run of the model has one. */
export function createModelledAws(model: RunModel, onEvent: (event: ExecutionEvent) => void = () => {}): ModelledAws {
  const { latencies, pagesPerInvocation } = model;
  const { transitionMs, invokeMs } = latencies;
  const time = createTimeline(Date.UTC(2026, 10, 20, 2));
  const settings = exportSettingsSchema.parse({ name: exportName, pagesPerInvocation });
  const serviceSettings = serviceSettingsSchema.parse({ baseUrl: 'https://reports.example.com' });
  const limits = functionLimits({ service: serviceSettings, exports: [settings] });
  const now = () => time.now();
  const runtime = { now, monotonicNow: now, sleep: createSleep(time), randomHex: createHexCounter() };
  const definition = exportDefinition(settings, serviceSettings.baseUrl);
  const definitions = new Map([[exportName, definition]]);
  const log = modelledLog(latencies, time);
  const shared = {
    service: modelledService(model, time),
    store: modelledStore(latencies, time),
    log,
    executions: {
      isRunning: async (execution: string) => stepFunctions.find(execution)?.status === 'RUNNING',
      hasEnded: async () => false,
    },
    runtime,
    emit: () => {},
  };
  const depsOf = (input: unknown): StepDependencies => ({
    ...shared,
    definition: selectDefinition(definitions, input, untilOperator),
  });
  const figures = { invocations: 0, lambdaMs: 0 };

  async function invokeExportPage({ input, execution }: Payload) {
    const startedAt = time.now();
    const remainingMs = limits.timeoutSeconds.ExportPage * 1_000;
    using deadline = startInvocationDeadline(remainingMs, serviceSettings, 'a page', runtime);
    const outcome = await exportPage(depsOf(input), { loop: input as LoopState, execution, ...deadline });
    figures.invocations += 1;
    figures.lambdaMs += time.now() - startedAt;
    return outcome;
  }
  const steps: Readonly<Record<StepName, (payload: Payload) => Promise<unknown>>> = {
    BeginRun: (payload) => beginRun(depsOf(payload.input), payload),
    ExportPage: invokeExportPage,
    FinishRun: ({ input, execution }) =>
      finishRun(depsOf(input), { run: asRunId((input as LoopState).run), execution }),
    FailRun: ({ input, execution }) => failRun(depsOf(input), { failure: input, execution }),
  };
  async function perform({ resource, parameters }: TaskCall): Promise<unknown> {
    await time.sleep(invokeMs);
    if (resource.endsWith(':putEvents')) return {};
    if (resource.endsWith(':startExecution')) {
      const { Name, Input } = parameters as { Name: string; Input: unknown };
      return { ExecutionArn: stepFunctions.start(Name, Input).arn };
    }
    const { FunctionName, Payload: payload } = parameters as { FunctionName: StepName; Payload: Payload };
    const outcome = await steps[FunctionName](payload).catch(({ name, message }: Error) => {
      throw new TaskFailure(name, message);
    });
    return { Payload: outcome };
  }

  const stepFunctions = createStepFunctions({
    definition: stateMachine({
      functions: byStep((step) => step),
      eventBus: 'default',
      partition: 'aws',
      stepTimeoutSeconds: limits.timeoutSeconds,
      executionTimeoutSeconds: limits.executionTimeoutSeconds,
    }),
    stateMachineArn: 'arn:aws:states:us-east-1:123456789012:stateMachine:reports',
    time,
    random: () => 0.5,
    perform,
    transitionMs,
    onEvent(event) {
      if (event.type === 'task-failed') throw new Error(`${event.state} failed: ${event.error}: ${event.cause}`);
      onEvent(event);
    },
  });
  return { time, definition, log, stepFunctions, figures };
}

function createSleep(time: Timeline) {
  return (ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const cancel = time.after(ms, resolve);
      signal?.addEventListener('abort', () => {
        cancel();
        reject(signal.reason);
      });
    });
}

function createHexCounter() {
  let count = 0;
  return (length: number) => {
    count += 1;
    return count.toString(16).padStart(length, '0');
  };
}
