/**
 * The four Lambda functions of a service. Each has its own role, with the permissions of its step. In a VPC all four share their
 * subnets and security groups: all read or write the bucket or the table, so what the network controls must hold for each.
 */

import { Duration, RemovalPolicy, Size } from 'aws-cdk-lib';
import {
  type ISecurityGroup,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
  type SelectedSubnets,
  type SubnetSelection,
} from 'aws-cdk-lib/aws-ec2';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  Architecture,
  type Code,
  Function as LambdaFunction,
  LoggingFormat,
  Runtime,
  SystemLogLevel,
  Tracing,
} from 'aws-cdk-lib/aws-lambda';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import type { ExportPageSettings } from '../settings/account-settings.ts';
import { type FunctionSettingsInput, type FunctionVariable, stepVariables } from '../settings/environment.ts';
import { byStep, type StepName } from '../core/state-machine/definition.ts';
import { withFunctionCode } from './code/function-code.ts';
import { type FunctionLimits, finishRunEphemeralStorageMebibytes } from './function-limits.ts';
import { acknowledgeWildcard } from './nag-suppressions.ts';
import { type AddPermissions, grantNetworkInterfaces, type Permissions } from './permissions.ts';

export type ServiceFunctions = Readonly<Record<StepName, LambdaFunction>>;

export interface ServiceFunctionsProps {
  readonly serviceName: string;
  /** The content of the settings file. */
  readonly settings: FunctionSettingsInput;
  /** Each function gets the variables that it reads. */
  readonly environment: Readonly<Record<FunctionVariable, string>>;
  readonly permissions: Permissions;
  readonly limits: FunctionLimits;
  readonly logRetention: RetentionDays;
  /** Undefined: CloudWatch Logs encrypts them with a key of its own. */
  readonly logKey: IKey | undefined;
  readonly exportPage: ExportPageSettings;
  /** Whether the functions send traces to X-Ray. */
  readonly tracing: boolean;
  /** Absent: the functions run in no VPC. */
  readonly network: FunctionNetwork | undefined;
}

/** The part of a VPC that the functions run in. */
export interface FunctionNetwork {
  readonly vpc: IVpc;
  readonly subnets: SelectedSubnets;
  readonly securityGroups: readonly ISecurityGroup[];
}

export interface FunctionNetworkProps {
  readonly serviceName: string;
  /** Where the functions connect to: the service and its token endpoint, or a proxy. */
  readonly targets: readonly URL[];
  readonly vpc: IVpc;
  /** Absent: the private subnets. */
  readonly vpcSubnets: SubnetSelection | undefined;
  /** Absent: a security group is created. */
  readonly securityGroups: readonly ISecurityGroup[] | undefined;
}

export function createFunctionNetwork(scope: Construct, props: FunctionNetworkProps): FunctionNetwork {
  const { vpc, vpcSubnets, securityGroups = [createSecurityGroup(scope, props)] } = props;
  return { vpc, subnets: vpc.selectSubnets(vpcSubnets), securityGroups };
}

/** Allows requests to the service and to AWS, and nothing else. */
function createSecurityGroup(scope: Construct, { serviceName, targets, vpc }: FunctionNetworkProps): SecurityGroup {
  const group = new SecurityGroup(scope, 'SecurityGroup', {
    vpc,
    description: `Functions of Report Exporter, service ${serviceName}`,
    allowAllOutbound: false,
  });
  const httpsPort = 443;
  const ports = targets.map(({ port, protocol }) => Number(port) || (protocol === 'http:' ? 80 : httpsPort));
  for (const port of new Set([httpsPort, ...ports])) {
    group.addEgressRule(Peer.anyIpv4(), Port.tcp(port), 'The service and AWS');
  }
  return group;
}

export function createFunctions(scope: Construct, props: ServiceFunctionsProps): ServiceFunctions {
  const configs = functionConfigs(props);
  return withFunctionCode(scope, props.settings, (code) =>
    byStep((step) => createFunction(scope, step, configs[step], code(step), props)),
  );
}

interface FunctionConfig {
  readonly description: string;
  readonly memoryMebibytes: number;
  readonly ephemeralStorageMebibytes?: number;
  readonly reservedConcurrency?: number | undefined;
  readonly grants: readonly AddPermissions[];
}

function functionConfigs(props: ServiceFunctionsProps): Readonly<Record<StepName, FunctionConfig>> {
  const { serviceName, permissions, limits, exportPage } = props;
  const { grantPageLog, grantPageStore, grantReadSecrets } = permissions;
  return {
    BeginRun: {
      description: `Begins or resumes runs of service ${serviceName}, or skips executions`,
      memoryMebibytes: 256,
      // DescribeExecution is granted with the state machine, which is created after the functions.
      grants: [grantPageLog],
    },
    ExportPage: {
      description: `Fetches, stores and logs pages of service ${serviceName}`,
      // Lambda allocates CPU in proportion to memory. The function mostly waits for the service, and parses the XML meanwhile.
      memoryMebibytes: exportPage.memoryMebibytes ?? 512,
      reservedConcurrency: exportPage.reservedConcurrency,
      ephemeralStorageMebibytes: limits.ephemeralStorageMebibytes,
      grants: [grantPageLog, grantPageStore, grantReadSecrets],
    },
    FinishRun: {
      description: `Publishes the manifests of runs of service ${serviceName}`,
      // One full vCPU: it reads the log entries and the object listing of a million pages within 15 minutes.
      memoryMebibytes: 1_769,
      ephemeralStorageMebibytes: finishRunEphemeralStorageMebibytes,
      grants: [grantPageLog, grantPageStore],
    },
    FailRun: {
      description: `Records why runs of service ${serviceName} failed`,
      memoryMebibytes: 256,
      grants: [grantPageLog],
    },
  };
}

function createFunction(
  scope: Construct,
  id: StepName,
  config: FunctionConfig,
  code: Code,
  props: ServiceFunctionsProps,
): LambdaFunction {
  // Own log group and role: AWSLambdaBasicExecutionRole would allow writing to every log group of the account.
  const logGroup = new LogGroup(scope, `${id}Logs`, {
    retention: props.logRetention,
    ...(props.logKey !== undefined && { encryptionKey: props.logKey }),
    removalPolicy: RemovalPolicy.DESTROY,
  });
  const role = new Role(scope, `${id}Role`, { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  logGroup.grantWrite(role);
  for (const grant of config.grants) grant(role);
  const { network, settings, tracing } = props;
  if (network !== undefined) grantNetworkInterfaces(role, network.subnets.subnets, network.securityGroups);
  if (tracing || network !== undefined)
    acknowledgeWildcard(role, '*', 'X-Ray and the Describe actions of EC2 do not support resource-level permissions');
  return new LambdaFunction(scope, id, {
    description: config.description,
    code,
    handler: 'index.handler',
    runtime: Runtime.NODEJS_24_X,
    architecture: Architecture.ARM_64,
    memorySize: config.memoryMebibytes,
    timeout: Duration.seconds(props.limits.timeoutSeconds[id]),
    ...(config.ephemeralStorageMebibytes === undefined
      ? {}
      : { ephemeralStorageSize: Size.mebibytes(config.ephemeralStorageMebibytes) }),
    ...(config.reservedConcurrency === undefined ? {} : { reservedConcurrentExecutions: config.reservedConcurrency }),
    environment: Object.fromEntries(stepVariables[id].map((variable) => [variable, props.environment[variable]])),
    ...(tracing ? { tracing: Tracing.ACTIVE } : {}),
    loggingFormat: LoggingFormat.JSON,
    // Only Lambda's own lines: a filter of application logs would also drop the metrics, which are log lines.
    ...(settings.logLevel === 'ERROR' ? { systemLogLevelV2: SystemLogLevel.WARN } : {}),
    logGroup,
    role,
    ...(network === undefined
      ? {}
      : {
          vpc: network.vpc,
          vpcSubnets: { subnets: network.subnets.subnets },
          securityGroups: [...network.securityGroups],
        }),
  });
}
