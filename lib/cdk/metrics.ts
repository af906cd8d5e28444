/** The metrics that the functions publish, for alarms, the dashboard and other CDK apps. */

import { Stack } from 'aws-cdk-lib';
import { Metric, type MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { IConstruct } from 'constructs';
import {
  exportDimensions,
  type MetricName,
  metricNamespace,
  serviceDimensions,
  serviceMetrics,
} from '../core/metrics.ts';

type ServiceMetricName = (typeof serviceMetrics)[number];

/** A metric of an export in the stack of `scope`. */
export function exportMetric(scope: IConstruct, exportName: string, metricName: MetricName, options: MetricOptions) {
  const dimensionsMap = exportDimensions(Stack.of(scope).stackName, exportName);
  return new Metric({ namespace: metricNamespace, metricName, dimensionsMap, ...options });
}

/** A metric of a service in the stack of `scope`, over all its exports. */
export function serviceMetric(
  scope: IConstruct,
  serviceName: string,
  metricName: ServiceMetricName,
  options: MetricOptions,
) {
  const dimensionsMap = serviceDimensions(Stack.of(scope).stackName, serviceName);
  return new Metric({ namespace: metricNamespace, metricName, dimensionsMap, ...options });
}

/** Whether the metric is also published for a service as a whole. */
export const isServiceMetric = (name: MetricName): name is ServiceMetricName =>
  (serviceMetrics as readonly MetricName[]).includes(name);
