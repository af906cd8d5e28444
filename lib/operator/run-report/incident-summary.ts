/** Summarizes the incidents of a run: the oldest and newest one by one, all of them in groups, and marks for the timeline. */

import type { Incident } from '../../target/target.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import type { Instant } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { createBoundedSeries } from './statistics.ts';

const maxListedAtEachEnd = 100;
const maxGroups = 30;
const maxMarksPerKind = 500;
const maxErrorLength = 100;
const maxMessageLength = 1_000;

export interface IncidentSummary {
  /** The oldest incidents, then `omitted` others, then the newest. Long texts are truncated. */
  readonly oldest: readonly RepeatedIncident[];
  readonly omitted: number;
  readonly newest: readonly RepeatedIncident[];
  /** The largest first. */
  readonly groups: readonly IncidentGroup[];
  readonly marks: readonly TimelineMark[];
}

/** Identical incidents of one execution. `at` is the time of the first one. */
export type RepeatedIncident = Incident & { readonly count: number; readonly lastAt: Instant };

/** All incidents of one kind and, for failures, of one error name. */
export interface IncidentGroup {
  readonly kind: Incident['kind'];
  /** Empty for waits. */
  readonly error: string;
  readonly count: number;
  /** The total waiting time; 0 for failures. */
  readonly seconds: number;
}

/** One incident, or consecutive incidents of one kind if there are too many to draw. */
export interface TimelineMark {
  readonly kind: Incident['kind'];
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly seconds: number;
  readonly count: number;
}

/** Collects incidents in order of time, in bounded memory. */
export function createIncidentSummary() {
  const list = createIncidentList();
  const groups = createGroups();
  const createMarks = () => createBoundedSeries<TimelineMark>(maxMarksPerKind, mergeMarks);
  const marks = { wait: createMarks(), 'failed-attempt': createMarks(), 'failed-run': createMarks() };
  return {
    add(original: Incident): void {
      const incident = sanitized(original);
      list.add(incident);
      const { kind, at } = incident;
      const seconds = incident.kind === 'wait' ? incident.seconds : 0;
      marks[kind].add({ kind, at: epochMsOf(at), seconds, count: 1 });
      groups.add(kind, incident.kind === 'wait' ? '' : incident.error, seconds);
    },
    summary: (): IncidentSummary => ({
      ...list.listed(),
      groups: groups.sorted(),
      marks: [...marks.wait.items, ...marks['failed-attempt'].items, ...marks['failed-run'].items],
    }),
  };
}

/** Lists identical incidents of an execution once, at the first of them. */
function createIncidentList() {
  const oldest: Repeated[] = [];
  const newest: Repeated[] = [];
  let omitted = 0;
  let ofExecution = new Map<string, Repeated>();
  return {
    add(incident: Incident): void {
      const { at } = incident;
      // Each failure of an outage has another number of its retry.
      const key = JSON.stringify({ ...incident, at: null, retry: null });
      const repeated = ofExecution.get(key);
      if (repeated !== undefined) {
        repeated.count += 1;
        repeated.lastAt = at;
        return;
      }
      const first = { incident, key, count: 1, lastAt: at };
      // A failure of the run ends its execution.
      if (incident.kind === 'failed-run') ofExecution = new Map();
      else ofExecution.set(key, first);
      (oldest.length < maxListedAtEachEnd ? oldest : newest).push(first);
      if (newest.length <= maxListedAtEachEnd) return;
      const left = newest.shift();
      if (left === undefined) return;
      omitted += left.count;
      if (ofExecution.get(left.key) === left) ofExecution.delete(left.key);
    },
    listed: () => ({ oldest: oldest.map(toRepeatedIncident), omitted, newest: newest.map(toRepeatedIncident) }),
  };
}

interface Repeated {
  readonly incident: Incident;
  readonly key: string;
  count: number;
  lastAt: Instant;
}

const toRepeatedIncident = ({ incident, count, lastAt }: Repeated): RepeatedIncident => ({
  ...incident,
  count,
  lastAt,
});

function sanitized(incident: Incident): Incident {
  if (incident.kind === 'wait') return incident;
  const { error, message } = incident;
  return {
    ...incident,
    error: truncate(toPrintable(error), maxErrorLength),
    message: truncate(toPrintable(message), maxMessageLength),
  };
}

const mergeMarks = (a: TimelineMark, b: TimelineMark): TimelineMark => ({
  ...a,
  seconds: a.seconds + b.seconds,
  count: a.count + b.count,
});

/** Once there are too many groups, incidents with a new error name are counted as "other errors". */
function createGroups() {
  const groups = new Map<string, IncidentGroup>();
  return {
    add(kind: Incident['kind'], errorName: string, seconds: number): void {
      const keyOf = (error: string) => JSON.stringify([kind, error]);
      const isFull = groups.size >= maxGroups && !groups.has(keyOf(errorName));
      const error = isFull ? 'other errors' : errorName;
      const group = groups.get(keyOf(error)) ?? { kind, error, count: 0, seconds: 0 };
      groups.set(keyOf(error), { ...group, count: group.count + 1, seconds: group.seconds + seconds });
    },
    sorted: (): IncidentGroup[] => [...groups.values()].sort((a, b) => b.count - a.count),
  };
}
