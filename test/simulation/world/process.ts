/**
 * One function invocation as a process that can be killed, can freeze, and can continue after its caller has stopped
 * waiting. Each of these happens at a request that the process sends.
 */

import type { Runtime } from '../../../lib/core/ports.ts';
import type { StepName } from '../../../lib/core/state-machine/definition.ts';
import type { World } from './world.ts';

export interface Process {
  readonly id: string;
  /** In virtual time. */
  readonly startedAt: number;
  readonly step: StepName;
  /** The event that the state machine sent. */
  readonly payload: { readonly input: unknown; readonly execution: string; readonly startInput?: unknown };
  readonly runtime: Runtime;
  /** By how many milliseconds its clock has differed from virtual time so far. */
  readonly clockOffsets: ReadonlySet<number>;
  readonly isAlive: () => boolean;
  /** Whether it has aborted a request that creates a report job. It does not know the answer. */
  hasAbortedCreation: boolean;
  /** Ends the process. Requests that it has sent still take effect. */
  kill(reason: string): void;
  /**
   * Sends one request: `effect` happens at the server, and what it returns or throws is the response. Never settles
   * once the process is dead.
   */
  request<Response>(server: string, operation: string, effect: () => Response, latency: Latency): Promise<Response>;
}

/** Milliseconds in each direction. */
export type Latency = readonly [min: number, max: number];

export interface ProcessOptions {
  readonly world: World;
  readonly id: string;
  readonly step: Process['step'];
  readonly payload: Process['payload'];
  /** Difference between its clock and virtual time when it starts. */
  readonly skewMs: number;
  /** Whether its clock may be set. Its timers are monotonic. */
  readonly clockJumps: boolean;
  readonly onKilled: (reason: string) => void;
}

/** How far a clock jumps: some are corrected at last, others become wrong. */
const clockJumpsMs = [-10_800_000, -1_200_000, -15_000, 0, 15_000, 1_200_000, 10_800_000];
export const maxClockJumpMs = Math.max(...clockJumpsMs);

/** The error of a request or a response that was lost. */
class ConnectionError extends Error {
  override readonly name = 'TimeoutError';
  readonly code = 'ECONNRESET';
  readonly $metadata = {};
}

export const connectionError = (message: string): Error => new ConnectionError(message);
export const isConnectionError = (error: unknown): boolean => error instanceof ConnectionError;

export function createProcess({ world, id, step, payload, skewMs, clockJumps, onKilled }: ProcessOptions): Process {
  const { time } = world;
  let alive = true;
  let requestCount = 0;
  let randomCount = 0;
  let clockOffsetMs = skewMs;
  const clockOffsets = new Set([skewMs]);

  const jumpClock = (site: string) => {
    if (!clockJumps || !world.injectFault('clock-jumps', site)) return;
    clockOffsetMs = skewMs + world.rng(`${site}/clock`).pick(clockJumpsMs);
    clockOffsets.add(clockOffsetMs);
    world.log(id, () => `its clock is now ${Math.round(clockOffsetMs / 1_000)} s from the true time`);
  };
  jumpClock(`${id}/start`);

  const kill = (reason: string) => {
    if (!alive) return;
    alive = false;
    world.log(id, () => `killed ${reason}`);
    onKilled(reason);
  };

  const freeze = async (ms: number, when: string) => {
    world.log(id, () => `freezes ${when} for ${Math.round(ms / 1_000)} s`);
    await time.sleep(ms);
    if (alive) world.log(id, () => 'resumes');
  };

  const request: Process['request'] = async (server, operation, effect, [min, max]) => {
    if (!alive) return never();
    requestCount += 1;
    const what = `${server} ${operation}`;
    const site = `${id}/${what}#${requestCount}`;
    const rng = world.rng(site);
    const frozenMs = world.injectFault('process-frozen', site) ? rng.between(60_000, 2_400_000) : 0;
    const freezesBefore = rng.chance(0.5);
    const latencyMs = () => rng.between(min, max);
    const delayMs = world.injectFault('request-slow', site) ? rng.between(5_000, 90_000) : 0;

    if (world.injectFault('killed-before-request', site)) kill(`before ${what}`);
    if (frozenMs > 0 && freezesBefore) await freeze(frozenMs, `before ${what}`);
    if (!alive) return never();
    await time.sleep(latencyMs() + (rng.chance(0.5) ? delayMs : 0));

    // The request is now in flight: it takes effect even if its sender dies.
    if (world.injectFault('killed-during-request', site)) kill(`during ${what}`);
    const isLost = world.injectFault('request-lost', site);
    let response: { readonly value: Awaited<ReturnType<typeof effect>> } | { readonly error: unknown } | undefined;
    if (isLost) world.log(id, () => `${what}: request lost`);
    else {
      try {
        response = { value: effect() as Awaited<ReturnType<typeof effect>> };
        world.log(id, () => `${what}: ok${alive ? '' : ' (sender is dead)'}`);
      } catch (error) {
        response = { error };
        world.log(id, () => `${what}: ${error instanceof Error ? error.name : String(error)}`);
      }
    }
    jumpClock(site);
    await time.sleep(latencyMs() + delayMs);
    if (world.injectFault('killed-after-request', site)) kill(`before the response of ${what} arrives`);
    if (frozenMs > 0 && !freezesBefore) await freeze(frozenMs, `after ${what}`);
    if (!alive) return never();
    if (response === undefined) throw new ConnectionError(`${server} did not respond`);
    if (world.injectFault('response-lost', site)) {
      world.log(id, () => `${what}: response lost`);
      throw new ConnectionError(`The response of ${server} was lost`);
    }
    if ('error' in response) throw response.error;
    return response.value;
  };

  return {
    id,
    startedAt: time.now(),
    step,
    payload,
    clockOffsets,
    isAlive: () => alive,
    hasAbortedCreation: false,
    kill,
    request,
    runtime: {
      now: () => Math.floor(time.now() + clockOffsetMs),
      monotonicNow: () => time.now(),
      sleep: (ms, signal) => sleepWhileAlive(world, () => alive, ms, signal),
      randomHex(length) {
        randomCount += 1;
        const rng = world.rng(`${id}/hex#${randomCount}`);
        return Array.from({ length }, () => rng.integerBelow(16).toString(16)).join('');
      },
    },
  };
}

/** A new promise each time, so that whatever waits for it can be garbage-collected with it. */
const never = () => new Promise<never>(() => {});

function sleepWhileAlive(
  world: World,
  isAlive: () => boolean,
  ms: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = world.time.after(ms, () => {
      signal?.removeEventListener('abort', onAbort);
      if (isAlive()) resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
