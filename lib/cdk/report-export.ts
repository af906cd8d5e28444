/**
 * One export on AWS: schedule → state machine → four functions → S3 and DynamoDB, with its alarms.
 *
 * A construct for any CDK app. Bucket, table and secret come from outside, because exports share them; what belongs to
 * one export alone is made here.
 *
 * @example
 * new ReportExport(this, 'Nightly', {
 *   service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
 *   settings: { name: 'nightly', schedule: { expression: 'cron(0 2 * * ? *)', freshness: 'PT26H' } },
 *   bucket, table, secret,
 * });
 */

import { Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { IRuleTarget, Rule } from 'aws-cdk-lib/aws-events';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { ExportError } from '../core/errors.ts';
import { parseSettings, serviceSettingsSchema } from '../core/settings/settings.ts';
import { detailTypes } from '../core/state-machine/definition.ts';
import { exportAlarms } from './alarms.ts';
import { announcementRule } from './event-rules.ts';
import { functionLimits, problemOfEnvironment, problemsOfLimits } from './function-limits.ts';
import { type ExportFunctions, exportFunctions } from './functions.ts';
import { grantsOf } from './permissions.ts';
import { type ExportSchedule, exportSchedule } from './schedule.ts';
import {
  type ExportDeploymentSettings,
  exportDeploymentSchema,
  functionSettings,
  keyPrefixSchema,
  type ServiceInput,
} from './settings/deployed-export.ts';
import type { ScheduleSettings } from './settings/schedule-settings.ts';
import { exportStateMachine } from './state-machine.ts';

export interface ReportExportProps {
  /** Where the service is; as in cdk.json. */
  readonly service: ServiceInput;
  /** What is exported and when; as in cdk.json. */
  readonly settings: ExportDeploymentSettings;
  readonly bucket: IBucket;
  /** What every key in the bucket begins with: empty, or with a slash at its end. Default: empty. */
  readonly prefix?: string;
  /** With string keys `pk` and `sk`, and `expiresAt` as its time to live. */
  readonly table: ITable;
  /** Holds the service's API key. */
  readonly secret: ISecret;
  /** The field of the secret's JSON that holds the key. Default: the secret is the key. */
  readonly secretField?: string | undefined;
  /** The customer's key of bucket, table and secret, where they were imported and do not know it themselves. */
  readonly encryptionKey?: IKey | undefined;
  /** Told when an alarm goes off. Default: nobody is. */
  readonly alarmTopic?: ITopic | undefined;
  /** Default: three months. */
  readonly logRetention?: RetentionDays;
}

export class ReportExport extends Construct {
  readonly exportName: string;
  readonly functions: ExportFunctions;
  readonly stateMachine: StateMachine;
  /** Absent for an export that is started by hand only. */
  readonly schedule: ExportSchedule | undefined;

  /** @throws ConfigurationError that names what is wrong with `service` or `settings`. */
  constructor(scope: Construct, id: string, props: ReportExportProps) {
    super(scope, id);
    const service = parseSettings(serviceSettingsSchema, props.service, 'service');
    const settings = parseSettings(exportDeploymentSchema, props.settings, 'settings');
    const prefix = parseSettings(keyPrefixSchema, props.prefix ?? '', 'prefix');
    const { bucket, table, secret, encryptionKey, logRetention = RetentionDays.THREE_MONTHS } = props;
    const travelling = functionSettings(props.service, props.settings);
    assertFits(settings.name, [...problemsOfLimits({ service, settings }), problemOfEnvironment(travelling)]);

    const limits = functionLimits({ service, settings });
    this.exportName = settings.name;
    this.functions = exportFunctions(this, {
      exportName: settings.name,
      environment: {
        ...travelling,
        DEPLOYMENT_NAME: Stack.of(this).stackName,
        TABLE_NAME: table.tableName,
        BUCKET_NAME: bucket.bucketName,
        KEY_PREFIX: prefix,
        // By name where nothing more is known of it: half an ARN may be taken for another secret's.
        API_KEY_SECRET_ID: secret.secretFullArn ?? secret.secretName,
        API_KEY_SECRET_FIELD: props.secretField ?? '',
      },
      grants: grantsOf({ exportName: settings.name, bucket, prefix, table, secret, encryptionKey }),
      limits,
      logRetention,
    });
    this.stateMachine = exportStateMachine(this, {
      exportName: settings.name,
      functions: this.functions,
      limits,
      logRetention,
    });
    this.schedule = settings.schedule && exportSchedule(this, settings.name, settings.schedule, this.stateMachine);
    exportAlarms(this, {
      exportName: settings.name,
      functions: this.functions,
      stateMachine: this.stateMachine,
      deadLetters: this.schedule?.deadLetters,
      freshnessMs: freshnessOf(settings.schedule),
      topic: props.alarmTopic,
    });
  }

  /**
   * Sends `target` an event whenever a run of this very export has been published; at least once. What it holds:
   * `docs/schemas/completed.v1.schema.json`, and `docs/consumers.md`. `scope` is where the rule stands: for a target of
   * another stack that stack, as it mostly knows this one, and two stacks must not depend on each other.
   *
   * @example nightly.onCompleted('Load', new LambdaFunction(load))
   */
  onCompleted(id: string, target?: IRuleTarget, scope: Construct = this.#rules()): Rule {
    return announcementRule(scope, id, this, detailTypes.completed, target);
  }

  /**
   * Sends `target` an event whenever an execution of this very export has failed for good; at least once. What it holds:
   * `docs/schemas/failed.v1.schema.json`. One that is stopped, or takes too long as a whole, cannot tell: the alarms do.
   */
  onFailed(id: string, target?: IRuleTarget, scope: Construct = this.#rules()): Rule {
    return announcementRule(scope, id, this, detailTypes.failed, target);
  }

  /** Apart, so that the names given there are no others than those of rules. */
  #rules(): Construct {
    return (this.node.tryFindChild('Rules') as Construct | undefined) ?? new Construct(this, 'Rules');
  }
}

function assertFits(exportName: string, problems: readonly (string | undefined)[]): void {
  const found = problems.filter((problem) => problem !== undefined);
  if (found.length > 0) throw new ExportError('ConfigurationError', `Export ${exportName}: ${found.join('; ')}`);
}

/** Nothing is expected of an export that does not start by itself. */
function freshnessOf(schedule: ScheduleSettings | undefined): number | undefined {
  return schedule?.enabled === true && schedule.freshness !== 'none' ? schedule.freshness : undefined;
}
