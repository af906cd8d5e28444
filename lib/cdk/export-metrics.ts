/** The metrics that the functions of one export write, for alarms and the dashboard. */

import type { Duration } from 'aws-cdk-lib';
import { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { type MetricName, metricDimension, metricNamespace } from '../core/metric-names.ts';

export interface MetricView {
  /** `Sum`, `p90`, … as CloudWatch spells it. */
  readonly statistic: string;
  readonly period: Duration;
  readonly label?: string;
}

export function exportMetric(exportName: string, name: MetricName, view: MetricView): Metric {
  return new Metric({
    namespace: metricNamespace,
    metricName: name,
    dimensionsMap: { [metricDimension]: exportName },
    ...view,
  });
}
