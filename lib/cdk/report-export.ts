/**
 * One export on AWS: a schedule, a state machine, four functions and their alarms.
 *
 * A construct for any CDK app. The bucket, the table and the secret are props, because several exports share them.
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
import { createExportAlarms } from './alarms.ts';
import { createEventRule } from './event-rules.ts';
import { findEnvironmentProblem, findLimitProblems, functionLimits } from './function-limits.ts';
import { createFunctions, type ExportFunctions } from './functions.ts';
import { createPermissions } from './permissions.ts';
import { createSchedule, type ExportSchedule } from './schedule.ts';
import {
  type ExportDeploymentSettings,
  exportDeploymentSchema,
  keyPrefixSchema,
  type ServiceInput,
  settingsVariables,
} from './settings/deployed-export.ts';
import type { ScheduleSettings } from './settings/schedule-settings.ts';
import { createStateMachine } from './state-machine.ts';

export interface ReportExportProps {
  /** The service, as in cdk.json. */
  readonly service: ServiceInput;
  /** The export and its schedule, as in cdk.json. */
  readonly settings: ExportDeploymentSettings;
  readonly bucket: IBucket;
  /** The prefix of all keys in the bucket: empty, or ending with a slash. Default: empty. */
  readonly prefix?: string;
  /** Has the string keys `pk` and `sk`, and the time-to-live attribute `expiresAt`. */
  readonly table: ITable;
  /** Contains the service's API key. */
  readonly secret: ISecret;
  /** The field of the secret's JSON that contains the key. Default: the whole secret is the key. */
  readonly secretField?: string | undefined;
  /** The customer managed key of bucket, table and secret, if they are imported without it. */
  readonly encryptionKey?: IKey | undefined;
  /** The topic that alarms publish to. Default: none. */
  readonly alarmTopic?: ITopic | undefined;
  /** Default: three months. */
  readonly logRetention?: RetentionDays;
}

export class ReportExport extends Construct {
  readonly exportName: string;
  readonly functions: ExportFunctions;
  readonly stateMachine: StateMachine;
  /** Absent: the export is started manually. */
  readonly schedule: ExportSchedule | undefined;

  /** @throws ConfigurationError that names every problem in `service` and `settings` */
  constructor(scope: Construct, id: string, props: ReportExportProps) {
    super(scope, id);
    const service = parseSettings(serviceSettingsSchema, props.service, 'service');
    const settings = parseSettings(exportDeploymentSchema, props.settings, 'settings');
    const prefix = parseSettings(keyPrefixSchema, props.prefix ?? '', 'prefix');
    const { bucket, table, secret, encryptionKey, logRetention = RetentionDays.THREE_MONTHS } = props;
    const exportName = settings.name;
    const variables = settingsVariables(props.service, props.settings);
    assertFits(exportName, [...findLimitProblems({ service, settings }), findEnvironmentProblem(variables)]);

    const limits = functionLimits({ service, settings });
    this.exportName = exportName;
    this.functions = createFunctions(this, {
      exportName,
      environment: {
        ...variables,
        DEPLOYMENT_NAME: Stack.of(this).stackName,
        TABLE_NAME: table.tableName,
        BUCKET_NAME: bucket.bucketName,
        KEY_PREFIX: prefix,
        // The name if the complete ARN is unknown: a partial ARN may match another secret.
        API_KEY_SECRET_ID: secret.secretFullArn ?? secret.secretName,
        API_KEY_SECRET_FIELD: props.secretField ?? '',
      },
      permissions: createPermissions({ exportName, bucket, prefix, table, secret, encryptionKey }),
      limits,
      logRetention,
    });
    const machine = createStateMachine(this, { exportName, functions: this.functions, limits, logRetention });
    this.stateMachine = machine.stateMachine;
    this.schedule =
      settings.schedule && createSchedule(this, { exportName, settings: settings.schedule, target: machine });
    createExportAlarms(this, {
      exportName,
      functions: this.functions,
      stateMachine: this.stateMachine,
      deadLetterQueue: this.schedule?.deadLetterQueue,
      freshnessMs: freshnessOf(settings.schedule),
      topic: props.alarmTopic,
    });
  }

  /**
   * Sends an event to `target` when a run of this export is published, at least once. `docs/consumers.md` and
   * `docs/schemas/completed.v1.schema.json` describe the event. The rule is created in `scope`: if the target is in another
   * stack, pass that stack, because it usually depends on this one and stacks must not depend on each other.
   *
   * @example nightly.onCompleted('Load', new LambdaFunction(load))
   */
  onCompleted(id: string, target?: IRuleTarget, scope: Construct = this.#rules()): Rule {
    return createEventRule(scope, id, { ...this.#eventSource(), detailType: detailTypes.completed, target });
  }

  /**
   * Sends an event to `target` when an execution of this export has failed and its retries are exhausted, at least once.
   * `docs/schemas/failed.v1.schema.json` describes the event. An execution that is stopped or times out sends none: use alarms.
   */
  onFailed(id: string, target?: IRuleTarget, scope: Construct = this.#rules()): Rule {
    return createEventRule(scope, id, { ...this.#eventSource(), detailType: detailTypes.failed, target });
  }

  #eventSource() {
    return { exportName: this.exportName, stateMachine: this.stateMachine };
  }

  /** A separate scope, so that ids passed by the caller do not collide with those of this construct. */
  #rules(): Construct {
    return (this.node.tryFindChild('Rules') as Construct | undefined) ?? new Construct(this, 'Rules');
  }
}

function assertFits(exportName: string, problems: readonly (string | undefined)[]): void {
  const found = problems.filter((problem) => problem !== undefined);
  if (found.length > 0) throw new ExportError('ConfigurationError', `Export ${exportName}: ${found.join('; ')}`);
}

/** Only a schedule that is enabled makes runs overdue. */
function freshnessOf(schedule: ScheduleSettings | undefined): number | undefined {
  return schedule?.enabled === true && schedule.freshness !== 'none' ? schedule.freshness : undefined;
}
