/**
 * Everything that can go wrong, and how often it does in this history. Most histories know only some kinds, each at a rate
 * of its own, because where everything fails at once nothing gets far enough to fail in an interesting way.
 */

import type { Dice } from './rng.ts';

const faultKinds = [
  // Of one request to S3, DynamoDB, Step Functions or the service, and of the invocation that makes it.
  'killed-before',
  'killed-during',
  'killed-after',
  'frozen',
  'slow',
  'request-lost',
  'answer-lost',
  'throttled',
  'server-error',
  'conflict',
  // Of an invocation as a whole.
  'not-invoked',
  'unheard',
  'invoked-twice',
  // Of executions, the scheduler and the people who operate them.
  'stale-description',
  'event-refused',
  'start-repeated',
  'start-late',
  'stopped',
  'manual-start',
  'manual-since',
  'manual-restart',
  // Of the service.
  'service-throttles',
  'service-waits-long',
  'service-fails',
  'service-refuses',
  'service-refuses-key',
  'service-redirects',
  'service-resets',
  'service-truncates',
  'service-garbles',
  'service-odd-headers',
  'service-silent',
  'service-drips',
  'cursor-dropped',
  'cursors-circle',
] as const;

export type FaultKind = (typeof faultKinds)[number];
export type FaultRates = Readonly<Record<FaultKind, number>>;

/** Those whose chance is thrown seldom, once a start or an hour, are thrown with better odds. */
const weight: Partial<FaultRates> = {
  'start-repeated': 6,
  'start-late': 6,
  stopped: 6,
  'manual-start': 6,
  'manual-since': 4,
  'manual-restart': 4,
  'stale-description': 8,
  conflict: 3,
  'invoked-twice': 3,
  unheard: 3,
  // An execution that is refused gives up at once, and a key that is refused, too.
  'service-refuses': 0.3,
  'service-refuses-key': 0.3,
  'service-redirects': 0.3,
  'cursors-circle': 0.3,
};

export function ratesFor(dice: Dice): FaultRates {
  const share = dice.pick([0.15, 0.3, 0.6, 1]);
  const base = dice.pick([0.002, 0.01, 0.03, 0.08]);
  return Object.fromEntries(
    faultKinds.map((kind) => {
      const known = dice.happens(share);
      const rate = base * (weight[kind] ?? 1) * 4 ** dice.between(-1, 1);
      return [kind, known ? Math.min(rate, 0.5) : 0];
    }),
  ) as unknown as FaultRates;
}
