/** The construct for one service and its exports. */

import { ArnFormat, Stack } from 'aws-cdk-lib';
import { Alarm, Metric, type MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { type IRuleTarget, Match, Rule } from 'aws-cdk-lib/aws-events';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Schedule, ScheduleGroup } from 'aws-cdk-lib/aws-scheduler';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { ExportError } from '../core/errors.ts';
import {
  exportDimensions,
  type MetricName,
  metricNamespace,
  serviceDimensions,
  serviceMetric,
} from '../core/metrics.ts';
import { listNames } from '../core/sanitize.ts';
import { detailTypes, eventSource } from '../core/state-machine/definition.ts';
import { functionSettings, serviceMetadata } from '../settings/deployed-settings.ts';
import { findSimilarNames } from '../settings/deployment-settings.ts';
import type { ExportProps, ServiceProps } from '../settings/props.ts';
import { createServiceAlarms } from './alarms.ts';
import { functionLimits } from './function-limits.ts';
import { createFunctions, type ServiceFunctions } from './functions.ts';
import { functionNetwork } from './network.ts';
import { createServiceOutput, functionEnvironment, serviceResources } from './outputs.ts';
import { grantReadObjects } from './permissions.ts';
import { createSchedules, createSchedulesLast } from './schedule.ts';
import { parseExporterSettings } from './settings/exporter-settings.ts';
import { createStateMachine } from './state-machine.ts';
import { createStores, logSettings } from './stores.ts';

/** The properties of a `ReportExporter`. Only `service` and `exports` are required. */
export interface ReportExporterProps {
  /** The service: its address and its limits, as in the settings file. `docs/settings.md` has every field. */
  readonly service: ServiceProps;
  /** Its exports and their schedules. Their names are unique in the stack. `docs/settings.md` has every field. */
  readonly exports: readonly ExportProps[];
  /**
   * The name of the service, in its part of the table, its metrics and the descriptions of its alarms: 1 to 30
   * lower-case letters, digits and hyphens. It is unique in the stack and in the table. If you change it, the exports
   * begin from the start.
   *
   * @default - derived from the path of the construct in the stack: `Reports` becomes `reports`
   */
  readonly name?: string;
  /**
   * The bucket for pages and manifests. If it knows its customer managed key, every object is written with that key.
   *
   * @default - a private, versioned bucket is created, and retained when the stack is deleted
   */
  readonly bucket?: IBucket;
  /**
   * The prefix of all keys in the bucket: empty, or ending with a slash. Services that share a bucket need prefixes of
   * which none begins with another.
   *
   * @default - none
   */
  readonly prefix?: string;
  /**
   * The table of the page log. It has the string keys `pk` and `sk`, and the time-to-live attribute `expiresAt`.
   *
   * @default - a table with on-demand capacity is created, and retained when the stack is deleted
   */
  readonly table?: ITable;
  /**
   * The secret with the API key of the service, or with what else `service.api.auth` needs.
   *
   * @default - the secret in `service.apiKeySecret`, otherwise an empty one is created, and retained when the stack is
   *   deleted. Set its value before the first run
   */
  readonly secret?: ISecret;
  /**
   * A customer managed key. It encrypts what this construct creates: the bucket, the table, the secret, the dead-letter
   * queue and, if this app creates the key, the log groups. It also is the key of a store that is given without knowing
   * its own, and of the secrets with the client certificate and with the credentials for the proxy.
   *
   * @default - keys that AWS owns or manages
   */
  readonly encryptionKey?: IKey;
  /**
   * The topic that alarms publish to.
   *
   * @default - alarms have no action
   */
  readonly alarmTopic?: ITopic;
  /**
   * The address at which operators read docs/runbook.md. The description of each alarm contains it.
   *
   * @default - the descriptions name the file in the package
   */
  readonly runbookUrl?: string;
  /**
   * How long all logs are kept.
   *
   * @default RetentionDays.THREE_MONTHS
   */
  readonly logRetention?: RetentionDays;
  /**
   * How pages are compressed in the bucket, from the next run of each export on. With `gzip`, each page is a gzip file
   * of its own: docs/consumers.md, "Compressed pages".
   *
   * @default - pages are stored as the service sends them
   */
  readonly compression?: 'gzip';
  /**
   * The VPC in which all four functions run. They must reach the service, and S3, DynamoDB, Secrets Manager and Step
   * Functions, through a NAT gateway or VPC endpoints: docs/aws.md, "What the functions must reach".
   *
   * @default - the functions run in no VPC
   */
  readonly vpc?: IVpc;
  /**
   * The subnets of the functions. Requires `vpc`.
   *
   * @default - the private subnets of the VPC
   */
  readonly vpcSubnets?: SubnetSelection;
  /**
   * The security groups of the functions. Requires `vpc`.
   *
   * @default - one is created. It allows outgoing connections to port 443 and to the port of the service
   */
  readonly securityGroups?: readonly ISecurityGroup[];
}

/** Options of the rules for the events of a service. */
export interface EventRuleOptions {
  /**
   * The name of an export.
   *
   * @default - all exports of the service
   */
  readonly export?: string;
  /**
   * What receives the events.
   *
   * @default - add a target to the rule later
   */
  readonly target?: IRuleTarget;
  /**
   * Where the rule is created.
   *
   * @default - in this construct
   */
  readonly scope?: Construct;
}

/**
 * Exports the reports of one service to S3: a state machine, four functions and their alarms, and for each export a
 * schedule and alarms of its own.
 *
 * @example
 * const reports = new ReportExporter(this, 'Reports', {
 *   service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
 *   exports: [{ name: 'nightly', schedule: { expression: 'cron(0 2 * * ? *)', freshness: 'PT26H' } }],
 * });
 */
export class ReportExporter extends Construct {
  /** The name of the service. */
  readonly serviceName: string;
  /** The names of the exports, in the order of the props. */
  readonly exportNames: readonly string[];
  /** The bucket for pages and manifests. */
  readonly bucket: IBucket;
  /** The prefix of all keys of the service in the bucket: empty, or ending with a slash. */
  readonly prefix: string;
  /** The table of the page log. */
  readonly table: ITable;
  /** The secret with the API key of the service. Undefined: `service.api.auth` is `none`. */
  readonly secret: ISecret | undefined;
  /** The functions, by the step that invokes them: `BeginRun`, `ExportPage`, `FinishRun` and `FailRun`. */
  readonly functions: ServiceFunctions;
  /** The state machine. Its start input names the export: `{"export": "nightly"}`. */
  readonly stateMachine: StateMachine;
  /** The schedules, by export. Exports without one are started manually. */
  readonly schedules: ReadonlyMap<string, Schedule>;
  /** Contains the schedules, each under the name of its export. Undefined: no export has a schedule. */
  readonly scheduleGroup: ScheduleGroup | undefined;
  /** Receives the starts that the schedules could not deliver. Undefined: no export has a schedule. */
  readonly deadLetterQueue: Queue | undefined;
  readonly #bucketKey: IKey | undefined;

  /** @throws ConfigurationError with a line for every problem in the settings */
  constructor(scope: Construct, id: string, props: ReportExporterProps) {
    super(scope, id);
    const named = { name: defaultName(this), path: this.node.path };
    const {
      service: settings,
      bucket: { compression },
    } = parseExporterSettings(props, named);
    const { name, prefix, service, exports } = settings;
    const exportNames = exports.map((each) => each.name);
    assertDistinctNames(this, name, exportNames);
    this.serviceName = name;
    this.exportNames = exportNames;
    this.prefix = prefix;

    const stores = createStores(this, props, settings);
    this.bucket = stores.bucket;
    this.table = stores.table;
    this.secret = stores.secret;
    this.#bucketKey = stores.keys.bucket;

    const resources = serviceResources(stores);
    const common = { limits: functionLimits(settings), logs: logSettings(this, props) };
    this.functions = createFunctions(this, {
      ...common,
      stores,
      environment: functionEnvironment(this, resources),
      settings: functionSettings(settings, compression),
      memoryMebibytes: service.memoryMebibytes,
      network: functionNetwork(this, props, name, service),
    });
    const { functions, bucket } = this;
    const metadata = serviceMetadata(settings);
    this.stateMachine = createStateMachine(this, {
      ...common,
      functions,
      bucket,
      prefix,
      metadata,
    });

    const exportScopes = new Construct(this, 'Exports');
    const scoped = exports.map((each) => ({ ...each, scope: new Construct(exportScopes, each.name) }));
    const schedules = createSchedules(this, this.stateMachine, scoped, props.encryptionKey);
    this.schedules = schedules?.byExport ?? new Map();
    this.scheduleGroup = schedules?.group;
    this.deadLetterQueue = schedules?.deadLetterQueue;

    createServiceAlarms(this, scoped, { topic: props.alarmTopic, runbookUrl: props.runbookUrl });
    createServiceOutput(this, resources);
    if (this.scheduleGroup !== undefined) createSchedulesLast(this.scheduleGroup, this);
  }

  /** The alarms of the service and its exports: for an action or a composite alarm. */
  get alarms(): readonly Alarm[] {
    return this.node.findAll().filter((each) => each instanceof Alarm);
  }

  /**
   * Grant permission to read what was exported: `s3:GetObject` on the objects, `s3:ListBucket` on their folders and,
   * with a customer managed key, `kms:Decrypt` through S3. docs/consumers.md, "Permissions", has the same policy. A
   * principal in another account gets it from the policy of the bucket, if this app created the bucket.
   *
   * @param grantee The principal to grant to
   * @param exportName The name of an export. Default: all exports of the service
   * @throws ConfigurationError if the service has no such export
   */
  grantRead(grantee: IGrantable, exportName?: string): Grant {
    this.#assertExport(exportName);
    const { bucket } = this;
    const prefix = exportName === undefined ? this.prefix : `${this.prefix}${exportName}/`;
    return grantReadObjects(grantee, bucket, prefix, this.#bucketKey);
  }

  /**
   * Return the given named metric, in the namespace `ReportExporter`. docs/api.md, "Metrics", describes each. Without
   * `exportName`, it is that of the service (`WaitSeconds`), or of the only export.
   *
   * @param name The name of the metric
   * @param exportName The name of an export
   * @param props Properties of the metric. Default: the sum over 5 minutes; for `ServiceLatency`, the average
   * @throws ConfigurationError if there is no such metric: of an export that the service does not have, or of the whole
   *   service
   */
  metric(name: MetricName, exportName?: string, props?: MetricOptions): Metric {
    this.#assertExport(exportName);
    const { serviceName, exportNames } = this;
    const [first = '', ...others] = exportNames;
    const isOfService = exportName === undefined && name === serviceMetric;
    if (!isOfService && exportName === undefined && others.length > 0) {
      this.#reject(`has no metric ${name} of all exports: pass the name of an export. ${this.#listExports()}`);
    }
    const { stackName } = Stack.of(this);
    return new Metric({
      namespace: metricNamespace,
      metricName: name,
      dimensionsMap: isOfService
        ? serviceDimensions(stackName, serviceName)
        : exportDimensions(stackName, exportName ?? first),
      statistic: name === 'ServiceLatency' ? 'Average' : 'Sum',
      ...props,
    }).attachTo(this);
  }

  /**
   * Sends an event to the target when a run is published, at least once. `docs/consumers.md` and
   * `docs/schemas/completed.v1.schema.json` describe the event. If the target is in another stack, pass that stack as
   * `scope`, because it usually depends on this one and stacks must not depend on each other.
   *
   * @example reports.onCompleted('Load', { export: 'nightly', target: new LambdaFunction(load) })
   * @param id The ID of the rule
   * @param options Which export, the target, and the scope of the rule
   * @throws ConfigurationError if the service has no such export
   */
  onCompleted(id: string, options: EventRuleOptions = {}): Rule {
    return this.#createRule(id, detailTypes.completed, options);
  }

  /**
   * Sends an event to the target when an execution has failed and its retries are exhausted, at least once.
   * `docs/schemas/failed.v1.schema.json` describes the event. Its `export` is null if the start input names no export,
   * or if the failure could not be recorded; then it matches only a rule for all exports. An execution that is stopped
   * or times out sends none: use alarms.
   *
   * @param id The ID of the rule
   * @param options Which export, the target, and the scope of the rule
   * @throws ConfigurationError if the service has no such export
   */
  onFailed(id: string, options: EventRuleOptions = {}): Rule {
    return this.#createRule(id, detailTypes.failed, options);
  }

  #createRule(id: string, detailType: string, options: EventRuleOptions): Rule {
    const { export: exportName, target, scope = this.#rules() } = options;
    this.#assertExport(exportName);
    const { stateMachine, serviceName } = this;
    // Export names are not unique in an account, but the prefix of the ARN of every execution of this state machine is.
    const executions = stateMachine.stack.formatArn({
      service: 'states',
      resource: 'execution',
      resourceName: `${stateMachine.stateMachineName}:`,
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    });
    return new Rule(scope, id, {
      description: `${detailType}: ${exportName ?? `all exports of service ${serviceName}`}`,
      eventPattern: {
        source: [eventSource],
        detailType: [detailType],
        detail: {
          execution: Match.prefix(executions),
          ...(exportName !== undefined && { export: [exportName] }),
        },
      },
      targets: target && [target],
    });
  }

  /** A separate scope, so that ids passed by the caller do not collide with those of this construct. */
  #rules(): Construct {
    return (this.node.tryFindChild('Rules') as Construct | undefined) ?? new Construct(this, 'Rules');
  }

  #assertExport(exportName: string | undefined): void {
    if (exportName === undefined || this.exportNames.includes(exportName)) return;
    this.#reject(`has no export ${JSON.stringify(exportName)}. ${this.#listExports()}`);
  }

  #listExports(): string {
    return `Its exports: ${listNames(this.exportNames)}`;
  }

  #reject(problem: string): never {
    throw new ExportError('ConfigurationError', `${this.node.path} ${problem}`);
  }
}

/** `data-eureports` of the construct `Data/EuReports` in its stack. */
function defaultName({ node }: Construct): string {
  const ids = node.scopes.map((scope) => scope.node.id);
  const stack = node.scopes.findLastIndex((scope) => Stack.isStack(scope));
  const name = ids
    .slice(stack + 1)
    .join('-')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[0-9-]+|-+$/g, '');
  return name === '' ? 'default' : name;
}

/** The commands of the stack find a service and an export only by name. @throws ConfigurationError */
function assertDistinctNames(own: ReportExporter, serviceName: string, exportNames: readonly string[]): void {
  const { path } = own.node;
  const problems: string[] = [];
  for (const other of Stack.of(own).node.findAll()) {
    if (!(other instanceof ReportExporter) || other === own) continue;
    if (other.serviceName === serviceName) {
      problems.push(`${path} name: ${other.node.path} in the same stack has the same name; set another name`);
    }
    // A construct that was rejected has no names.
    const names = [...(other.exportNames ?? []), ...exportNames];
    for (const index of findSimilarNames(names)) {
      if (index === undefined) continue;
      const earlier = `${other.node.path} in the same stack has an export with a similar name, ${names[index]}`;
      problems.push(`${path} exports: ${earlier}; use another name`);
    }
  }
  if (problems.length > 0) throw new ExportError('ConfigurationError', problems.join('\n'));
}
