/**
 * One deployment: the services of a settings file with their exports, and the bucket, table, alarm topic and dashboard that they share.
 * CDK generates the resource names; outputs contain them.
 */

import { CfnOutput, Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { CfnStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import type { DeploymentSettings, ServiceDeploymentSettings } from '../core/settings/deployment-settings.ts';
import { type ServiceOutput, serviceOutputSuffix } from '../core/settings/stack-output.ts';
import { createOrImportAlarmTopic, createTableAlarms } from './alarms.ts';
import { createDashboard } from './dashboard.ts';
import { ReportExporter } from './report-exporter.ts';
import { createOrImportApiKeySecret, createOrImportBucket, createPageLogTable } from './storage.ts';

/** What the services of a stack share. */
interface SharedResources {
  readonly bucket: IBucket;
  readonly table: ITable;
  readonly topic: ITopic;
  readonly key: IKey | undefined;
}

export class ReportExporterStack extends Stack {
  readonly services: readonly ReportExporter[];
  /** Contains the pages and manifests of all exports. Use it to grant read access. */
  readonly bucket: IBucket;

  constructor(scope: Construct, settings: DeploymentSettings) {
    super(scope, settings.stackName, {
      description: 'Report Exporter: exports reports from a paginated service to S3, on a schedule',
      // A template has a maximum size, and indentation would make it a third larger.
      suppressTemplateIndentation: true,
    });
    const key = settings.kmsKeyArn === undefined ? undefined : Key.fromKeyArn(this, 'Key', settings.kmsKeyArn);
    const shared: SharedResources = {
      bucket: createOrImportBucket(this, settings.bucket.existing, key),
      table: createPageLogTable(this, key),
      topic: createOrImportAlarmTopic(this, settings.alarms),
      key,
    };
    this.bucket = shared.bucket;
    const secrets = new Construct(this, 'ApiKeys');
    const services = new Construct(this, 'Services');
    this.services = settings.services.map((service) => {
      const secret = createOrImportApiKeySecret(secrets, service.name, service.apiKeySecret.existing, key);
      const exporter = createService(services, settings, service, secret, shared);
      this.addServiceOutputs(exporter, service, secret, shared);
      return exporter;
    });
    createTableAlarms(this, shared.table, shared.topic);
    const dashboard = createDashboard(this, this.services);

    this.addOutput('BucketName', this.bucket.bucketName, 'The bucket for pages and manifests');
    this.addOutput('TableName', shared.table.tableName, 'The table of the page log');
    this.addOutput(
      'AlarmTopicArn',
      shared.topic.topicArn,
      'The SNS topic of the alarms. Subscribe to it to be notified',
    );
    this.addOutput('DashboardName', dashboard.dashboardName, 'The CloudWatch dashboard');
  }

  private addServiceOutputs(
    { serviceName, prefix, stateMachine, scheduleGroup, exportNames }: ReportExporter,
    { apiKeySecret }: ServiceDeploymentSettings,
    secret: ISecret,
    { bucket, table }: SharedResources,
  ): void {
    const id = toPascalCase(serviceName);
    const secretId = secret.secretFullArn ?? secret.secretName;
    const { stateMachineArn } = stateMachine;
    this.addOutput(
      `${id}ApiKeySecretId`,
      secretId,
      `The secret for the API key of service ${serviceName}. Set its value before the first run`,
    );
    this.addOutput(
      `${id}StartCommand`,
      `aws stepfunctions start-execution --state-machine-arn ${stateMachineArn} --input '${JSON.stringify({ export: exportNames[0] })}'`,
      `Starts an export of service ${serviceName} manually`,
    );
    const output: ServiceOutput = {
      service: serviceName,
      stateMachineArn,
      stateMachineId: this.getLogicalId(stateMachine.node.defaultChild as CfnStateMachine),
      table: table.tableName,
      bucket: bucket.bucketName,
      prefix,
      apiKeySecret: secretId,
      apiKeyField: apiKeySecret.field ?? '',
      ...(scheduleGroup === undefined ? {} : { scheduleGroup: scheduleGroup.scheduleGroupName }),
    };
    this.addOutput(
      `${id}${serviceOutputSuffix}`,
      this.toJsonString(output),
      `The resources of service ${serviceName}, for report-exporter --stack`,
    );
  }

  private addOutput(id: string, value: string, description: string): void {
    new CfnOutput(this, id, { value, description });
  }
}

function createService(
  scope: Construct,
  settings: DeploymentSettings,
  { name, prefix, service, apiKeySecret, exports }: ServiceDeploymentSettings,
  secret: ISecret,
  { bucket, table, topic, key }: SharedResources,
): ReportExporter {
  return new ReportExporter(scope, name, {
    name,
    service,
    exports,
    bucket,
    prefix,
    table,
    secret,
    secretField: apiKeySecret.field,
    encryptionKey: key,
    alarmTopic: topic,
    alarmsPerExport: settings.alarms.perExport,
    logRetention: settings.logRetentionDays,
  });
}

/** `eu-reports` → `EuReports`. The id of an output contains only letters and digits. */
function toPascalCase(name: string): string {
  return name.replaceAll(/(?:^|-+)([a-z0-9]?)/g, (_, first: string) => first.toUpperCase());
}
