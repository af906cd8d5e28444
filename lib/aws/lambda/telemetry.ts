/**
 * Logs and metrics of a function: each event is one line of JSON, with the names and fields of `ExportEvent`, and is
 * counted as CloudWatch metrics (embedded metric format, also on stdout).
 */

import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { isExportError } from '../../core/errors.ts';
import { type MetricName, metricDimensions, metricNamespace, metricUnits } from '../../core/metrics.ts';
import type { EventSink, ExportEvent } from '../../core/ports.ts';

export interface Telemetry {
  /** Names the export in every later line and metric. */
  setExport(deployment: string, exportName: string): void;
  /** Begins an invocation; `fields` are in each of its lines. */
  begin(fields: { readonly execution: unknown; readonly request: string }): void;
  readonly emit: EventSink;
  count(metric: MetricName, value: number): void;
  /** Logs the error, with its stack, that ends the invocation. */
  failed(error: unknown, fields: { readonly run?: unknown; readonly page?: unknown }): void;
  /** Ends the invocation and publishes its metrics. */
  end(): void;
}

export function createTelemetry(): Telemetry {
  const logger = new Logger({ serviceName: 'report-exporter' });
  let metrics: Metrics | undefined;

  const count = (metric: MetricName, value: number) => {
    metrics?.addMetric(metric, metricUnits[metric], value);
  };
  return {
    setExport(deployment, exportName) {
      logger.appendPersistentKeys({ export: exportName });
      metrics ??= new Metrics({ namespace: metricNamespace });
      // Powertools adds a `service` dimension, under which alarms and dashboards would not find the metric.
      metrics.clearDefaultDimensions();
      metrics.setDefaultDimensions(metricDimensions(deployment, exportName));
    },
    begin(fields) {
      logger.resetKeys();
      logger.appendKeys({ ...fields });
    },
    emit(event) {
      if (event.event === 'run-failed') {
        // `message` is the line's own field: it holds the event's name.
        const { event: name, message: errorMessage, ...fields } = event;
        logger.error(name, { ...fields, errorMessage });
      } else {
        const { event: name, ...fields } = event;
        logger.info(name, fields);
      }
      for (const [metric, value] of metricsOf(event)) count(metric, value);
    },
    count,
    failed(error, fields) {
      if (isExportError(error, 'RunSupersededError')) {
        logger.info('run-superseded', { ...fields, errorMessage: error.message });
        return;
      }
      logger.error('attempt-failed', { ...fields, error: error instanceof Error ? error : new Error(String(error)) });
      count('FailedAttempts', 1);
      metrics?.addMetadata('error', error instanceof Error ? error.name : 'Error');
    },
    end() {
      if (metrics?.hasStoredMetrics()) metrics.publishStoredMetrics();
    },
  };
}

function metricsOf(event: ExportEvent): readonly (readonly [MetricName, number])[] {
  switch (event.event) {
    case 'run-started':
      return [['RunsStarted', 1]];
    case 'run-resumed':
      return [['RunsResumed', 1]];
    case 'run-restarted':
      return [['CursorRestarts', 1]];
    case 'run-skipped':
      return [['RunsSkipped', 1]];
    case 'run-completed':
      return [['RunsCompleted', 1]];
    case 'run-failed':
      return [['RunsFailed', 1]];
    case 'page-exported':
      return [['PagesExported', 1], ...amountsOf(event)];
    case 'page-adopted':
      return [['PagesAdopted', 1], ...amountsOf(event)];
    case 'service-asked-to-wait':
      return [
        ['Waits', 1],
        ['WaitSeconds', event.seconds],
      ];
  }
}

/** Reports are counted only if their number is known: `null` is not zero. */
function amountsOf({ bytes, reports }: { readonly bytes: number; readonly reports: number | null }) {
  const counted = reports === null ? [] : [['ReportsExported', reports] as const];
  return [['BytesExported', bytes] as const, ...counted];
}
