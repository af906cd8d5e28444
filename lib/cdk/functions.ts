/** The four Lambda functions of a service. Each has its own role, with the permissions of its step. */

import { Duration, Size, Stack } from 'aws-cdk-lib';
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
import { LogGroup, type LogGroupProps } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import type { ExportPageSettings } from '../settings/account-settings.ts';
import { type FunctionSettings, type FunctionVariable, stepVariables } from '../settings/environment.ts';
import { byStep, type StepName } from '../core/state-machine/definition.ts';
import { withFunctionCode } from './code/function-code.ts';
import { type FunctionLimits, finishRunEphemeralStorageMebibytes } from './function-limits.ts';
import { acknowledgeWildcard } from './nag-suppressions.ts';
import type { FunctionNetwork } from './network.ts';
import {
  grantNetworkInterfaces,
  grantPageLog,
  grantPageStore,
  grantReadSecrets,
  type ServiceStores,
} from './permissions.ts';

export type ServiceFunctions = Readonly<Record<StepName, LambdaFunction>>;

export interface ServiceFunctionsProps {
  readonly stores: ServiceStores;
  /** The field of the secret that contains the API key. Absent: the whole secret is the key. */
  readonly secretField?: string;
  /** The content of the settings file. */
  readonly settings: FunctionSettings;
  readonly limits: FunctionLimits;
  readonly logs: LogGroupProps;
  readonly exportPage?: ExportPageSettings;
  /** Whether the functions send traces to X-Ray. */
  readonly tracing: boolean;
  readonly network: FunctionNetwork;
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
  readonly reservedConcurrency?: number;
  readonly grants: readonly ((role: Role, stores: ServiceStores) => void)[];
}

function functionConfigs({
  stores: { serviceName },
  limits,
  exportPage,
}: ServiceFunctionsProps): Readonly<Record<StepName, FunctionConfig>> {
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
      memoryMebibytes: exportPage?.memoryMebibytes ?? 512,
      reservedConcurrency: exportPage?.reservedConcurrency,
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
  { description, memoryMebibytes, ephemeralStorageMebibytes, reservedConcurrency, grants }: FunctionConfig,
  code: Code,
  props: ServiceFunctionsProps,
): LambdaFunction {
  const { stores, settings, limits, logs, tracing, network } = props;
  // Own log group and role: AWSLambdaBasicExecutionRole would allow writing to every log group of the account.
  const logGroup = new LogGroup(scope, `${id}Logs`, logs);
  const role = new Role(scope, `${id}Role`, { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  logGroup.grantWrite(role);
  for (const grant of grants) grant(role, stores);
  const isInVpc = network.vpc !== undefined;
  if (isInVpc) grantNetworkInterfaces(role, network);
  if (tracing || isInVpc)
    acknowledgeWildcard(role, '*', 'X-Ray and the Describe actions of EC2 do not support resource-level permissions');
  const variables = environmentOf(scope, props);
  return new LambdaFunction(scope, id, {
    description,
    code,
    handler: 'index.handler',
    runtime: Runtime.NODEJS_24_X,
    architecture: Architecture.ARM_64,
    memorySize: memoryMebibytes,
    timeout: Duration.seconds(limits.timeoutSeconds[id]),
    ephemeralStorageSize:
      ephemeralStorageMebibytes === undefined ? undefined : Size.mebibytes(ephemeralStorageMebibytes),
    reservedConcurrentExecutions: reservedConcurrency,
    environment: Object.fromEntries(stepVariables[id].map((variable) => [variable, variables[variable]])),
    tracing: tracing ? Tracing.ACTIVE : undefined,
    loggingFormat: LoggingFormat.JSON,
    // Only Lambda's own lines: a filter of application logs would also drop the metrics, which are log lines.
    systemLogLevelV2: settings.logLevel === 'ERROR' ? SystemLogLevel.WARN : undefined,
    logGroup,
    role,
    ...network,
    securityGroups: [...(network.securityGroups ?? [])],
  });
}

/** Each function gets the variables that it reads. */
function environmentOf(
  scope: Construct,
  { stores: { serviceName, bucket, prefix, table, secret, keys }, secretField = '' }: ServiceFunctionsProps,
): Readonly<Record<FunctionVariable, string>> {
  return {
    DEPLOYMENT_NAME: Stack.of(scope).stackName,
    SERVICE_NAME: serviceName,
    TABLE_NAME: table.tableName,
    BUCKET_NAME: bucket.bucketName,
    KEY_PREFIX: prefix,
    BUCKET_KMS_KEY_ARN: keys.bucket?.keyArn ?? '',
    // The name if the complete ARN is unknown: a partial ARN may match another secret.
    API_KEY_SECRET_ID: secret?.secretFullArn ?? secret?.secretName ?? '',
    API_KEY_SECRET_FIELD: secretField,
  };
}
