/**
 * Records the incidents of an attempt of a step: its waits, and its own failure if it is retried; FailRun records the last one. An
 * attempt that is killed records nothing. The next one does it instead: it sees from the number of retries how many are missing.
 *
 * None of this may hold up a run. Changes are written while the attempt works, an error of a write is only reported, and the end of an
 * attempt waits for them for two seconds at most.
 */

import * as z from 'zod/mini';
import {
  addIncident,
  createIncidentRecorder,
  type Incident,
  type IncidentLog,
  type IncidentRecord,
  type IncidentRecorder,
  type RunPosition,
} from '../../target/incidents.ts';
import { asRunId } from '../../core/model.ts';
import type { EventSink, Runtime } from '../../core/ports.ts';
import { findRetrier, type StepName } from '../../core/state-machine/retry-policy.ts';
import { instantOf } from '../../core/timestamps.ts';

export interface AttemptRecorder {
  /** Takes the event with which the state machine invokes the function. */
  begin(event: { readonly input: unknown; readonly attempt?: unknown }): void;
  readonly onEvent: EventSink;
  failed(error: Error): void;
  /** Resolves once everything is written, or after two seconds, or half of `remainingMs`. Never rejects. */
  settle(remainingMs: number): Promise<void>;
}

/** Which attempt of a step it is, as the state machine sends it. */
interface Attempt {
  /** When the state machine entered the step. */
  readonly enteredAt: string;
  /** How many attempts have failed since. */
  readonly retries: number;
}

const attemptSchema = z.object({ enteredAt: z.string(), retries: z.int() });
/** The input of ExportPage and FinishRun. The name of a bounded run begins with that of its export. */
const positionSchema = z.object({ export: z.string(), run: z.string(), page: z.int() });

const maxSettleMs = 2_000;

export function createAttemptRecorder(
  step: StepName,
  log: IncidentLog,
  { now, sleep }: Pick<Runtime, 'now' | 'sleep'>,
  onError: (error: unknown) => void,
): AttemptRecorder {
  let attempt: Attempt | undefined;
  let recorder: IncidentRecorder = createIncidentRecorder({ log, now, onError });
  let recording = new AbortController();
  const whereAndWhen = () => ({
    at: instantOf(now()),
    page: step === 'ExportPage' ? (recorder.position()?.page ?? null) : null,
  });
  const recordMissing = () => {
    const current = attempt;
    if (current === undefined || current.retries === 0) return;
    const where = whereAndWhen();
    recorder.update((record) => withMissingAttempts(record, current, where));
  };
  return {
    begin(event) {
      attempt = attemptSchema.safeParse(event.attempt).data;
      const add: typeof addIncident = (record, incident) => withIncident(record, incident, attempt);
      recording = new AbortController();
      const { signal } = recording;
      recorder = createIncidentRecorder({ log, now, onError, position: positionIn(event.input), add, signal });
      recordMissing();
    },

    onEvent(event) {
      recorder.onEvent(event);
      // BeginRun does not know the run before.
      if (event.event === 'run-started' || event.event === 'run-resumed') recordMissing();
    },

    failed({ name: error, message }) {
      const current = attempt;
      if (current === undefined) return;
      const failure = { ...whereAndWhen(), error, message };
      recorder.update((record) => withFailedAttempt(record, current, step, failure));
    },

    async settle(remainingMs) {
      const settled = recorder.settled();
      if (settled === undefined) return;
      const timer = new AbortController();
      // The container is frozen now. When it continues, it may work on another run.
      const giveUp = () => {
        const error = new Error('The incidents of the run were not written in time');
        recording.abort(error);
        onError(error);
      };
      await Promise.race([settled, sleep(Math.min(maxSettleMs, remainingMs / 2), timer.signal).then(giveUp, () => {})]);
      timer.abort();
    },
  };
}

function positionIn(input: unknown): RunPosition | undefined {
  const { data } = positionSchema.safeParse(input);
  if (data === undefined) return undefined;
  // Each slice of a run has a next page of its own.
  const hasSlices = z.object({ slices: z.object({}) }).safeParse(input).success;
  return { export: data.export.split('/')[0] ?? '', run: asRunId(data.run), page: hasSlices ? null : data.page };
}

/** The record with an incident that an event reports. A second attempt of FailRun reports the same failure again. */
function withIncident(record: IncidentRecord, incident: Incident, attempt: Attempt | undefined): IncidentRecord {
  const added = addIncident(record, incident);
  if (incident.kind !== 'failed-run' || attempt === undefined) return added;
  if (errorsSince(record, attempt).length > 0) return record;
  return { ...added, attempts: { enteredAt: attempt.enteredAt, errors: [incident.error] } };
}

type WhereAndWhen = Pick<Incident, 'at' | 'page'>;

/** What Step Functions reports of an attempt that did not say why it ended. */
const unknownError = 'Lambda.Unknown';

const errorsSince = ({ attempts }: IncidentRecord, { enteredAt }: Attempt): readonly string[] =>
  attempts?.enteredAt === enteredAt ? attempts.errors : [];

/** The record with all attempts before this one. */
function withMissingAttempts(record: IncidentRecord, attempt: Attempt, where: WhereAndWhen): IncidentRecord {
  const errors = errorsSince(record, attempt);
  if (errors.length >= attempt.retries) return record;
  const message =
    'The attempt left no record: its function was throttled, timed out or was killed, or it failed before it knew its run';
  const missing = { kind: 'failed-attempt', ...where, error: unknownError, message } as const;
  const attempts = { enteredAt: attempt.enteredAt, errors: [...errors, unknownError] };
  return withMissingAttempts({ ...addIncident(record, missing), attempts }, attempt, where);
}

/** The record with this attempt, if it will be retried. A second invocation for the same attempt changes nothing. */
function withFailedAttempt(
  record: IncidentRecord,
  attempt: Attempt,
  step: StepName,
  { at, page, error, message }: WhereAndWhen & { readonly error: string; readonly message: string },
): IncidentRecord {
  const before = withMissingAttempts(record, attempt, { at, page });
  const errors = errorsSince(before, attempt);
  const retrier = findRetrier(error, step);
  if (retrier === undefined || errors.length > attempt.retries) return before;
  // As Step Functions counts: each retrier has retries of its own.
  const number = errors.filter((each) => findRetrier(each, step) === retrier).length + 1;
  if (number > retrier.MaxAttempts) return before;
  const retry = { state: step, attempt: number, maxAttempts: retrier.MaxAttempts };
  return {
    ...addIncident(before, { kind: 'failed-attempt', at, page, error, message, retry }),
    attempts: { enteredAt: attempt.enteredAt, errors: [...errors, error] },
  };
}
