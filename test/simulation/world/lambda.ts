/**
 * Simulated Lambda: runs each step as its own process until it returns or its timeout has passed. An invocation can be
 * rejected, can run twice, and its response can be lost while the step continues. Its container is new, or one that
 * earlier invocations of the same function have left.
 */

import type { StepName } from '../../../lib/core/state-machine/definition.ts';
import { TaskFailure } from '../step-functions/step-functions.ts';
import type { WarmContainer } from './container.ts';
import type { Version } from './deployments.ts';
import { createProcess, type Process } from './process.ts';
import type { World } from './world.ts';

export interface LambdaOptions {
  readonly world: World;
  /** Whether a function continues after its timeout, so that its retry runs beside it. */
  readonly timedOutFunctionsContinue: boolean;
  /** The largest difference between a function's clock and virtual time. */
  readonly maxSkewMs: number;
  /** The version of the step's function that the invocation `id` gets. */
  readonly functionVersion: (step: StepName, id: string) => Version;
  /** A new container of the step's function, for the invocation `id`; with changed settings if `isChanged`. */
  readonly createContainer: (step: StepName, id: string, version: Version, isChanged: boolean) => WarmContainer;
  /** Whether the invocation gets a new container with changed settings. */
  readonly needsChangedContainer: (step: StepName, id: string) => boolean;
  /** Whether the clock of a function may be set while it runs. */
  readonly clocksJump: boolean;
}

export interface Lambda {
  /** @throws TaskFailure */
  invoke(step: StepName, payload: Process['payload'], id: string): Promise<unknown>;
  readonly invocationCount: () => number;
}

interface IdleContainer {
  readonly step: StepName;
  readonly version: Version;
  readonly container: WarmContainer;
}

/** The probability that an invocation uses an idle container, if there is one. */
const warmProbability = 0.8;

export function createLambda(options: LambdaOptions): Lambda {
  const { world, timedOutFunctionsContinue, maxSkewMs, clocksJump } = options;
  const { time } = world;
  const idleContainers: IdleContainer[] = [];
  let invocationCount = 0;

  const takeContainer = (step: StepName, id: string, version: Version): WarmContainer => {
    const idle = idleContainers.filter((each) => each.step === step && each.version === version);
    const rng = world.rng(`${id}/container`);
    const isWarm = rng.chance(warmProbability) && idle.length > 0;
    const isChanged = options.needsChangedContainer(step, id);
    if (isChanged || !isWarm) return options.createContainer(step, id, version, isChanged);
    const taken = rng.pick(idle);
    idleContainers.splice(idleContainers.indexOf(taken), 1);
    const { container } = taken;
    world.log(id, () => `gets the warm container of ${container.id}`);
    return container;
  };

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
    const version = options.functionVersion(step, id);
    const container = takeContainer(step, id, version);
    container.begin(process);
    const endsAt = time.now() + version.timeoutSeconds[step] * 1_000;
    let isTimedOut = false;
    const cancelTimeout = time.after(endsAt - time.now(), () => {
      if (!process.isAlive()) return;
      isTimedOut = true;
      checkTimeout(world, id);
      reject(new TaskFailure('Sandbox.Timedout', 'Task timed out'));
      if (timedOutFunctionsContinue) world.log(id, () => 'timed out, but continues');
      else process.kill('by its timeout');
    });
    const getRemainingTimeInMillis = () => Math.max(0, endsAt - time.now());
    // Lambda ends a container whose function was killed or has timed out.
    const end = () => {
      cancelTimeout();
      if (!process.isAlive() || isTimedOut) return;
      container.end();
      idleContainers.push({ step, version, container });
    };
    container.handler(process.payload, { awsRequestId: id, getRemainingTimeInMillis }).then(
      (value) => {
        end();
        if (!process.isAlive()) return;
        world.log(id, () => `returns ${JSON.stringify(value)}`);
        resolve(JSON.parse(JSON.stringify(value)));
      },
      (error: unknown) => {
        end();
        if (!process.isAlive()) return;
        const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
        world.log(id, () => `throws ${name}: ${message}`);
        checkErrorName(world, id, error);
        checkConflict(world, id, name);
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

/** A function that is neither suspended nor waits for AWS reports its own error in time. */
function checkTimeout(world: World, id: string): void {
  const isExcused = world.injectedFaults.some(({ kind, site }) => excuses.has(kind) && isSiteOf(site, id));
  if (!isExcused) world.violate('a function ends before its timeout', id);
}

const excuses: ReadonlySet<string> = new Set([
  'process-frozen',
  'request-slow',
  'request-lost',
  'response-lost',
  'throttled',
  'server-error',
  'write-conflict',
]);
const isSiteOf = (site: string, id: string) => site.startsWith(`${id}/`);

const conflictErrors: ReadonlySet<string> = new Set([
  'ConditionalRequestConflict',
  'PreconditionFailed',
  'NoSuchUpload',
  'ConditionalCheckFailedException',
]);

/** The adapters try again after so many conflicts in a row. */
const minConflicts = 6;

/** Two writes that meet are normal: the adapter looks what is there, or writes again. */
function checkConflict(world: World, id: string, name: string): void {
  if (!conflictErrors.has(name)) return;
  const faults = world.injectedFaults.filter(({ site }) => site.startsWith(`${id}/`));
  if (faults.length < minConflicts) {
    world.violate('no attempt fails because two writes conflict', `${id}: ${name} after ${faults.length} faults`);
  }
}

/** Retries, alarms and operators go by an error's name, so generic names are not enough. */
function checkErrorName(world: World, id: string, error: unknown): void {
  const isGeneric =
    !(error instanceof Error) || /^(Error|TypeError|RangeError|SyntaxError|ReferenceError|ZodError)$/.test(error.name);
  if (isGeneric) {
    world.violate('every error has a specific name', `${id}: ${error instanceof Error ? error.stack : String(error)}`);
  }
}
