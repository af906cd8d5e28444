/**
 * Lambda, simulated: runs a step as a process of its own, for as long as its timeout lets it, and tells the caller what it
 * answered. It may turn the caller away, run the step twice, or fail to be heard while the step goes on.
 */

import type { StepName } from '../../../lib/core/state-machine/definition.ts';
import { TaskFailure } from '../step-functions/step-functions.ts';
import { createProcess, type Process } from './process.ts';
import type { World } from './world.ts';

export interface LambdaOptions {
  readonly world: World;
  readonly timeoutSeconds: Readonly<Record<StepName, number>>;
  /** Whether a function that has timed out lives on: it never hears of it, and its retry meets it. */
  readonly zombies: boolean;
  /** How far the clocks of functions are off at most, in milliseconds. */
  readonly skewMs: number;
  readonly run: (process: Process, remainingMs: () => number) => Promise<unknown>;
}

export interface Lambda {
  /** @throws TaskFailure */
  invoke(step: StepName, payload: Process['payload'], about: string): Promise<unknown>;
  readonly invocations: () => number;
}

export function createLambda({ world, timeoutSeconds, zombies, skewMs, run }: LambdaOptions): Lambda {
  const { time } = world;
  let invocations = 0;

  const begin = (step: StepName, payload: Process['payload'], id: string): Promise<unknown> => {
    invocations += 1;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    promise.catch(() => {});
    const dice = world.dice(`${id}/function`);
    const process = createProcess({
      world,
      id,
      step,
      payload: structuredClone(payload),
      skewMs: Math.round(dice.between(-skewMs, skewMs)),
      onKilled: (why) => reject(new TaskFailure(dice.pick(['Lambda.Unknown', 'Runtime.ExitError']), why)),
    });
    const endsAt = time.now() + timeoutSeconds[step] * 1_000;
    const cancel = time.after(endsAt - time.now(), () => {
      reject(new TaskFailure('Sandbox.Timedout', 'Task timed out'));
      if (zombies) world.tell(id, () => 'has timed out and does not know');
      else process.kill('its time is up');
    });
    run(process, () => Math.max(0, endsAt - time.now())).then(
      (value) => {
        cancel();
        if (!process.isAlive()) return;
        world.tell(id, () => `answers ${JSON.stringify(value)}`);
        resolve(JSON.parse(JSON.stringify(value)));
      },
      (error: unknown) => {
        cancel();
        if (!process.isAlive()) return;
        const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
        world.tell(id, () => `fails: ${name}: ${message}`);
        checkName(world, id, error);
        reject(new TaskFailure(name, JSON.stringify({ errorType: name, errorMessage: message, trace: [] })));
      },
    );
    return promise;
  };

  return {
    invocations: () => invocations,
    async invoke(step, payload, about) {
      const dice = world.dice(`${about}/invoke`);
      await time.sleep(dice.between(2, 60));
      if (world.strikes('not-invoked', about)) {
        throw new TaskFailure(
          dice.pick(['Lambda.TooManyRequestsException', 'Lambda.ServiceException']),
          'Rate Exceeded',
        );
      }
      const answered = begin(step, payload, about);
      if (world.strikes('invoked-twice', about)) {
        time.after(dice.between(0, 5_000), () => void begin(step, payload, `${about}'`));
      }
      if (!world.strikes('unheard', about)) return answered;
      await Promise.race([answered.catch(() => {}), time.sleep(dice.between(0, 3_000))]);
      world.tell(about, () => 'is not heard');
      throw new TaskFailure('Lambda.SdkClientException', 'the connection was lost');
    },
  };
}

/** What a person is told must have a name that means something. */
function checkName(world: World, id: string, error: unknown): void {
  const nameless =
    !(error instanceof Error) || /^(Error|TypeError|RangeError|SyntaxError|ReferenceError|ZodError)$/.test(error.name);
  if (nameless)
    world.violate('every error has a name', `${id}: ${error instanceof Error ? error.stack : String(error)}`);
}
