/**
 * The metrics that the functions publish and the alarms read, in the namespace `metricNamespace`.
 * Each has the dimensions of `exportDimensions`. `serviceMetric` is also published for the service as a whole, with the
 * dimensions of `serviceDimensions`.
 */

export const metricNamespace = 'ReportExporter';

/** The deployment is a dimension because two deployments in one account may each have an export of the same name. */
export const exportDimensions = (deployment: string, exportName: string) => ({ deployment, export: exportName });
export const serviceDimensions = (deployment: string, service: string) => ({ deployment, service });

/** The unit of each metric, as CloudWatch spells it. */
export const metricUnits = {
  /** Executions that began a new run. */
  RunsStarted: 'Count',
  /** Executions that continued an unfinished run, after the event limit or after a failure. */
  RunsResumed: 'Count',
  /** Executions that found nothing to do. */
  RunsSkipped: 'Count',
  /** Runs that completed, except bounded ones: published, or without reports if publishEmptyRuns is false. */
  RunsCompleted: 'Count',
  /** At completion: the time since the newest run with reports; 0 for one with some. Only with expect.reportsEvery. */
  SecondsWithoutReports: 'Seconds',
  /** Executions that failed, except starts that were refused. */
  RunsFailed: 'Count',
  /** Times that a run, or a slice of it, started over because the service rejected its own cursor. */
  CursorRestarts: 'Count',
  /** Pages fetched, stored and logged. */
  PagesExported: 'Count',
  /** Pages that an earlier attempt had stored, now logged. */
  PagesAdopted: 'Count',
  /** Reports in exported and adopted pages. Not published if they are not counted. */
  ReportsExported: 'Count',
  /** Bytes of exported and adopted pages. */
  BytesExported: 'Bytes',
  /** Time from request to response headers, for each exported page. Failed requests count in FailedAttempts. */
  ServiceLatency: 'Milliseconds',
  /** Retry-After waits, within an invocation or in the Wait state. */
  Waits: 'Count',
  /** The length of each of these waits. */
  WaitSeconds: 'Seconds',
  /** Times that a run waited, because the service received as many requests as maxConcurrentPages and rate allow. */
  TurnWaits: 'Count',
  /** The length of each of these waits. */
  TurnWaitSeconds: 'Seconds',
  /** Times that a chain waited for its report job. */
  JobWaits: 'Count',
  /** The length of each of these waits. */
  JobWaitSeconds: 'Seconds',
  /** Invocations that ended in an error, whether or not it is retried. The log line has the error's name. */
  FailedAttempts: 'Count',
} as const;

export type MetricName = keyof typeof metricUnits;

/** For the alarm that all exports of a service share. */
export const serviceMetric = 'WaitSeconds' satisfies MetricName;
