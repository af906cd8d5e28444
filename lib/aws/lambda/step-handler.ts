/**
 * What the four functions have in common: an invocation as the state machine sends it, wiring made once per container,
 * and telemetry around it all.
 */

import type { Context } from 'aws-lambda';
import { ExportError } from '../../core/errors.ts';
import { createTelemetry, type Telemetry } from './telemetry.ts';

/** As `state-machine.ts` sends it. */
export interface StepEvent {
  /** What the step before has left. */
  readonly input: unknown;
  /** The ARN of the execution that asks. */
  readonly execution: string;
}

export type InvocationContext = Pick<Context, 'awsRequestId' | 'getRemainingTimeInMillis'>;
export type StepHandler<Outcome> = (event: StepEvent, context: InvocationContext) => Promise<Outcome>;

/** The environment as the function finds it; read on the first invocation, so that a mistake in it is that one's error. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * A handler that calls `assemble` on its first invocation, and what that made on every one. Its errors keep their names:
 * the state machine decides by them.
 */
export function stepHandler<Outcome>(
  assemble: (telemetry: Telemetry) => (event: StepEvent, context: InvocationContext) => Promise<Outcome>,
): StepHandler<Outcome> {
  const telemetry = createTelemetry();
  let step: ReturnType<typeof assemble> | undefined;
  return async (event, context) => {
    telemetry.begin({ execution: event?.execution, request: context.awsRequestId });
    try {
      assertStepEvent(event);
      step ??= assemble(telemetry);
      return await step(event, context);
    } catch (error) {
      nameFromCode(error);
      telemetry.failed(error, turnIn(event?.input));
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
    'This function is a step of the state machine, which sends it { input, execution }. ' +
      'Start an execution of the state machine instead of invoking the function',
  );
}

/** To Node a connection that fails is just an Error, with a code; but only the name is shown in an execution's history. */
function nameFromCode(error: unknown): void {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return;
  if (error.name === 'Error' || error.name === 'AggregateError') error.name = error.code;
}

function turnIn(input: unknown): { readonly run?: unknown; readonly page?: unknown } {
  if (typeof input !== 'object' || input === null) return {};
  const { run, page } = input as { run?: unknown; page?: unknown };
  return { ...(run === undefined ? {} : { run }), ...(page === undefined ? {} : { page }) };
}
