/**
 * The kinds of faults, and how often each occurs in one history. Most histories use only some kinds, each with its own
 * rate: where everything fails at once, nothing gets far enough to fail in an interesting way.
 */

import type { Rng } from './rng.ts';

export const faultKinds = [
  // One request to S3, DynamoDB, Step Functions or the report service, and the invocation that sends it.
  'killed-before-request',
  'killed-during-request',
  'killed-after-request',
  'process-frozen',
  'request-slow',
  'request-lost',
  'response-lost',
  'throttled',
  'server-error',
  'write-conflict',
  // One function invocation.
  'invocation-rejected',
  'invocation-response-lost',
  'invoked-twice',
  // Executions, the event bus, the schedule, and operators.
  'stale-execution-status',
  'event-rejected',
  'start-repeated',
  'start-delayed',
  'execution-stopped',
  'manual-start',
  'manual-start-since',
  'manual-restart',
  // The report service and the connection to it.
  'service-throttles',
  'service-requests-long-wait',
  'service-error',
  'service-rejects-request',
  'service-rejects-key',
  'service-redirects',
  'connection-reset',
  'body-truncated',
  'body-corrupted',
  'invalid-headers',
  'no-response',
  'body-stalls',
  'cursor-rejected',
  'cursor-cycle',
  'cursor-repeated',
  'connection-refused',
  // A deployment between two attempts.
  'settings-changed',
  'api-key-rotated',
  // An operator, a lifecycle rule or another program changes what is stored.
  'page-deleted',
  'page-replaced',
  'page-truncated',
  'published-page-changed',
  // An upload in parts.
  'upload-interrupted',
  'upload-completed-twice',
  'upload-completed-late',
  'upload-ends-in-error',
  'abort-fails',
  // In the folder of a run, by someone else.
  'page-added',
  // A page that its process has stored, but will not log.
  'unlogged-page-changed',
  // Clocks.
  'clock-jumps',
  'wrong-date',
  // A deployment of all functions and of the definition, in mid-run; and what operators do about failures.
  'deployment',
  'rollback',
  'redrive',
  // An operator starts bounded runs, or a run with other slices.
  'bounded-start',
  'bounded-start-again',
  'bounded-restart',
  'manual-start-sliced',
  // A response of the report service.
  'other-document',
  // A deployment that changes what is requested. It fails half-way, and is rolled back.
  'request-changed',
  // An operator abandons the unfinished run.
  'manual-abandon',
  // An operator starts the children of one run of the parents.
  'children-start',
  // The report jobs of the service.
  'job-fails',
  'job-stays',
  'job-expires',
  'job-unknown',
  'job-status-unnamed',
  'job-result-reordered',
  'job-slow',
  'job-relapses',
  // Counted pages: the service sorts two reports of the same place in another order.
  'reports-swapped',
] as const;

export type FaultKind = (typeof faultKinds)[number];
export type FaultRates = Readonly<Record<FaultKind, number>>;

/** Kinds with one chance per start or per hour occur more often; kinds that end a run at once, less often. */
const weights: Partial<FaultRates> = {
  'start-repeated': 6,
  'start-delayed': 6,
  'execution-stopped': 6,
  'manual-start': 6,
  'manual-start-since': 4,
  'manual-restart': 4,
  'stale-execution-status': 8,
  'write-conflict': 3,
  'invoked-twice': 3,
  'invocation-response-lost': 3,
  'service-rejects-request': 0.3,
  'service-rejects-key': 0.3,
  'service-redirects': 0.3,
  'cursor-cycle': 0.3,
  'cursor-repeated': 6,
  'settings-changed': 6,
  'api-key-rotated': 6,
  'published-page-changed': 3,
  'upload-interrupted': 3,
  'upload-completed-twice': 6,
  'upload-completed-late': 6,
  'upload-ends-in-error': 6,
  'abort-fails': 20,
  'unlogged-page-changed': 15,
  'wrong-date': 4,
  deployment: 8,
  rollback: 30,
  redrive: 10,
  'bounded-start': 12,
  'bounded-start-again': 12,
  'bounded-restart': 6,
  'children-start': 12,
  'manual-start-sliced': 6,
  'other-document': 3,
  'request-changed': 40,
  'job-fails': 4,
  'job-stays': 3,
  'job-expires': 6,
  'job-unknown': 6,
  'job-status-unnamed': 15,
  'job-result-reordered': 20,
  'job-slow': 30,
  'job-relapses': 30,
  'reports-swapped': 20,
  // Only in histories of days.
  'manual-abandon': 0,
};

/** They have a generator of their own, so that the histories of seeds from before still have the same other faults. */
const laterKinds: ReadonlySet<FaultKind> = new Set(faultKinds.slice(faultKinds.indexOf('cursor-repeated')));

/** Draws a probability for each kind; 0 for the kinds that this history does not use. */
export function createFaultRates(rng: Rng, laterRng: Rng): FaultRates {
  const shareOfKinds = rng.pick([0.15, 0.3, 0.6, 1]);
  const baseRate = rng.pick([0.002, 0.01, 0.03, 0.08]);
  return Object.fromEntries(
    faultKinds.map((kind) => {
      const kindRng = laterKinds.has(kind) ? laterRng : rng;
      // A kind that is no longer drawn must not change what is drawn after it.
      for (let draw = 0; kind === 'bounded-start-again' && draw < 2; draw += 1) laterRng.next();
      const isUsed = kindRng.chance(shareOfKinds);
      const rate = baseRate * (weights[kind] ?? 1) * 4 ** kindRng.between(-1, 1);
      return [kind, isUsed ? Math.min(rate, 0.5) : 0];
    }),
  ) as unknown as FaultRates;
}
