/**
 * What the four functions share: an event as the state machine sends it, dependencies created once per container, and
 * telemetry around every invocation.
 */

import type { Context } from 'aws-lambda';
import { codeOf, ExportError } from '../../core/errors.ts';
import { explainAccessDenied } from '../errors.ts';
import { lambdaPlatform, type Platform } from './platform.ts';
import { createTelemetry, type Telemetry } from './telemetry.ts';

/** As `lib/core/state-machine/definition.ts` sends it. */
interface StepEvent {
  /** The output of the state before. */
  readonly input: unknown;
  /** The ARN of the execution that invokes the function. */
  readonly execution: string;
  /** How many attempts of the step have failed before. ExportPage alone receives it. */
  readonly retries?: number;
  /** The input that the execution was started with. FailRun alone receives it. */
  readonly startInput?: unknown;
  /** Instead of all the above: an operator asks ExportPage whether it reaches the service. */
  readonly probe?: unknown;
}

type InvocationContext = Pick<Context, 'awsRequestId' | 'getRemainingTimeInMillis'>;
export type StepHandler<Outcome> = (event: StepEvent, context: InvocationContext) => Promise<Outcome>;

/**
 * A Lambda handler that calls `createStep` on its first invocation, so that a mistake in the environment fails that
 * invocation instead of the cold start, and reuses the step afterwards. Errors keep their names: the state machine
 * decides by them.
 *
 * With `acceptsProbe`, the step also receives the events of operators, which are not attempts of an export.
 */
export function stepHandler<Outcome>(
  createStep: (telemetry: Telemetry) => StepHandler<Outcome>,
  { telemetryOutput }: Pick<Platform, 'telemetryOutput'> = lambdaPlatform,
  { acceptsProbe = false }: { readonly acceptsProbe?: boolean } = {},
): StepHandler<Outcome> {
  const telemetry = createTelemetry(telemetryOutput);
  let step: StepHandler<Outcome> | undefined;
  const isProbe = (event: Partial<StepEvent> | undefined) => acceptsProbe && event?.probe !== undefined;
  return async (event, context) => {
    telemetry.begin({ execution: event?.execution, request: context.awsRequestId });
    try {
      if (!isProbe(event)) assertStepEvent(event);
      step ??= createStep(telemetry);
      return await step(event, context);
    } catch (error) {
      nameFromCode(error);
      explainAccessDenied(error);
      if (!isProbe(event)) telemetry.failed(error, runAndPageOf(event?.input));
      throw error;
    } finally {
      telemetry.end();
    }
  };
}

function assertStepEvent(event: Partial<StepEvent> | undefined): void {
  if (typeof event?.execution === 'string' && event.execution !== '') return;
  throw new ExportError(
    'ConfigurationError',
    'This function is a step of the state machine, which invokes it with { input, execution }. ' +
      'Start an execution of the state machine instead of invoking the function',
  );
}

/** Copies the `code` of Node.js's network errors to `name`: execution histories show only the name. */
function nameFromCode(error: unknown): void {
  if (!(error instanceof Error) || codeOf(error) === '') return;
  if (error.name === 'Error' || error.name === 'AggregateError') error.name = codeOf(error);
}

function runAndPageOf(input: unknown): { readonly run?: unknown; readonly page?: unknown } {
  if (typeof input !== 'object' || input === null) return {};
  const { run, page } = input as { run?: unknown; page?: unknown };
  return { run, page };
}
