/** The metrics that the functions of one export publish, for alarms and the dashboard. */

import { type Duration, Stack } from 'aws-cdk-lib';
import { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import type { IConstruct } from 'constructs';
import { type MetricName, metricDimensions, metricNamespace } from '../core/metrics.ts';

export interface ExportMetricOptions {
  /** As CloudWatch spells it: `Sum`, `p90`, … */
  readonly statistic: string;
  readonly period: Duration;
  readonly label?: string;
}

/** Returns the metrics of an export in the stack of `scope`, by name. */
export function exportMetrics(
  scope: IConstruct,
  exportName: string,
): (name: MetricName, options: ExportMetricOptions) => Metric {
  const dimensionsMap = metricDimensions(Stack.of(scope).stackName, exportName);
  return (name, options) => new Metric({ namespace: metricNamespace, metricName: name, dimensionsMap, ...options });
}
