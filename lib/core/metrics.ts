/**
 * What the functions count, by name: the one place where those who write a metric and those who watch it agree.
 * Every metric stands in `metricNamespace` and has the dimensions of `metricDimensions`.
 */

export const metricNamespace = 'ReportExporter';

/** Two deployments in one account may each have an export of the same name; their metrics must not add up. */
export function metricDimensions(deployment: string, exportName: string) {
  return { deployment, export: exportName };
}

/** By metric: its unit, as CloudWatch spells it. */
export const metricUnits = {
  /** Executions that began a new run. */
  RunsStarted: 'Count',
  /** Executions that went on with an unfinished run: its next segment, or after a failure. */
  RunsResumed: 'Count',
  /** Executions that found nothing to do. */
  RunsSkipped: 'Count',
  /** Runs whose manifest is published. */
  RunsCompleted: 'Count',
  /** Executions that failed. */
  RunsFailed: 'Count',
  /** Walks begun again from their `since`, because the service dropped its cursor. */
  CursorRestarts: 'Count',
  /** Pages fetched, stored and logged. */
  PagesExported: 'Count',
  /** Pages found in the store, left there by a former attempt, and logged. */
  PagesAdopted: 'Count',
  /** Reports in exported and adopted pages; only where the format is XML. */
  ReportsExported: 'Count',
  /** Bytes of exported and adopted pages. */
  BytesExported: 'Bytes',
  /** Of each page asked for and promised: until the answer's headers. What fails counts as a failed attempt instead. */
  ServiceLatency: 'Milliseconds',
  /** Times the service asked for patience and got it, inside an invocation or in the Wait state. */
  Waits: 'Count',
  /** How long it asked for, each time. */
  WaitSeconds: 'Seconds',
  /** Invocations that ended in an error, whatever the state machine makes of it; the log line beside it names it. */
  FailedAttempts: 'Count',
} as const;

export type MetricName = keyof typeof metricUnits;
