/** What everything in a simulated history shares: its time, its chance, its faults, and what is told of it. */

import type { FaultKind, FaultRates } from './faults.ts';
import { type Dice, diceFor } from './rng.ts';
import { createTimeline, type Timeline } from './virtual-time.ts';

/** A fault that struck: which kind, and where. Named the same in a history that is repeated with fewer faults. */
export interface Strike {
  readonly kind: FaultKind;
  readonly about: string;
}

/** A promise that was broken. */
export interface Violation {
  readonly invariant: string;
  readonly what: string;
  readonly at: number;
}

export interface Line {
  readonly at: number;
  readonly who: string;
  readonly what: string;
}

export interface World {
  readonly time: Timeline;
  dice(about: string): Dice;
  /** Whether a fault of this kind strikes here. None does once the world is calm. */
  strikes(kind: FaultKind, about: string): boolean;
  /** Whether nothing goes wrong any more. */
  isCalm(): boolean;
  readonly struck: readonly Strike[];
  /** Every fault that might have struck, kept where the history is written down. */
  readonly possible: readonly Strike[];
  /** One line of the history; `what` is called only where the history is written down. */
  tell(who: string, what: () => string): void;
  readonly lines: readonly Line[];
  /** Ends the history: a promise was broken. */
  violate(invariant: string, what: string): void;
  readonly violation: () => Violation | undefined;
}

export interface WorldOptions {
  readonly seed: string;
  readonly start: number;
  readonly rates: FaultRates;
  /** From this moment on nothing goes wrong any more. */
  readonly calmFrom: number;
  /** Only these faults may strike, by name; undefined: any. */
  readonly only?: ReadonlySet<string> | undefined;
  /** Just these faults strike, by name, whatever the rates. */
  readonly exactly?: ReadonlySet<string> | undefined;
  readonly writeDown: boolean;
}

export const strikeName = ({ kind, about }: Strike): string => `${kind} ${about}`;

export function createWorld(options: WorldOptions): World {
  const { seed, start, rates, calmFrom, only, exactly, writeDown } = options;
  const time = createTimeline(start);
  const struck: Strike[] = [];
  const possible: Strike[] = [];
  const lines: Line[] = [];
  let violation: Violation | undefined;
  const isCalm = () => time.now() >= calmFrom;
  return {
    time,
    isCalm,
    struck,
    possible,
    lines,
    dice: (about) => diceFor(seed, about),
    strikes(kind, about) {
      if (isCalm()) return false;
      const strike = { kind, about };
      if (writeDown) possible.push(strike);
      const strikesHere =
        exactly?.has(strikeName(strike)) ??
        (rates[kind] > 0 &&
          diceFor(seed, `${kind}/${about}`).happens(rates[kind]) &&
          (only === undefined || only.has(strikeName(strike))));
      if (!strikesHere) return false;
      struck.push(strike);
      if (writeDown) lines.push({ at: time.now(), who: 'FAULT', what: strikeName(strike) });
      return true;
    },
    tell(who, what) {
      if (writeDown) lines.push({ at: time.now(), who, what: what() });
    },
    violate(invariant, what) {
      violation ??= { invariant, what, at: time.now() };
      if (writeDown) lines.push({ at: time.now(), who: 'VIOLATION', what: `${invariant}: ${what}` });
    },
    violation: () => violation,
  };
}
