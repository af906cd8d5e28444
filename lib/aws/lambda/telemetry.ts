/**
 * Logs and metrics of a function: each event is one line of JSON, with the names and fields of `ExportEvent`, and is
 * counted as CloudWatch metrics (embedded metric format, also on stdout).
 */

import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { isExportError } from '../../core/errors.ts';
import {
  exportDimensions,
  type MetricName,
  metricNamespace,
  metricUnits,
  serviceDimensions,
  serviceMetric,
} from '../../core/metrics.ts';
import type { EventSink, ExportEvent } from '../../core/ports.ts';

export type Telemetry = ReturnType<typeof createTelemetry>;

export interface TelemetryOutput {
  createLogger(): LineLogger;
  createMetrics(dimensions: Readonly<Record<string, string>>): MetricSet;
}

interface LineLogger {
  appendKeys(fields: Record<string, unknown>): void;
  resetKeys(): void;
  info(message: string, fields: Record<string, unknown>): void;
  error(message: string, fields: Record<string, unknown>): void;
}

/** Metrics with the same dimensions. */
interface MetricSet {
  addMetric(name: MetricName, unit: (typeof metricUnits)[MetricName], value: number): void;
  addMetadata(name: string, value: string): void;
  hasStoredMetrics(): boolean;
  /** Publishes them, and removes them from the set. */
  publishStoredMetrics(): void;
}

export const powertools: TelemetryOutput = {
  createLogger: () => new Logger({ serviceName: 'report-exporter' }),
  createMetrics(dimensions) {
    const metrics = new Metrics({ namespace: metricNamespace });
    // Powertools adds a `service` dimension of its own, under which alarms would not find the metric.
    metrics.clearDefaultDimensions();
    metrics.setDefaultDimensions({ ...dimensions });
    return metrics;
  },
};

export function createTelemetry(output: TelemetryOutput) {
  const logger = output.createLogger();
  let deployment = '';
  let serviceTotals: MetricSet | undefined;
  /** The metrics of the export of this invocation. */
  let metrics: MetricSet | undefined;

  const count = (metric: MetricName, value: number) => {
    metrics?.addMetric(metric, metricUnits[metric], value);
    if (metric === serviceMetric) serviceTotals?.addMetric(metric, metricUnits[metric], value);
  };
  const emit: EventSink = (event) => {
    if (event.event === 'run-failed' || event.event === 'slice-set-aside') {
      // `message` is the line's own field: it holds the event's name.
      const { event: name, message: errorMessage, ...fields } = event;
      logger.error(name, { ...fields, errorMessage });
    } else {
      const { event: name, ...fields } = event;
      logger.info(name, fields);
    }
    const metricsOf = valuesOf[event.event] as (event: ExportEvent) => Values;
    for (const [metric, value] of Object.entries(metricsOf(event))) {
      // Reports are counted only if their number is known: `null` is not zero.
      if (typeof value === 'number') count(metric as MetricName, value);
    }
  };
  return {
    emit,
    /** Names the deployment and the service in every later metric. */
    setService(deploymentName: string, service: string) {
      deployment = deploymentName;
      serviceTotals = output.createMetrics(serviceDimensions(deployment, service));
    },
    /** Names the export in the later lines and metrics of this invocation. */
    setExport(exportName: string) {
      logger.appendKeys({ export: exportName });
      metrics = output.createMetrics(exportDimensions(deployment, exportName));
    },
    /** Begins an invocation; `fields` are in each of its lines. */
    begin(fields: { readonly execution: unknown; readonly request: string }) {
      logger.resetKeys();
      logger.appendKeys({ ...fields });
      metrics = undefined;
    },
    /** Logs the error, with its stack, that ends the invocation. */
    failed(error: unknown, fields: { readonly run?: unknown; readonly page?: unknown }) {
      if (isExportError(error, 'RunSupersededError')) {
        logger.info('run-superseded', { ...fields, errorMessage: error.message });
        return;
      }
      logger.error('attempt-failed', { ...fields, error: error instanceof Error ? error : new Error(String(error)) });
      count('FailedAttempts', 1);
      metrics?.addMetadata('error', error instanceof Error ? error.name : 'Error');
    },
    /** Ends the invocation and publishes its metrics. */
    end() {
      for (const each of [metrics, serviceTotals]) if (each?.hasStoredMetrics()) each.publishStoredMetrics();
    },
  };
}

type Values = { readonly [metric in MetricName]?: number | null | undefined };

/** The metrics of each event. An error of an invocation that exported no page is counted as a failed attempt. */
const valuesOf: { readonly [Name in ExportEvent['event']]: (event: Extract<ExportEvent, { event: Name }>) => Values } =
  {
    'run-started': () => ({ RunsStarted: 1 }),
    'run-resumed': () => ({ RunsResumed: 1 }),
    'slice-restarted': ({ isPass }) => (isPass ? {} : { CursorRestarts: 1 }),
    'run-skipped': () => ({ RunsSkipped: 1 }),
    'pages-without-reports': () => ({}),
    'slice-set-aside': () => ({}),
    'slice-ended': () => ({}),
    'parents-planned': () => ({}),
    // The alarm NotFresh counts completed runs: a bounded run does not make an export fresh.
    'run-completed': ({ bounded, secondsWithoutReports }) =>
      bounded ? {} : { RunsCompleted: 1, SecondsWithoutReports: secondsWithoutReports },
    // A start that was refused before it had a run is none.
    'run-failed': ({ run, error }) => (run === null && error === 'ConfigurationError' ? {} : { RunsFailed: 1 }),
    'page-exported': ({ latencyMs, bytes, reports }) => ({
      PagesExported: 1,
      ServiceLatency: latencyMs,
      BytesExported: bytes,
      ReportsExported: reports,
    }),
    'page-adopted': ({ bytes, reports }) => ({ PagesAdopted: 1, BytesExported: bytes, ReportsExported: reports }),
    'service-asked-to-wait': ({ seconds }) => ({ Waits: 1, WaitSeconds: seconds }),
    'waiting-for-job': ({ seconds }) => ({ JobWaits: 1, JobWaitSeconds: seconds }),
    'waiting-for-turn': ({ seconds }) => ({ TurnWaits: 1, TurnWaitSeconds: seconds }),
  };
