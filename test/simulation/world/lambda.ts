/**
 * Simulated Lambda: runs each step as its own process until it returns or its timeout has passed. An invocation can be
 * rejected, can run twice, and its response can be lost while the step continues.
 */

import type { StepName } from '../../../lib/core/state-machine/definition.ts';
import { TaskFailure } from '../step-functions/step-functions.ts';
import { createProcess, type Process } from './process.ts';
import type { World } from './world.ts';

export interface LambdaOptions {
  readonly world: World;
  readonly timeoutSeconds: Readonly<Record<StepName, number>>;
  /** Whether a function continues after its timeout, so that its retry runs beside it. */
  readonly timedOutFunctionsContinue: boolean;
  /** The largest difference between a function's clock and virtual time. */
  readonly maxSkewMs: number;
  /** Whether the clock of a function may be set while it runs. */
  readonly clocksJump: boolean;
  readonly run: (process: Process, remainingMs: () => number) => Promise<unknown>;
}

export interface Lambda {
  /** @throws TaskFailure */
  invoke(step: StepName, payload: Process['payload'], id: string): Promise<unknown>;
  readonly invocationCount: () => number;
}

export function createLambda(options: LambdaOptions): Lambda {
  const { world, timeoutSeconds, timedOutFunctionsContinue, maxSkewMs, clocksJump, run } = options;
  const { time } = world;
  let invocationCount = 0;

  const startProcess = (step: StepName, payload: Process['payload'], id: string): Promise<unknown> => {
    invocationCount += 1;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    promise.catch(() => {});
    const rng = world.rng(`${id}/function`);
    const process = createProcess({
      world,
      id,
      step,
      payload: structuredClone(payload),
      skewMs: Math.round(rng.between(-maxSkewMs, maxSkewMs)),
      clockJumps: clocksJump,
      onKilled: (reason) => reject(new TaskFailure(rng.pick(['Lambda.Unknown', 'Runtime.ExitError']), reason)),
    });
    const endsAt = time.now() + timeoutSeconds[step] * 1_000;
    const cancelTimeout = time.after(endsAt - time.now(), () => {
      reject(new TaskFailure('Sandbox.Timedout', 'Task timed out'));
      if (timedOutFunctionsContinue) world.log(id, () => 'timed out, but continues');
      else process.kill('by its timeout');
    });
    run(process, () => Math.max(0, endsAt - time.now())).then(
      (value) => {
        cancelTimeout();
        if (!process.isAlive()) return;
        world.log(id, () => `returns ${JSON.stringify(value)}`);
        resolve(JSON.parse(JSON.stringify(value)));
      },
      (error: unknown) => {
        cancelTimeout();
        if (!process.isAlive()) return;
        const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
        world.log(id, () => `throws ${name}: ${message}`);
        checkErrorName(world, id, error);
        reject(new TaskFailure(name, JSON.stringify({ errorType: name, errorMessage: message, trace: [] })));
      },
    );
    return promise;
  };

  return {
    invocationCount: () => invocationCount,
    async invoke(step, payload, id) {
      const rng = world.rng(`${id}/invoke`);
      await time.sleep(rng.between(2, 60));
      if (world.injectFault('invocation-rejected', id)) {
        throw new TaskFailure(
          rng.pick(['Lambda.TooManyRequestsException', 'Lambda.ServiceException']),
          'Rate Exceeded',
        );
      }
      const response = startProcess(step, payload, id);
      if (world.injectFault('invoked-twice', id)) {
        time.after(rng.between(0, 5_000), () => void startProcess(step, payload, `${id}'`));
      }
      if (!world.injectFault('invocation-response-lost', id)) return response;
      await Promise.race([response.catch(() => {}), time.sleep(rng.between(0, 3_000))]);
      world.log(id, () => 'its response is lost');
      throw new TaskFailure('Lambda.SdkClientException', 'The connection was lost');
    },
  };
}

/** Retries, alarms and operators go by an error's name, so generic names are not enough. */
function checkErrorName(world: World, id: string, error: unknown): void {
  const isGeneric =
    !(error instanceof Error) || /^(Error|TypeError|RangeError|SyntaxError|ReferenceError|ZodError)$/.test(error.name);
  if (isGeneric) {
    world.violate('every error has a specific name', `${id}: ${error instanceof Error ? error.stack : String(error)}`);
  }
}
