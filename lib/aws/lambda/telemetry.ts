/**
 * Tells the world what a function does: each fact as one line of JSON in its log, in the words of `ExportEvent`, and
 * counted as a metric (CloudWatch's embedded metric format, on the same stdout).
 */

import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { isExportError } from '../../core/errors.ts';
import { type MetricName, metricDimensions, metricNamespace, metricUnits } from '../../core/metrics.ts';
import type { EventSink, ExportEvent } from '../../core/ports.ts';

export interface Telemetry {
  /** Names the export, once it is known: every line and metric from here on is about it. */
  about(deployment: string, exportName: string): void;
  /** Begins an invocation; what is known of it stands in each of its lines. */
  begin(known: { readonly execution: unknown; readonly request: string }): void;
  readonly emit: EventSink;
  count(metric: MetricName, value: number): void;
  /** Says that the invocation ends in `error`, with its stack. */
  failed(error: unknown, known: { readonly run?: unknown; readonly page?: unknown }): void;
  /** Ends the invocation: its metrics are written. */
  end(): void;
}

export function createTelemetry(): Telemetry {
  const logger = new Logger({ serviceName: 'report-exporter' });
  let metrics: Metrics | undefined;

  const count = (metric: MetricName, value: number) => {
    metrics?.addMetric(metric, metricUnits[metric], value);
  };
  return {
    about(deployment, exportName) {
      logger.appendPersistentKeys({ export: exportName });
      metrics ??= new Metrics({ namespace: metricNamespace });
      // Powertools adds a dimension of its own, under which nobody would find the metric.
      metrics.clearDefaultDimensions();
      metrics.setDefaultDimensions(metricDimensions(deployment, exportName));
    },
    begin(known) {
      logger.resetKeys();
      logger.appendKeys({ ...known });
    },
    emit(event) {
      if (event.event === 'run-failed') {
        // A line has a `message` of its own.
        const { event: name, message: errorMessage, ...fields } = event;
        logger.error(name, { ...fields, errorMessage });
      } else {
        const { event: name, ...fields } = event;
        logger.info(name, fields);
      }
      for (const [metric, value] of countsOf(event)) count(metric, value);
    },
    count,
    failed(error, known) {
      if (isExportError(error, 'RunSupersededError')) {
        logger.info('run-superseded', { ...known, errorMessage: error.message });
        return;
      }
      logger.error('attempt-failed', { ...known, error: error instanceof Error ? error : new Error(String(error)) });
      count('FailedAttempts', 1);
      metrics?.addMetadata('error', error instanceof Error ? error.name : 'Error');
    },
    end() {
      if (metrics?.hasStoredMetrics()) metrics.publishStoredMetrics();
    },
  };
}

function countsOf(event: ExportEvent): readonly (readonly [MetricName, number])[] {
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
      return [['PagesExported', 1], ...amountOf(event)];
    case 'page-adopted':
      return [['PagesAdopted', 1], ...amountOf(event)];
    case 'service-asked-to-wait':
      return [
        ['Waits', 1],
        ['WaitSeconds', event.seconds],
      ];
  }
}

/** The reports of what is not XML are unknown, and unknown is not none. */
function amountOf({ bytes, reports }: { readonly bytes: number; readonly reports: number | null }) {
  const counted = reports === null ? [] : [['ReportsExported', reports] as const];
  return [['BytesExported', bytes] as const, ...counted];
}
