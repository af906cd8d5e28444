/**
 * Checks that no request is sent before its Retry-After has passed. It binds those who know of it: the process that has
 * received the response, and then its execution, once the process has returned its outcome. Neither a request that was
 * already on its way, nor the second process of an invocation, nor another execution can know of it.
 */

import type { Process } from '../world/process.ts';
import type { ServiceResponse } from '../world/report-service.ts';
import type { World } from '../world/world.ts';

export interface RetryAfterChecks {
  /** A request that the process has sent at `sentAt` reaches the service. */
  readonly onRequest: (process: Process, sentAt: number) => void;
  /** The process has received a response that the service sent at `respondedAt`. */
  readonly onResponse: (process: Process, response: ServiceResponse, respondedAt: number) => void;
  /** The execution has the outcome of its invocation. */
  readonly onOutcome: (invocation: string, execution: string) => void;
}

/** That nothing is to be requested before `until` is known since `knownAt`. */
interface Backoff {
  readonly knownAt: number;
  readonly until: number;
}

export function createRetryAfterChecks(world: World): RetryAfterChecks {
  const byProcess = new Map<string, Backoff[]>();
  const byExecution = new Map<string, Backoff[]>();
  const add = (backoffs: Map<string, Backoff[]>, key: string, added: readonly Backoff[]) =>
    backoffs.set(key, [...(backoffs.get(key) ?? []), ...added]);

  return {
    onRequest({ id, payload, startedAt }, sentAt) {
      const now = world.time.now();
      const isBreach = (since: number) => (backoff: Backoff) => backoff.knownAt <= since && now < backoff.until;
      const own = byProcess.get(id)?.find(isBreach(sentAt));
      // The second process of an invocation may begin after the outcome of the first.
      const isSecond = id.endsWith("'");
      const inherited = isSecond ? undefined : byExecution.get(payload.execution)?.find(isBreach(startedAt));
      const breached = own ?? inherited;
      if (breached === undefined) return;
      const early = Math.ceil((breached.until - now) / 1_000);
      world.violate('no request is sent before its Retry-After has passed', `${id}: ${early} s early`);
    },
    onResponse({ id, isAlive }, response, respondedAt) {
      const seconds = retryAfterOf(response);
      if (seconds === undefined || !isAlive()) return;
      add(byProcess, id, [{ knownAt: world.time.now(), until: respondedAt + seconds * 1_000 }]);
    },
    onOutcome(invocation, execution) {
      const knownAt = world.time.now();
      const backoffs = (byProcess.get(invocation) ?? []).filter(({ until }) => until > knownAt);
      if (backoffs.length > 0)
        add(
          byExecution,
          execution,
          backoffs.map(({ until }) => ({ knownAt, until })),
        );
    },
  };
}

/** A date counts from the response's own Date: the service's clock may differ from that of its clients. */
function retryAfterOf({ status, headers }: ServiceResponse): number | undefined {
  const { 'retry-after': value, date } = headers;
  if ((status !== 429 && status !== 503) || typeof value !== 'string') return undefined;
  if (/^\d+$/.test(value)) return Number(value);
  return typeof date === 'string' ? (Date.parse(value) - Date.parse(date)) / 1_000 : undefined;
}
