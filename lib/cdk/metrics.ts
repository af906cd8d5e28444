/** The metrics that the functions of one export write, for alarms and the dashboard. */

import { type Duration, Stack } from 'aws-cdk-lib';
import { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import type { IConstruct } from 'constructs';
import { type MetricName, metricDimensions, metricNamespace } from '../core/metrics.ts';

export interface MetricView {
  /** `Sum`, `p90`, … as CloudWatch spells it. */
  readonly statistic: string;
  readonly period: Duration;
  readonly label?: string;
}

/** The metrics of an export that is deployed in the stack of `scope`. */
export function metricsOf(scope: IConstruct, exportName: string): (name: MetricName, view: MetricView) => Metric {
  const dimensionsMap = metricDimensions(Stack.of(scope).stackName, exportName);
  return (name, view) => new Metric({ namespace: metricNamespace, metricName: name, dimensionsMap, ...view });
}
