/** The metrics that the functions publish, for alarms and the dashboard. */

import { type Duration, Stack } from 'aws-cdk-lib';
import { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import type { IConstruct } from 'constructs';
import {
  exportDimensions,
  type MetricName,
  metricNamespace,
  serviceDimensions,
  type serviceMetrics,
} from '../core/metrics.ts';

export interface MetricOptions {
  /** As CloudWatch spells it: `Sum`, `p90`, … */
  readonly statistic: string;
  readonly period: Duration;
  readonly label?: string;
}

/** A metric of an export in the stack of `scope`. */
export function exportMetric(scope: IConstruct, exportName: string, metricName: MetricName, options: MetricOptions) {
  const dimensionsMap = exportDimensions(Stack.of(scope).stackName, exportName);
  return new Metric({ namespace: metricNamespace, metricName, dimensionsMap, ...options });
}

/** A metric of a service in the stack of `scope`, over all its exports. */
export function serviceMetric(
  scope: IConstruct,
  serviceName: string,
  metricName: (typeof serviceMetrics)[number],
  options: MetricOptions,
) {
  const dimensionsMap = serviceDimensions(Stack.of(scope).stackName, serviceName);
  return new Metric({ namespace: metricNamespace, metricName, dimensionsMap, ...options });
}
