/**
 * One dashboard per stack, of the same size for one export and for hundreds. For each question it shows the ten exports
 * that stand out, which CloudWatch finds when the dashboard is opened.
 *
 * A graph may read 500 metrics and a dashboard 2,500, including those that metric math reads and does not show. Each
 * graph of exports reads one metric per export, so the dashboard suffices for 270 exports, more than a stack usually
 * holds.
 */

import { Duration, Stack } from 'aws-cdk-lib';
import {
  Dashboard,
  GraphWidget,
  type IMetric,
  type IWidget,
  SearchExpression,
  TextWidget,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { type exportDimensions, type MetricName, metricNamespace, metricUnits } from '../core/metrics.ts';
import type { MonitoredService } from './alarms.ts';

export function createDashboard(scope: Construct, services: readonly MonitoredService[]): Dashboard {
  const { stackName } = Stack.of(scope);
  return new Dashboard(scope, 'Dashboard', {
    defaultInterval: Duration.days(7),
    widgets: [topExports(stackName), ...services.map(serviceWidgets)],
  });
}

const hour = Duration.hours(1);
const fullWidth = 24;

const topCount = 10;

/**
 * The exports of all services together, because the metrics of an export have no dimension for its service. Their names
 * are unique in the stack.
 */
function topExports(stackName: string): IWidget[] {
  const top = (title: string, name: MetricName, statistic = 'Sum') =>
    graph(`${title} (${unitOf(name)})`, [topExpression(stackName, name, statistic)]);
  return [
    heading(`The ${topCount} exports with the most …`),
    top('Failed runs', 'RunsFailed'),
    top('Failed attempts', 'FailedAttempts'),
    top('Completed runs', 'RunsCompleted'),
    top('Pages', 'PagesExported'),
    top('Reports', 'ReportsExported'),
    top('Bytes', 'BytesExported'),
    top('Service latency, p90', 'ServiceLatency', 'p90'),
    top('Waits requested by the service', 'WaitSeconds'),
    top('Waits for other exports', 'TurnWaitSeconds'),
  ];
}

/** The metric of the exports for which it is highest within the dashboard's time range: in sum, or at its peak. */
function topExpression(stackName: string, name: MetricName, statistic: string): IMetric {
  const [deployment, exportName] = ['deployment', 'export'] satisfies (keyof ReturnType<typeof exportDimensions>)[];
  const schema = `{${metricNamespace},${deployment},${exportName}}`;
  const search = `SEARCH('${schema} MetricName="${name}" ${deployment}="${stackName}"', '${statistic}', ${hour.toSeconds()})`;
  return new SearchExpression({
    expression: `SORT(${search}, ${statistic === 'Sum' ? 'SUM' : 'MAX'}, DESC, ${topCount})`,
    label: `\${PROP('Dim.${exportName}')}`,
    period: hour,
  });
}

function serviceWidgets(service: MonitoredService): IWidget[] {
  const options = { statistic: 'Sum', period: hour };
  const { stateMachine, functions } = service;
  return [
    heading(`Service ${service.serviceName}`),
    graph('Executions', [
      stateMachine.metricStarted({ ...options, label: 'Started' }),
      stateMachine.metricSucceeded({ ...options, label: 'Succeeded' }),
      stateMachine.metricFailed({ ...options, label: 'Failed' }),
      stateMachine.metricTimedOut({ ...options, label: 'Timed out' }),
    ]),
    // With maxConcurrentPages, this includes invocations that wait for a slot.
    graph('Concurrent ExportPage invocations', [
      functions.ExportPage.metric('ConcurrentExecutions', { statistic: 'Maximum', period: hour, label: 'ExportPage' }),
    ]),
    graph(`Waits requested by the service (${unitOf('WaitSeconds')})`, [
      service.metric('WaitSeconds', undefined, { ...options, label: 'WaitSeconds' }),
    ]),
  ];
}

const heading = (markdown: string) => new TextWidget({ markdown: `## ${markdown}`, width: fullWidth, height: 1 });

const graph = (title: string, left: IMetric[]) =>
  new GraphWidget({ title, width: fullWidth / 3, left, leftYAxis: { min: 0, showUnits: false } });

const unitOf = (name: MetricName) => metricUnits[name].toLowerCase();
