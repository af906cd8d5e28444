import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Alarm, type Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { describe, expect, it } from 'vitest';
import { ReportExporter } from '../../lib/cdk/report-exporter.ts';
import { metricNamespace, metricUnits, type MetricName, serviceMetrics } from '../../lib/core/metrics.ts';
import { anApp, resource } from '../support/aws/cdk-deployment.ts';

function aService(...names: readonly string[]) {
  const stack = new Stack(anApp(), 'Another', { stackName: 'our-stack' });
  const exports = names.map((name) => ({ name }));
  return new ReportExporter(stack, 'Reports', { service: { baseUrl: 'https://reports.example.com' }, exports });
}
const two = aService('nightly', 'weekly');
const one = aService('nightly');
const ofExport = (name: string) => ({ deployment: 'our-stack', export: name });
const ofService = { deployment: 'our-stack', service: 'reports' };

/** Every method for one metric, with the statistic that it has by default. */
const methods: Readonly<Record<string, readonly [MetricName, string]>> = {
  metricRunsStarted: ['RunsStarted', 'Sum'],
  metricRunsCompleted: ['RunsCompleted', 'Sum'],
  metricRunsFailed: ['RunsFailed', 'Sum'],
  metricPagesExported: ['PagesExported', 'Sum'],
  metricReportsExported: ['ReportsExported', 'Sum'],
  metricBytesExported: ['BytesExported', 'Sum'],
  metricServiceLatency: ['ServiceLatency', 'Average'],
  metricWaitSeconds: ['WaitSeconds', 'Sum'],
  metricFailedAttempts: ['FailedAttempts', 'Sum'],
};
const call = (service: ReportExporter, method: string, options?: object) =>
  (service[method as keyof ReportExporter] as (options?: object) => Metric).call(service, options);

describe('the metrics of a service', () => {
  it('have a method each, which this test knows', () => {
    const found = Object.getOwnPropertyNames(ReportExporter.prototype).filter((name) => /^metric./.test(name));
    expect(found.sort()).toEqual([...Object.keys(methods), 'metricStartsRejected'].sort());
  });

  it.each(Object.entries(methods))('%s is the metric of an export', (method, [metricName, statistic]) => {
    const metric = call(two, method, { export: 'weekly' });
    expect(metric).toMatchObject({ namespace: metricNamespace, metricName, statistic, dimensions: ofExport('weekly') });
    expect(metric.period.toMinutes()).toBe(5);
    expect(call(two, method, { export: 'weekly', statistic: 'Maximum' }).statistic).toBe('Maximum');
  });

  it('are those of the only export, where none is named', () => {
    for (const name of Object.keys(metricUnits) as MetricName[]) {
      const isService = (serviceMetrics as readonly MetricName[]).includes(name);
      expect(one.metric(name).dimensions).toEqual(isService ? ofService : ofExport('nightly'));
    }
  });

  it('are published for the whole service in two cases', () => {
    expect(two.metricStartsRejected()).toMatchObject({ metricName: 'StartsRejected', dimensions: ofService });
    expect(two.metricWaitSeconds()).toMatchObject({ metricName: 'WaitSeconds', dimensions: ofService });
    expect(two.metricWaitSeconds({ export: 'nightly' })).toMatchObject({ dimensions: ofExport('nightly') });
  });

  it('are rejected if they are not published', () => {
    expect(() => two.metricPagesExported()).toThrow(
      'Another/Reports has no metric PagesExported of all exports: set the option export. Its exports: nightly, weekly',
    );
    expect(() => two.metricPagesExported({ export: 'monthly' })).toThrow('Another/Reports has no export "monthly"');
    expect(() => one.metric('StartsRejected', { export: 'nightly' })).toThrow(
      'Another/Reports has no metric StartsRejected of an export: leave out the option export',
    );
  });

  it('make alarms, in their own stack and in others', () => {
    const stack = Stack.of(two);
    new Alarm(stack, 'Slow', {
      metric: two.metricServiceLatency({ export: 'weekly', statistic: 'p90', period: Duration.hours(1) }),
      threshold: 5_000,
      evaluationPeriods: 2,
    });
    expect(resource(Template.fromStack(stack), 'AWS::CloudWatch::Alarm', 'Slow').Properties).toMatchObject({
      Namespace: 'ReportExporter',
      MetricName: 'ServiceLatency',
      ExtendedStatistic: 'p90',
      Period: 3_600,
      Dimensions: [
        { Name: 'deployment', Value: 'our-stack' },
        { Name: 'export', Value: 'weekly' },
      ],
    });
    const env = { account: '123456789012', region: 'eu-central-1' };
    const elsewhere = new ReportExporter(new Stack(anApp(), 'Elsewhere', { env }), 'Reports', {
      service: { baseUrl: 'https://reports.example.com' },
      exports: [{ name: 'nightly' }],
    });
    expect(elsewhere.metricRunsFailed()).toMatchObject(env);
  });
});
