/**
 * One deployment: the exports in cdk.json, and the bucket, table, secret, alarm topic and dashboard that they share. CDK generates
 * the resource names; outputs contain them.
 */

import { CfnOutput, Stack } from 'aws-cdk-lib';
import { Key } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { type ExportOutput, exportOutputSuffix } from '../core/settings/stack-output.ts';
import { createOrImportAlarmTopic, createTableAlarms } from './alarms.ts';
import { createDashboard } from './dashboard.ts';
import { ReportExport } from './report-export.ts';
import type { DeploymentSettings } from './settings/deployment-settings.ts';
import { createOrImportApiKeySecret, createOrImportBucket, createPageLogTable } from './storage.ts';

export class ReportExporterStack extends Stack {
  readonly exports: readonly ReportExport[];
  /** Contains the pages and manifests of all exports. Use it to grant read access. */
  readonly bucket: IBucket;

  constructor(scope: Construct, settings: DeploymentSettings) {
    super(scope, settings.stackName, {
      description: 'Report Exporter: exports reports from a paginated service to S3, on a schedule',
    });
    const key = settings.kmsKeyArn === undefined ? undefined : Key.fromKeyArn(this, 'Key', settings.kmsKeyArn);
    const { prefix } = settings.bucket;
    this.bucket = createOrImportBucket(this, settings.bucket.existing, key);
    const table = createPageLogTable(this, key);
    const secret = createOrImportApiKeySecret(this, settings.apiKeySecret.existing, key);
    const topic = createOrImportAlarmTopic(this, settings.alarms);
    const exports = new Construct(this, 'Exports');
    this.exports = settings.exports.map(
      (exportSettings) =>
        new ReportExport(exports, exportSettings.name, {
          service: settings.service,
          settings: exportSettings,
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
    createTableAlarms(this, table, topic);
    const dashboard = createDashboard(
      this,
      settings.exports.map(({ name }) => name),
    );

    this.addOutput('BucketName', this.bucket.bucketName, 'The bucket for pages and manifests');
    this.addOutput('KeyPrefix', prefix === '' ? '(none)' : prefix, 'The prefix of all keys in the bucket');
    this.addOutput('TableName', table.tableName, 'The table of the page log');
    this.addOutput(
      'ApiKeySecretId',
      secret.secretFullArn ?? secret.secretName,
      'The secret for the API key. Set its value before the first run',
    );
    this.addOutput('AlarmTopicArn', topic.topicArn, 'The SNS topic of the alarms. Subscribe to it to be notified');
    this.addOutput('DashboardName', dashboard.dashboardName, 'The CloudWatch dashboard');
    for (const reportExport of this.exports) this.addExportOutputs(reportExport);
  }

  private addExportOutputs({ exportName, stateMachine, functions, schedule }: ReportExport): void {
    const id = toPascalCase(exportName);
    const { stateMachineArn } = stateMachine;
    this.addOutput(`${id}StateMachineArn`, stateMachineArn, `The state machine of export ${exportName}`);
    this.addOutput(
      `${id}StartCommand`,
      `aws stepfunctions start-execution --state-machine-arn ${stateMachineArn} --input '{}'`,
      `Starts export ${exportName} manually`,
    );
    const output: ExportOutput = {
      export: exportName,
      stateMachineArn,
      exportPageFunction: functions.ExportPage.functionName,
      ...(schedule === undefined ? {} : { schedule: schedule.schedule.scheduleName }),
    };
    this.addOutput(
      `${id}${exportOutputSuffix}`,
      this.toJsonString(output),
      `The resources of export ${exportName}, for report-exporter --stack`,
    );
  }

  private addOutput(id: string, value: string, description: string): void {
    new CfnOutput(this, id, { value, description });
  }
}

/** `nightly-reports` → `NightlyReports`. The id of an output contains only letters and digits. */
function toPascalCase(name: string): string {
  return name.replaceAll(/(?:^|[-_]+)([A-Za-z0-9]?)/g, (_, first: string) => first.toUpperCase());
}
