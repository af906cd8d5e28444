/** Boils a run's incidents down, however many there are: some as rows, all in groups, and marks for the timeline. */

import type { Incident } from '../../core/operations/deployment.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { Incidents } from './data.ts';
import { createBoundedSeries } from './page-series.ts';

/** A incident with its words cut to what a person reads. */
export type Row = Incident;

/** All incidents of a kind and, for failures, of an error name. */
export interface Group {
  readonly kind: Incident['kind'];
  /** Empty for waits. */
  readonly error: string;
  readonly count: number;
  /** Of waiting, for waits. */
  readonly seconds: number;
}

/** For the timeline: one incident, or several in a row where there are too many to tell apart. */
export interface Mark {
  readonly kind: Incident['kind'];
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly seconds: number;
  readonly count: number;
}

const most = { rowsAtEachEnd: 100, groups: 30, marksOfAKind: 500 };

/** The group of those whose names are too many to list. */
const others = 'other errors';

export function createIncidentDigest() {
  const oldest: Row[] = [];
  const newest: Row[] = [];
  let leftOut = 0;
  const groups = new Map<string, Group>();
  const merged = (a: Mark, b: Mark): Mark => ({ ...a, seconds: a.seconds + b.seconds, count: a.count + b.count });
  const marksOf = () => createBoundedSeries<Mark>(most.marksOfAKind, merged);
  const marks = { wait: marksOf(), 'failed-attempt': marksOf(), 'failed-run': marksOf() };
  return {
    add(incident: Incident): void {
      const row = presentable(incident);
      if (oldest.length < most.rowsAtEachEnd) oldest.push(row);
      else newest.push(row);
      if (newest.length > most.rowsAtEachEnd) {
        newest.shift();
        leftOut += 1;
      }
      const { kind } = row;
      const error = row.kind === 'wait' ? '' : row.error;
      const seconds = row.kind === 'wait' ? row.seconds : 0;
      marks[kind].add({ kind, at: epochMsOf(row.at), seconds, count: 1 });

      const key = JSON.stringify([kind, error]);
      const full = groups.size >= most.groups && !groups.has(key);
      const name = full ? JSON.stringify([kind, others]) : key;
      const group = groups.get(name) ?? { kind, error: full ? others : error, count: 0, seconds: 0 };
      groups.set(name, { ...group, count: group.count + 1, seconds: group.seconds + seconds });
    },
    digest: (): Incidents => ({
      oldest,
      leftOut,
      newest,
      groups: [...groups.values()].sort((a, b) => b.count - a.count),
      marks: [...marks.wait.items, ...marks['failed-attempt'].items, ...marks['failed-run'].items],
    }),
  };
}

function presentable(incident: Incident): Row {
  if (incident.kind === 'wait') return incident;
  const { error, message } = incident;
  return { ...incident, error: truncate(toPrintable(error), 100), message: truncate(toPrintable(message), 1_000) };
}
