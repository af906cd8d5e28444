/**
 * Everything that one deployment holds: the exports that cdk.json names, and the bucket, table, secret, alarm topic and
 * dashboard they share. CDK gives the names; the outputs tell them.
 */

import { CfnOutput, Stack } from 'aws-cdk-lib';
import { Key } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { type ExportOutput, exportOutputSuffix } from '../core/settings/stack-output.ts';
import { alarmTopic, tableAlarms } from './alarms.ts';
import { exportDashboard } from './dashboard.ts';
import { ReportExport } from './report-export.ts';
import type { DeploymentSettings } from './settings/deployment-settings.ts';
import { apiKeySecret, pageLogTable, reportBucket } from './storage.ts';

export class ReportExporterStack extends Stack {
  readonly exports: readonly ReportExport[];
  /** With the pages and manifests of them all, for who may read them. */
  readonly bucket: IBucket;

  constructor(scope: Construct, settings: DeploymentSettings) {
    super(scope, settings.stackName, {
      description: 'Report Exporter: pulls reports out of a paged service on a schedule and publishes them to S3',
    });
    const key = settings.kmsKeyArn === undefined ? undefined : Key.fromKeyArn(this, 'Key', settings.kmsKeyArn);
    const { prefix } = settings.bucket;
    this.bucket = reportBucket(this, settings.bucket.existing, key);
    const table = pageLogTable(this, key);
    const secret = apiKeySecret(this, settings.apiKeySecret.existing, key);
    const topic = alarmTopic(this, settings.alarms);
    const exports = new Construct(this, 'Exports');
    this.exports = settings.exports.map(
      (each) =>
        new ReportExport(exports, each.name, {
          service: settings.service,
          settings: each,
          bucket: this.bucket,
          prefix,
          table,
          secret,
          secretField: settings.apiKeySecret.field,
          encryptionKey: key,
          alarmTopic: topic,
          logRetention: settings.logRetentionDays,
        }),
    );
    tableAlarms(this, table, topic);
    const dashboard = exportDashboard(
      this,
      settings.exports.map(({ name }) => name),
    );

    this.tell('BucketName', this.bucket.bucketName, 'Where pages and manifests lie');
    this.tell('KeyPrefix', prefix === '' ? '(none)' : prefix, 'What every key in the bucket begins with');
    this.tell('TableName', table.tableName, 'The page log');
    this.tell(
      'ApiKeySecretId',
      secret.secretFullArn ?? secret.secretName,
      'Put the API key in here before the first run',
    );
    this.tell('AlarmTopicArn', topic.topicArn, 'Subscribe to it to be told of alarms');
    this.tell('DashboardName', dashboard.dashboardName, 'In CloudWatch, under Dashboards');
    for (const { exportName, stateMachine, functions, schedule } of this.exports) {
      const id = inPascalCase(exportName);
      const arn = stateMachine.stateMachineArn;
      this.tell(`${id}StateMachineArn`, arn, `The state machine of export ${exportName}`);
      this.tell(
        `${id}StartCommand`,
        `aws stepfunctions start-execution --state-machine-arn ${arn} --input '{}'`,
        `Starts export ${exportName} by hand`,
      );
      const parts: ExportOutput = {
        export: exportName,
        stateMachineArn: arn,
        exportPageFunction: functions.ExportPage.functionName,
        ...(schedule === undefined ? {} : { schedule: schedule.schedule.scheduleName }),
      };
      this.tell(
        `${id}${exportOutputSuffix}`,
        this.toJsonString(parts),
        `What report-exporter --stack needs to know of ${exportName}`,
      );
    }
  }

  private tell(id: string, value: string, description: string): void {
    new CfnOutput(this, id, { value, description });
  }
}

/** `nightly-reports` → `NightlyReports`: an output's name has letters and digits only. */
function inPascalCase(name: string): string {
  return name.replaceAll(/(?:^|[-_]+)([A-Za-z0-9]?)/g, (_, first: string) => first.toUpperCase());
}
