/** Shared by all parts of a simulated history: virtual time, random decisions, injected faults, and the event log. */

import type { Invariant } from '../invariants/invariant-names.ts';
import type { LogLine } from './event-log.ts';
import type { FaultKind, FaultRates } from './faults.ts';
import { createRng, type Rng } from './rng.ts';
import { createTimeline, type Timeline } from './virtual-time.ts';

/** A fault and where it occurs. The site has the same name when the history is replayed with fewer faults. */
export interface Fault {
  readonly kind: FaultKind;
  readonly site: string;
}

export interface Violation {
  readonly invariant: Invariant;
  readonly details: string;
  readonly at: number;
}

export interface World {
  readonly time: Timeline;
  /** The random numbers for one decision. */
  rng(decision: string): Rng;
  /** Whether a fault of this kind occurs at this site. False for every site once the faults have ended. */
  injectFault(kind: FaultKind, site: string): boolean;
  /** From now on no fault occurs. */
  endFaults(): void;
  readonly injectedFaults: readonly Fault[];
  /** Every fault that could have been injected, in the order of its chances; empty unless they are recorded. */
  readonly candidateFaults: readonly Fault[];
  /** Adds a line to the event log; `message` is called only if the log is recorded. */
  log(actor: string, message: () => string): void;
  readonly logLines: readonly LogLine[];
  /** Records that an invariant does not hold. The first violation ends the history. */
  violate(invariant: Invariant, details: string): void;
  readonly violation: () => Violation | undefined;
}

export interface WorldOptions {
  readonly seed: string;
  readonly start: number;
  readonly rates: FaultRates;
  /** No fault occurs from this moment on. */
  readonly faultsEndAt: number;
  /** Names of the only faults that may occur; undefined: any. */
  readonly allowedFaults?: ReadonlySet<string> | undefined;
  /** Names of the faults that occur, whatever the rates; undefined: the rates decide. */
  readonly forcedFaults?: ReadonlySet<string> | undefined;
  readonly recordLog: boolean;
  readonly recordCandidates: boolean;
}

export const faultName = ({ kind, site }: Fault): string => `${kind} ${site}`;

export function createWorld(options: WorldOptions): World {
  const { seed, start, rates, allowedFaults, forcedFaults, recordLog, recordCandidates } = options;
  const time = createTimeline(start);
  const injectedFaults: Fault[] = [];
  const candidateFaults: Fault[] = [];
  const logLines: LogLine[] = [];
  let { faultsEndAt } = options;
  let violation: Violation | undefined;
  return {
    time,
    injectedFaults,
    candidateFaults,
    logLines,
    rng: (decision) => createRng(seed, decision),
    injectFault(kind, site) {
      if (time.now() >= faultsEndAt) return false;
      const fault = { kind, site };
      if (recordCandidates) candidateFaults.push(fault);
      const occurs =
        forcedFaults?.has(faultName(fault)) ??
        (rates[kind] > 0 &&
          createRng(seed, `${kind}/${site}`).chance(rates[kind]) &&
          (allowedFaults === undefined || allowedFaults.has(faultName(fault))));
      if (!occurs) return false;
      injectedFaults.push(fault);
      if (recordLog) logLines.push({ at: time.now(), actor: 'FAULT', message: faultName(fault) });
      return true;
    },
    endFaults() {
      faultsEndAt = Math.min(faultsEndAt, time.now());
    },
    log(actor, message) {
      if (recordLog) logLines.push({ at: time.now(), actor, message: message() });
    },
    violate(invariant, details) {
      violation ??= { invariant, details, at: time.now() };
      if (recordLog) logLines.push({ at: time.now(), actor: 'VIOLATION', message: `${invariant}: ${details}` });
    },
    violation: () => violation,
  };
}
