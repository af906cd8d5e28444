/** One dashboard for all exports of a stack: runs, pages, reports, bytes, the service's latency, failures and waits. */

import { Duration } from 'aws-cdk-lib';
import { Dashboard, GraphWidget, type IWidget, TextWidget } from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { type MetricName, metricUnits } from '../core/metrics.ts';
import { exportMetrics } from './metrics.ts';

export function createDashboard(scope: Construct, exportNames: readonly string[]): Dashboard {
  return new Dashboard(scope, 'Dashboard', {
    defaultInterval: Duration.days(7),
    widgets: exportNames.map((exportName) => exportWidgets(scope, exportName)),
  });
}

const hour = Duration.hours(1);
const width = 8;

function exportWidgets(scope: Construct, exportName: string): IWidget[] {
  const metric = exportMetrics(scope, exportName);
  const hourlySum = (name: MetricName) => metric(name, { statistic: 'Sum', period: hour, label: name });
  const sums = (title: string, ...names: MetricName[]) =>
    new GraphWidget({ title, width, left: names.map(hourlySum), leftYAxis: { min: 0, showUnits: false } });
  return [
    new TextWidget({ markdown: `## Export ${exportName}`, width: 3 * width, height: 1 }),
    sums('Runs', 'RunsStarted', 'RunsResumed', 'RunsCompleted', 'RunsFailed', 'RunsSkipped'),
    sums('Pages', 'PagesExported', 'PagesAdopted'),
    sums('Reports', 'ReportsExported'),
    sums('Bytes', 'BytesExported'),
    new GraphWidget({
      title: `Service latency (${metricUnits.ServiceLatency.toLowerCase()})`,
      width,
      left: ['p50', 'p90', 'Maximum'].map((statistic) =>
        metric('ServiceLatency', { statistic, period: hour, label: statistic }),
      ),
      leftYAxis: { min: 0, showUnits: false },
    }),
    new GraphWidget({
      title: 'Failed attempts, restarts and waits',
      width,
      left: (['FailedAttempts', 'CursorRestarts', 'Waits'] as const).map(hourlySum),
      right: [hourlySum('WaitSeconds')],
      leftYAxis: { min: 0, showUnits: false },
      rightYAxis: { min: 0, label: 'Seconds', showUnits: false },
    }),
  ];
}
