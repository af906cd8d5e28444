/** Summarizes the incidents of a run: the oldest and newest one by one, all of them in groups, and marks for the timeline. */

import type { Incident } from '../../core/operations/deployment.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { createBoundedSeries } from './statistics.ts';

const maxListedAtEachEnd = 100;
const maxGroups = 30;
const maxMarksPerKind = 500;
const maxErrorLength = 100;
const maxMessageLength = 1_000;

export interface IncidentSummary {
  /** The oldest incidents, then `omitted` others, then the newest. Long texts are truncated. */
  readonly oldest: readonly Incident[];
  readonly omitted: number;
  readonly newest: readonly Incident[];
  /** The largest first. */
  readonly groups: readonly IncidentGroup[];
  readonly marks: readonly TimelineMark[];
}

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
  const oldest: Incident[] = [];
  const newest: Incident[] = [];
  let omitted = 0;
  const groups = createGroups();
  const createMarks = () => createBoundedSeries<TimelineMark>(maxMarksPerKind, mergeMarks);
  const marks = { wait: createMarks(), 'failed-attempt': createMarks(), 'failed-run': createMarks() };
  return {
    add(original: Incident): void {
      const incident = sanitized(original);
      if (oldest.length < maxListedAtEachEnd) oldest.push(incident);
      else newest.push(incident);
      if (newest.length > maxListedAtEachEnd) {
        newest.shift();
        omitted += 1;
      }
      const { kind, at } = incident;
      const seconds = incident.kind === 'wait' ? incident.seconds : 0;
      marks[kind].add({ kind, at: epochMsOf(at), seconds, count: 1 });
      groups.add(kind, incident.kind === 'wait' ? '' : incident.error, seconds);
    },
    summary: (): IncidentSummary => ({
      oldest,
      omitted,
      newest,
      groups: groups.sorted(),
      marks: [...marks.wait.items, ...marks['failed-attempt'].items, ...marks['failed-run'].items],
    }),
  };
}

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
