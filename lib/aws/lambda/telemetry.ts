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
  serviceMetrics,
} from '../../core/metrics.ts';
import type { LogLevel } from '../../settings/environment.ts';
import type { EventSink, ExportEvent } from '../../core/ports.ts';

export interface Telemetry {
  /** Sets which lines are logged from now on. Metrics are always published. */
  setLogLevel(level: LogLevel): void;
  /** Names the deployment and the service in every later metric. */
  setService(deployment: string, service: string): void;
  /** Names the export in the later lines and metrics of this invocation. */
  setExport(exportName: string): void;
  /** Begins an invocation; `fields` are in each of its lines. */
  begin(fields: { readonly execution: unknown; readonly request: string }): void;
  readonly emit: EventSink;
  /** Logs the error, with its stack, that ends the invocation. */
  failed(error: unknown, fields: { readonly run?: unknown; readonly page?: unknown }): void;
  /** Ends the invocation and publishes its metrics. */
  end(): void;
}

/** Where lines and metrics go. */
export interface TelemetryOutput {
  createLogger(): LineLogger;
  createMetrics(dimensions: Readonly<Record<string, string>>): MetricSet;
}

interface LineLogger {
  /** Adds fields to each later line. */
  appendKeys(fields: Record<string, unknown>): void;
  /** Removes all that were added. */
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
    // Powertools adds a `service` dimension of its own, under which alarms and dashboards would not find the metric.
    metrics.clearDefaultDimensions();
    metrics.setDefaultDimensions({ ...dimensions });
    return metrics;
  },
};

export function createTelemetry(output: TelemetryOutput): Telemetry {
  const logger = output.createLogger();
  /** Not the logger's own level, which in Lambda is that of the function's log settings. */
  let logsInfo = true;
  const info = (message: string, fields: Record<string, unknown>) => {
    if (logsInfo) logger.info(message, fields);
  };
  let deployment = '';
  let serviceTotals: MetricSet | undefined;
  /** Of the export of this invocation. */
  let metrics: MetricSet | undefined;

  const count = (metric: MetricName, value: number) => {
    metrics?.addMetric(metric, metricUnits[metric], value);
    if (isServiceMetric(metric)) serviceTotals?.addMetric(metric, metricUnits[metric], value);
  };
  return {
    setLogLevel(level) {
      logsInfo = level === 'INFO';
    },
    setService(deploymentName, service) {
      deployment = deploymentName;
      serviceTotals = output.createMetrics(serviceDimensions(deployment, service));
    },
    setExport(exportName) {
      logger.appendKeys({ export: exportName });
      metrics = output.createMetrics(exportDimensions(deployment, exportName));
    },
    begin(fields) {
      logger.resetKeys();
      logger.appendKeys({ ...fields });
      metrics = undefined;
    },
    emit(event) {
      if (event.event === 'run-failed' || event.event === 'slice-set-aside') {
        // `message` is the line's own field: it holds the event's name.
        const { event: name, message: errorMessage, ...fields } = event;
        logger.error(name, { ...fields, errorMessage });
      } else {
        const { event: name, ...fields } = event;
        info(name, fields);
      }
      for (const [metric, value] of metricsOf(event)) count(metric, value);
    },
    failed(error, fields) {
      if (isExportError(error, 'RunSupersededError')) {
        info('run-superseded', { ...fields, errorMessage: error.message });
        return;
      }
      logger.error('attempt-failed', { ...fields, error: error instanceof Error ? error : new Error(String(error)) });
      count('FailedAttempts', 1);
      metrics?.addMetadata('error', error instanceof Error ? error.name : 'Error');
    },
    end() {
      for (const each of [metrics, serviceTotals]) if (each?.hasStoredMetrics()) each.publishStoredMetrics();
    },
  };
}

const isServiceMetric = (metric: MetricName): boolean => serviceMetrics.some((each) => each === metric);

function metricsOf(event: ExportEvent): readonly (readonly [MetricName, number])[] {
  switch (event.event) {
    case 'run-started':
      return [['RunsStarted', 1]];
    case 'run-resumed':
      return [['RunsResumed', 1]];
    case 'run-restarted':
    case 'slice-restarted':
      return [['CursorRestarts', 1]];
    case 'run-skipped':
      return [['RunsSkipped', 1]];
    case 'pages-without-reports':
    // The error of an invocation that exported no page counts as a failed attempt.
    case 'slice-set-aside':
      return [];
    case 'run-completed':
      // The alarm NotFresh counts these: a bounded run does not make an export fresh.
      if (event.bounded) return [];
      return [
        ['RunsCompleted', 1],
        ...(event.secondsWithoutReports === undefined
          ? []
          : [['SecondsWithoutReports', event.secondsWithoutReports] as const]),
      ];
    case 'run-failed':
      return [[event.export === null ? 'StartsRejected' : 'RunsFailed', 1]];
    case 'page-exported':
      return [
        ['PagesExported', 1],
        ...(event.latencyMs === undefined ? [] : [['ServiceLatency', event.latencyMs] as const]),
        ...amountsOf(event),
      ];
    case 'page-adopted':
      return [['PagesAdopted', 1], ...amountsOf(event)];
    case 'service-asked-to-wait':
      return [
        ['Waits', 1],
        ['WaitSeconds', event.seconds],
      ];
    case 'waiting-for-slot':
      return [
        ['SlotWaits', 1],
        ['SlotWaitSeconds', event.seconds],
      ];
  }
}

/** Reports are counted only if their number is known: `null` is not zero. */
function amountsOf({ bytes, reports }: { readonly bytes: number; readonly reports: number | null }) {
  const counted = reports === null ? [] : [['ReportsExported', reports] as const];
  return [['BytesExported', bytes] as const, ...counted];
}
