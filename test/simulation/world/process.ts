/**
 * One invocation of a function: code of ours that runs on a machine which may be killed, freeze, or live on after nobody
 * waits for it any more. Every request it makes is a moment at which that can happen.
 */

import type { Runtime } from '../../../lib/core/ports.ts';
import type { StepName } from '../../../lib/core/state-machine/definition.ts';
import type { World } from './world.ts';

export interface Process {
  readonly id: string;
  readonly step: StepName;
  /** As the state machine sent it. */
  readonly payload: { readonly input: unknown; readonly execution: string };
  readonly runtime: Runtime;
  readonly isAlive: () => boolean;
  /** Nothing it does comes to pass any more, but for requests that are under way. */
  kill(why: string): void;
  /**
   * Sends one request, has `effect` happen at the other end, and brings its answer back. What `effect` throws is an answer
   * too. Dead, it never settles.
   */
  request<Answer>(to: string, what: string, effect: () => Answer, latency: Latency): Promise<Answer>;
}

/** Milliseconds, there or back. */
export type Latency = readonly [low: number, high: number];

export interface ProcessOptions {
  readonly world: World;
  readonly id: string;
  readonly step: StepName;
  readonly payload: Process['payload'];
  /** How far its clock is off, in milliseconds. */
  readonly skewMs: number;
  readonly onKilled: (why: string) => void;
}

/** What a request ends with whose connection broke. */
class ConnectionError extends Error {
  override readonly name = 'TimeoutError';
  readonly code = 'ECONNRESET';
  readonly $metadata = {};
}

export const isConnectionError = (error: unknown): boolean => error instanceof ConnectionError;

/** Another each time: what waits for it must be free to go with it. */
const never = () => new Promise<never>(() => {});

export function createProcess({ world, id, step, payload, skewMs, onKilled }: ProcessOptions): Process {
  const { time } = world;
  let alive = true;
  let requests = 0;
  let randoms = 0;

  const kill = (why: string) => {
    if (!alive) return;
    alive = false;
    world.tell(id, () => `is killed: ${why}`);
    onKilled(why);
  };

  const request: Process['request'] = async (to, what, effect, [low, high]) => {
    if (!alive) return never();
    requests += 1;
    const about = `${id}/${to} ${what}#${requests}`;
    const dice = world.dice(about);
    const frozen = world.strikes('frozen', about) ? dice.between(60_000, 2_400_000) : 0;
    const frozenBefore = dice.happens(0.5);
    const travel = () => dice.between(low, high);
    const slow = world.strikes('slow', about) ? dice.between(5_000, 90_000) : 0;

    if (world.strikes('killed-before', about)) kill(`before ${to} ${what}`);
    if (frozen > 0 && frozenBefore) await freeze(frozen, `before ${to} ${what}`);
    if (!alive) return never();
    await time.sleep(travel() + (dice.happens(0.5) ? slow : 0));

    // From here on the request is on its way, whatever becomes of its sender.
    if (world.strikes('killed-during', about)) kill(`while ${to} ${what} is under way`);
    const lost = world.strikes('request-lost', about);
    let answer: { readonly value: Awaited<ReturnType<typeof effect>> } | { readonly error: unknown } | undefined;
    if (lost) world.tell(id, () => `${to} ${what}: the request is lost`);
    else {
      try {
        answer = { value: effect() as Awaited<ReturnType<typeof effect>> };
        world.tell(id, () => `${to} ${what}${alive ? '' : ' (from a dead hand)'}: done`);
      } catch (error) {
        answer = { error };
        world.tell(id, () => `${to} ${what}: ${error instanceof Error ? error.name : String(error)}`);
      }
    }
    await time.sleep(travel() + slow);
    if (world.strikes('killed-after', about)) kill(`before it hears of ${to} ${what}`);
    if (frozen > 0 && !frozenBefore) await freeze(frozen, `after ${to} ${what}`);
    if (!alive) return never();
    if (answer === undefined) throw new ConnectionError(`${to} gave no answer`);
    if (world.strikes('answer-lost', about)) {
      world.tell(id, () => `${to} ${what}: the answer is lost`);
      throw new ConnectionError(`the answer of ${to} was lost`);
    }
    if ('error' in answer) throw answer.error;
    return answer.value;
  };

  const freeze = async (ms: number, when: string) => {
    world.tell(id, () => `freezes ${when} for ${Math.round(ms / 1_000)} s`);
    await time.sleep(ms);
    if (alive) world.tell(id, () => 'wakes up');
  };

  return {
    id,
    step,
    payload,
    isAlive: () => alive,
    kill,
    request,
    runtime: {
      now: () => Math.floor(time.now() + skewMs),
      sleep: (ms, signal) => sleepOf(world, () => alive, ms, signal),
      randomHex(length) {
        randoms += 1;
        const dice = world.dice(`${id}/hex#${randoms}`);
        return Array.from({ length }, () => dice.below(16).toString(16)).join('');
      },
    },
  };
}

function sleepOf(world: World, isAlive: () => boolean, ms: number, signal: AbortSignal | undefined): Promise<void> {
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
