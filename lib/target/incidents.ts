/**
 * The incidents of a run, recorded when they happen: one record per run, of limited size, in one form on AWS and in a directory. It
 * is for operators only. No run depends on it, so an error while it is written is reported and otherwise ignored.
 */

import * as z from 'zod/mini';
import type { Instant } from '../core/model.ts';
import type { EventSink, ExportEvent, RunRef } from '../core/ports.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { instantOf } from '../core/timestamps.ts';

const at = z.pipe(
  z.string(),
  z.transform((text) => text as Instant),
);
const where = { at, page: z.nullable(z.number()) };
const failure = { error: z.string(), message: z.string() };

/** What delayed or stopped a run. */
export type Incident = Readonly<z.infer<typeof incidentSchema>>;
const incidentSchema = z.discriminatedUnion('kind', [
  z.object({
    /** An attempt failed. It was retried, or will be. */
    kind: z.literal('failed-attempt'),
    ...where,
    ...failure,
    /**
     * The retry that follows: `attempt` is its number, from 1, among those of errors that share a retrier in the state. Absent: the attempt
     * ended without a record of its own, so its error is not known.
     */
    retry: z.optional(z.object({ state: z.string(), attempt: z.number(), maxAttempts: z.number() })),
  }),
  z.object({
    /** The service responded with Retry-After, and the run waited. */
    kind: z.literal('wait'),
    ...where,
    /** That of the page. Absent: the run has one slice, or no slice made the request. */
    slice: z.optional(z.number()),
    seconds: z.number(),
  }),
  z.object({
    /** An execution failed after all its retries. The next start resumes the run. */
    kind: z.literal('failed-run'),
    ...where,
    ...failure,
  }),
]);

/** All incidents of one kind and, for failures, of one error name. */
export type IncidentGroup = Readonly<z.infer<typeof groupSchema>>;
const groupSchema = z.object({
  kind: z.enum(['failed-attempt', 'wait', 'failed-run']),
  /** Empty for waits. */
  error: z.string(),
  count: z.number(),
  /** The total waiting time; 0 for failures. */
  seconds: z.number(),
});

export type IncidentRecord = Readonly<z.infer<typeof recordSchema>>;
const recordSchema = z.object({
  /** They count every incident of the run. */
  groups: z.array(groupSchema),
  /** The newest incidents, in the order in which they happened. */
  newest: z.array(incidentSchema),
  /**
   * The failed attempts since the state machine entered the step that failed last: when it did, which identifies the step among all that the
   * run takes, and the name of each error. Only on AWS, where each attempt is a process of its own.
   */
  attempts: z.optional(z.object({ enteredAt: z.string(), errors: z.array(z.string()) })),
});

export interface IncidentCounts {
  readonly failedAttempts: number;
  readonly waits: number;
  /** The sum of all waits. */
  readonly waitSeconds: number;
  /** How often an execution of the run failed. */
  readonly failures: number;
}

/** Stores one record per run. */
export interface IncidentLog {
  /** The record of a run without incidents has none. */
  read(run: RunRef): Promise<IncidentRecord>;
  /**
   * Replaces the record of the run by what `change` makes of it. Nothing is written if `change` returns the record itself, or once `signal`
   * has aborted.
   */
  update(run: RunRef, change: (record: IncidentRecord) => IncidentRecord, signal?: AbortSignal): Promise<void>;
}

/** A record is read and written as a whole. This many incidents of usual length take some 30 KB, and 360 KB at most. */
const maxNewest = 100;
const maxGroups = 30;
const maxErrorLength = 100;
const maxMessageLength = 1_000;

export const noIncidents: IncidentRecord = { groups: [], newest: [] };

/** The record with one more incident. Its texts are shortened, and fit for a terminal. */
export function addIncident(record: IncidentRecord, incident: Incident): IncidentRecord {
  const printable = withPrintableTexts(incident);
  return {
    ...record,
    groups: addToGroups(record.groups, printable),
    newest: [...record.newest, printable].slice(-maxNewest),
  };
}

function withPrintableTexts(incident: Incident): Incident {
  if (incident.kind === 'wait') return incident;
  const { error, message } = incident;
  return {
    ...incident,
    error: truncate(toPrintable(error), maxErrorLength),
    message: truncate(toPrintable(message).trim(), maxMessageLength),
  };
}

/** Once there are too many groups, failures with a new error name are counted as "other errors". */
function addToGroups(groups: readonly IncidentGroup[], incident: Incident): IncidentGroup[] {
  const { kind } = incident;
  const named = incident.kind === 'wait' ? '' : incident.error;
  const isOf = (error: string) => (group: IncidentGroup) => group.kind === kind && group.error === error;
  const error = groups.length < maxGroups || groups.some(isOf(named)) ? named : 'other errors';
  const { count, seconds } = groups.find(isOf(error)) ?? { count: 0, seconds: 0 };
  const added = { kind, error, count: count + 1, seconds: seconds + (incident.kind === 'wait' ? incident.seconds : 0) };
  return [...groups.filter((group) => !isOf(error)(group)), added];
}

export function countIncidents({ groups }: Pick<IncidentRecord, 'groups'>): IncidentCounts {
  const sum = (kind: Incident['kind'], valueOf: (group: IncidentGroup) => number) =>
    groups.reduce((total, group) => (group.kind === kind ? total + valueOf(group) : total), 0);
  const count = (group: IncidentGroup) => group.count;
  return {
    failedAttempts: sum('failed-attempt', count),
    waits: sum('wait', count),
    waitSeconds: sum('wait', ({ seconds }) => seconds),
    failures: sum('failed-run', count),
  };
}

/** The number of all incidents of the run. */
export const totalOf = ({ groups }: Pick<IncidentRecord, 'groups'>): number =>
  groups.reduce((total, { count }) => total + count, 0);

export type RunPosition = RunRef & {
  /** The page to export next. null: each slice of the run has another one. */
  readonly page: number | null;
};

export interface IncidentRecorder {
  /** Takes the events of the run: they tell what the run is, which page is next, its waits, and its failure. */
  readonly onEvent: EventSink;
  /** The run, as far as the events have shown it. */
  position(): RunPosition | undefined;
  /** Changes the record of the run, after all earlier changes. Does nothing without a run. */
  update(change: (record: IncidentRecord) => IncidentRecord): void;
  /** Resolves once all changes are written, or have failed. Never rejects. Undefined: there are none. */
  settled(): Promise<void> | undefined;
}

/** Records the incidents of a run in the background. */
export function createIncidentRecorder({
  log,
  now,
  onError,
  position,
  add = addIncident,
  signal,
}: {
  readonly log: IncidentLog;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
  /** Where the run is when the recorder is created. Absent: it has not begun. */
  readonly position?: RunPosition | undefined;
  /** Adds the incident of an event. Default: `addIncident`. */
  readonly add?: typeof addIncident;
  /** Ends the recording. */
  readonly signal?: AbortSignal;
}): IncidentRecorder {
  let current = position;
  let writing: Promise<void> | undefined;
  const update = (run: RunRef | undefined, change: (record: IncidentRecord) => IncidentRecord) => {
    if (run === undefined) return;
    writing = Promise.resolve(writing)
      .then(() => log.update(run, change, signal))
      .catch((error: unknown) => {
        if (signal?.aborted !== true) onError(error);
      });
  };
  return {
    onEvent(event) {
      current = positionAfter(event, current);
      const happened = incidentIn(event, instantOf(now()));
      if (happened !== undefined) update(happened, (record) => add(record, happened.incident));
    },
    position: () => current,
    update: (change) => update(current, change),
    settled: () => writing,
  };
}

/** The incident that `event` reports; undefined if it reports none. */
function incidentIn(event: ExportEvent, at: Instant): (RunRef & { readonly incident: Incident }) | undefined {
  if (event.event === 'service-asked-to-wait') {
    const { export: exportName, run, page, slice, seconds } = event;
    return { export: exportName, run, incident: { kind: 'wait', at, page, slice, seconds } };
  }
  if (event.event === 'run-failed') {
    const { export: exportName, run, page = null, error, message } = event;
    if (exportName === null || run === null) return undefined;
    return { export: exportName, run, incident: { kind: 'failed-run', at, page, error, message } };
  }
  return undefined;
}

/** The run, and the page to export next, after `event`. */
function positionAfter(event: ExportEvent, before: RunPosition | undefined): RunPosition | undefined {
  switch (event.event) {
    case 'run-started':
    case 'run-resumed':
      return { export: event.export, run: event.run, page: event.slices === undefined ? event.page : null };
    case 'run-restarted':
      return { export: event.export, run: event.run, page: 1 };
    case 'page-exported':
    case 'page-adopted':
      return { export: event.export, run: event.run, page: event.slices === undefined ? event.page + 1 : null };
    case 'slice-restarted':
    case 'slice-set-aside':
    case 'service-asked-to-wait':
    case 'waiting-for-slot':
    case 'pages-without-reports':
    case 'run-completed':
    case 'run-failed':
    case 'run-skipped':
      return before;
  }
}

/** The record in `text`, which is the JSON of one. A damaged record counts as none: it must hold up neither a run nor an operator. */
export function parseIncidentRecord(text: string | undefined): IncidentRecord {
  try {
    return recordSchema.parse(JSON.parse(text ?? ''));
  } catch {
    return noIncidents;
  }
}
