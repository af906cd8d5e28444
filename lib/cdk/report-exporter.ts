/**
 * One service and its exports on AWS: a state machine, four functions and their alarms, and for each export a schedule and
 * alarms of its own.
 *
 * A construct for any CDK app. The bucket, the table and the secret are props, because several services can share them.
 *
 * @example
 * new ReportExporter(this, 'Reports', {
 *   service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
 *   exports: [{ name: 'nightly', schedule: { expression: 'cron(0 2 * * ? *)', freshness: 'PT26H' } }],
 *   bucket, table, secret,
 * });
 */

import { Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { IRuleTarget, Rule } from 'aws-cdk-lib/aws-events';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Schedule, ScheduleGroup } from 'aws-cdk-lib/aws-scheduler';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { ExportError } from '../core/errors.ts';
import { listNames } from '../core/sanitize.ts';
import {
  type ExportDeploymentSettings,
  findSimilarNames,
  type ServiceInput,
} from '../core/settings/deployment-settings.ts';
import { alarmedAge } from '../core/settings/schedule-settings.ts';
import { detailTypes } from '../core/state-machine/definition.ts';
import { createServiceAlarms } from './alarms.ts';
import { createEventRule, type EventRuleProps } from './event-rules.ts';
import { functionLimits } from './function-limits.ts';
import { createFunctions, type ServiceFunctions } from './functions.ts';
import { createPermissions } from './permissions.ts';
import { createSchedules } from './schedule.ts';
import { functionSettings, hasAlarmsPerExport, serviceMetadata } from './settings/deployed-export.ts';
import { parseExporterSettings } from './settings/exporter-settings.ts';
import { createStateMachine } from './state-machine.ts';

export interface ReportExporterProps {
  /** Distinguishes the service from others that use the same table. Default: `default`. */
  readonly name?: string;
  /** The service: its address and limits, as in the settings file. */
  readonly service: ServiceInput;
  /** Its exports and their schedules, as in the settings file. Each name is unique in the stack. */
  readonly exports: readonly ExportDeploymentSettings[];
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
  /** Whether each export has its own alarms for failed and waiting runs. Default: up to 20 exports. */
  readonly alarmsPerExport?: boolean | undefined;
  /** Default: three months. */
  readonly logRetention?: RetentionDays;
}

export interface EventRuleOptions {
  /** The name of an export. Default: all exports of the service. */
  readonly export?: string;
  /** What receives the events. Default: add it to the rule later. */
  readonly target?: IRuleTarget;
  /** Where the rule is created. Default: in this construct. */
  readonly scope?: Construct;
}

export class ReportExporter extends Construct {
  readonly serviceName: string;
  readonly exportNames: readonly string[];
  /** The prefix of all keys of the service in the bucket. */
  readonly prefix: string;
  readonly functions: ServiceFunctions;
  readonly stateMachine: StateMachine;
  /** The schedules, by export. Exports without one are started manually. */
  readonly schedules: ReadonlyMap<string, Schedule>;
  /** Contains the schedules, each under the name of its export. Absent: no export has a schedule. */
  readonly scheduleGroup: ScheduleGroup | undefined;
  /** Receives the starts that the schedules could not deliver. Absent: no export has a schedule. */
  readonly deadLetterQueue: Queue | undefined;
  /** Undefined: the props were rejected. */
  readonly #identity: Identity | undefined;

  /** @throws ConfigurationError that names every problem in the settings */
  constructor(scope: Construct, id: string, props: ReportExporterProps) {
    super(scope, id);
    const { bucket, table, secret, encryptionKey, logRetention = RetentionDays.THREE_MONTHS } = props;
    const settings = parseExporterSettings(props, this.node.path);
    const { name: serviceName, prefix, service, exports } = settings;
    this.serviceName = serviceName;
    this.prefix = prefix;
    this.exportNames = exports.map(({ name }) => name);
    const identity = {
      serviceName,
      prefix,
      exportNames: this.exportNames,
      bucket: bucket.bucketName,
      table: table.tableName,
      stack: Stack.of(this),
    };
    this.#assertSeparate(identity);
    this.#identity = identity;

    const limits = functionLimits({ service, exports });
    this.functions = createFunctions(this, {
      serviceName,
      settings: functionSettings(props.service, props.exports),
      environment: {
        DEPLOYMENT_NAME: Stack.of(this).stackName,
        SERVICE_NAME: serviceName,
        TABLE_NAME: table.tableName,
        BUCKET_NAME: bucket.bucketName,
        KEY_PREFIX: prefix,
        // The name if the complete ARN is unknown: a partial ARN may match another secret.
        API_KEY_SECRET_ID: secret.secretFullArn ?? secret.secretName,
        API_KEY_SECRET_FIELD: props.secretField ?? '',
      },
      permissions: createPermissions({ serviceName, bucket, prefix, table, secret, encryptionKey }),
      limits,
      logRetention,
    });
    const metadata = serviceMetadata(props.service, props.exports);
    const machine = createStateMachine(this, { functions: this.functions, limits, metadata, logRetention });
    this.stateMachine = machine.stateMachine;

    const exportScopes = new Construct(this, 'Exports');
    const scoped = exports.map(({ name, schedule }) => ({ name, schedule, scope: new Construct(exportScopes, name) }));
    const schedules = createSchedules(
      this,
      machine,
      scoped.flatMap(({ schedule, ...each }) => (schedule === undefined ? [] : [{ ...each, schedule }])),
    );
    this.schedules = schedules?.byExport ?? new Map();
    this.scheduleGroup = schedules?.group;
    this.deadLetterQueue = schedules?.deadLetterQueue;
    createServiceAlarms(this, {
      serviceName,
      exports: scoped.map(({ schedule, ...each }) => ({ ...each, freshnessMs: alarmedAge(schedule) })),
      perExport: hasAlarmsPerExport(props.alarmsPerExport, exports.length),
      functions: this.functions,
      stateMachine: this.stateMachine,
      deadLetterQueue: this.deadLetterQueue,
      topic: props.alarmTopic,
    });
  }

  /**
   * Sends an event to the target when a run is published, at least once. `docs/consumers.md` and
   * `docs/schemas/completed.v1.schema.json` describe the event. If the target is in another stack, pass that stack as `scope`,
   * because it usually depends on this one and stacks must not depend on each other.
   *
   * @example exporter.onCompleted('Load', { export: 'nightly', target: new LambdaFunction(load) })
   * @throws ConfigurationError if the service has no such export
   */
  onCompleted(id: string, options: EventRuleOptions = {}): Rule {
    return this.#createRule(id, detailTypes.completed, options);
  }

  /**
   * Sends an event to the target when an execution has failed and its retries are exhausted, at least once.
   * `docs/schemas/failed.v1.schema.json` describes the event. Its `export` is null if the start input names no export, or if the
   * failure could not be recorded; then it matches only a rule for all exports. An execution that is stopped or times out sends
   * none: use alarms.
   *
   * @throws ConfigurationError if the service has no such export
   */
  onFailed(id: string, options: EventRuleOptions = {}): Rule {
    return this.#createRule(id, detailTypes.failed, options);
  }

  #createRule(id: string, detailType: EventRuleProps['detailType'], options: EventRuleOptions): Rule {
    const { export: exportName, target, scope = this.#rules() } = options;
    if (exportName !== undefined && !this.exportNames.includes(exportName)) {
      throw new ExportError(
        'ConfigurationError',
        `${this.node.path} has no export ${JSON.stringify(exportName)}. Its exports: ${listNames(this.exportNames)}`,
      );
    }
    const { serviceName, stateMachine } = this;
    return createEventRule(scope, id, { serviceName, stateMachine, detailType, exportName, target });
  }

  /** A separate scope, so that ids passed by the caller do not collide with those of this construct. */
  #rules(): Construct {
    return (this.node.tryFindChild('Rules') as Construct | undefined) ?? new Construct(this, 'Rules');
  }

  /** Services with common keys would overwrite each other's state, and operators find an export by its name alone. */
  #assertSeparate(own: Identity): void {
    const problems = this.node.root.node
      .findAll()
      .filter((each): each is ReportExporter => each instanceof ReportExporter && each !== this)
      .flatMap((other) => (other.#identity === undefined ? [] : findConflicts(own, other.#identity, other.node.path)))
      .map((problem) => `${this.node.path} ${problem}`);
    if (problems.length > 0) throw new ExportError('ConfigurationError', problems.join('; '));
  }
}

/** What distinguishes a service from others. */
interface Identity {
  readonly serviceName: string;
  readonly prefix: string;
  readonly exportNames: readonly string[];
  /** The names of the bucket and of the table. */
  readonly bucket: string;
  readonly table: string;
  readonly stack: Stack;
}

/** `path` is the path of the other construct. */
function findConflicts(own: Identity, other: Identity, path: string): string[] {
  const problems: string[] = [];
  if (own.serviceName === other.serviceName && own.table === other.table) {
    problems.push(`name: ${path} has the same name and table; set another name`);
  }
  const isWithin = own.prefix.startsWith(other.prefix) || other.prefix.startsWith(own.prefix);
  if (isWithin && own.bucket === other.bucket) {
    problems.push(
      `prefix: ${path} has the same bucket and the prefix ${JSON.stringify(other.prefix)}; ` +
        'set prefixes of which none begins with the other',
    );
  }
  if (own.stack === other.stack) {
    const names = [...other.exportNames, ...own.exportNames];
    for (const earlier of findSimilarNames(names)) {
      if (earlier === undefined) continue;
      problems.push(
        `exports: ${path} in the same stack has an export with a similar name, ${names[earlier]}; use another name`,
      );
    }
  }
  return problems;
}
