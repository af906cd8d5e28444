/**
 * One deployment: the services of a settings file with their exports, and the bucket, table and alarm topic that
 * they share. CDK generates the resource names; outputs contain them.
 */

import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Bucket, type IBucket } from 'aws-cdk-lib/aws-s3';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import { createOrImportAlarmTopic } from './alarms.ts';
import { importNetwork } from './network.ts';
import { toPascalCase } from './outputs.ts';
import { ReportExporter } from './report-exporter.ts';
import { createSchedulesLast } from './schedule.ts';
import { contextKey, inContext, propsOfService, readSettings } from './settings/read-settings.ts';
import { createBucket, createPageLogTable } from './stores.ts';

/** The properties of a `ReportExporterStack`: its settings, and those of every CDK stack, such as `env` and `tags`. */
export interface ReportExporterStackProps extends StackProps {
  /**
   * The services and their exports: an object as in the settings file, the path of such a file, or what
   * `deploymentSettings` has made of it. `docs/settings.md` has every field.
   */
  readonly settings: object | string;
  /**
   * The name of the stack.
   *
   * @default - the `stackName` of the settings, otherwise the ID of the stack in the CDK app
   */
  readonly stackName?: string;
}

/**
 * Deploys all services and exports of the settings, with a bucket, a table and an alarm topic that they share.
 *
 * @example
 * new ReportExporterStack(app, 'Reports', { settings, env: { account: '123456789012', region: 'eu-central-1' } });
 */
export class ReportExporterStack extends Stack {
  /** The services, in the order of the settings. Each grants access to its exports. */
  readonly services: readonly ReportExporter[];
  /** The bucket for the pages and manifests of all services. */
  readonly bucket: IBucket;
  /** The table of the page log of all services. */
  readonly table: ITable;
  /** The topic that all alarms publish to. */
  readonly alarmTopic: ITopic;

  /** @throws ConfigurationError with a line for every problem in the settings */
  constructor(scope: Construct, id: string, props: ReportExporterStackProps) {
    const { settings: given, ...stackProps } = props;
    const isContext = given === scope.node.tryGetContext(contextKey);
    const path = [scope.node.path, id].filter(Boolean).join('/');
    const settings = readSettings(given, isContext ? inContext : { subject: path, path: ['settings'] });
    const { stackName = settings.stackName } = props;
    super(scope, id, {
      description: 'Report Exporter: exports reports from a paginated service to S3, on a schedule',
      // A template has a maximum size, and indentation would make it a third larger.
      suppressTemplateIndentation: true,
      ...stackProps,
      stackName,
    });
    const key = importKey(this, 'Key', settings.kmsKeyArn);
    const { bucket, network, alarms, logRetentionDays: logRetention } = settings;
    const bucketKey = importKey(this, 'BucketKey', bucket.kmsKeyArn) ?? key;
    this.bucket =
      bucket.existing === undefined
        ? createBucket(this, 'Reports', bucketKey)
        : Bucket.fromBucketAttributes(this, 'Reports', { bucketName: bucket.existing, encryptionKey: bucketKey });
    this.table = createPageLogTable(this, key);
    this.alarmTopic = createOrImportAlarmTopic(this, alarms);
    const shared = {
      bucket: this.bucket,
      table: this.table,
      encryptionKey: key,
      alarmTopic: this.alarmTopic,
      runbookUrl: alarms.runbookUrl,
      logRetention,
      compression: bucket.compression,
      ...(network && importNetwork(this, network)),
    };
    const services = new Construct(this, 'Services');
    this.services = settings.services.map((service) => {
      const exporter = new ReportExporter(services, service.name, { ...shared, ...propsOfService(settings, service) });
      this.#addServiceOutputs(exporter);
      return exporter;
    });
    const [first, ...others] = this.services.flatMap(({ scheduleGroup }) => scheduleGroup ?? []);
    if (first !== undefined) {
      createSchedulesLast(first, this);
      for (const group of others) group.node.addDependency(first);
    }

    this.#addOutput('BucketName', this.bucket.bucketName, 'The bucket for pages and manifests');
    this.#addOutput('TableName', this.table.tableName, 'The table of the page log');
    this.#addOutput(
      'AlarmTopicArn',
      this.alarmTopic.topicArn,
      'The SNS topic of the alarms. Subscribe to it to be notified',
    );
  }

  #addServiceOutputs({ serviceName, secret, stateMachine, exportNames }: ReportExporter): void {
    const id = toPascalCase(serviceName);
    const { stateMachineArn } = stateMachine;
    if (secret !== undefined) {
      this.#addOutput(
        `${id}ApiKeySecretId`,
        secret.secretFullArn ?? secret.secretName,
        `The secret for the API key of service ${serviceName}. Set its value before the first run`,
      );
    }
    this.#addOutput(
      `${id}StartCommand`,
      `aws stepfunctions start-execution --state-machine-arn ${stateMachineArn} --input '${JSON.stringify({ export: exportNames[0] })}'`,
      `Starts an export of service ${serviceName} manually`,
    );
  }

  #addOutput(id: string, value: string, description: string): void {
    new CfnOutput(this, id, { value, description });
  }
}

const importKey = (scope: Construct, id: string, arn: string | undefined): IKey | undefined =>
  arn === undefined ? undefined : Key.fromKeyArn(scope, id, arn);
