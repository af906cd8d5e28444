/** The four Lambda functions of a service. Each has its own role, with the permissions of its step. */

import { Duration, Size } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, type Code, Function as LambdaFunction, LoggingFormat, Runtime } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, type LogGroupProps } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { environmentVariable, type FunctionSettings } from '../settings/deployed-settings.ts';
import { byStep, type StepName } from '../core/state-machine/definition.ts';
import { withFunctionCode } from './code/function-code.ts';
import { type FunctionLimits, finishRunEphemeralStorageMebibytes } from './function-limits.ts';
import type { FunctionNetwork } from './network.ts';
import { grantNetworkInterfaces, grantPageLog, grantPageStore, grantSecrets } from './permissions.ts';
import type { ServiceStores } from './stores.ts';

export type ServiceFunctions = Readonly<Record<StepName, LambdaFunction>>;

export interface ServiceFunctionsProps {
  readonly stores: ServiceStores;
  /** The names of the stores, as JSON. */
  readonly environment: string;
  readonly settings: FunctionSettings;
  readonly limits: FunctionLimits;
  readonly logs: LogGroupProps;
  readonly memoryMebibytes: number;
  readonly network: FunctionNetwork;
}

export function createFunctions(scope: Construct, props: ServiceFunctionsProps): ServiceFunctions {
  const configs = functionConfigs(props);
  return withFunctionCode(scope, props.settings, (code) =>
    byStep((step) => createFunction(scope, step, { ...configs[step], code: code(step) }, props)),
  );
}

interface FunctionConfig {
  readonly description: string;
  readonly memoryMebibytes: number;
  readonly ephemeralStorageMebibytes?: number;
  readonly grants: readonly ((role: Role, stores: ServiceStores) => void)[];
}

function functionConfigs({
  stores: { serviceName },
  limits,
  memoryMebibytes,
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
      memoryMebibytes,
      ephemeralStorageMebibytes: limits.ephemeralStorageMebibytes,
      grants: [grantPageLog, grantPageStore, grantSecrets],
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
  { description, code, memoryMebibytes, ephemeralStorageMebibytes, grants }: FunctionConfig & { readonly code: Code },
  { stores, environment, limits, logs, network }: ServiceFunctionsProps,
): LambdaFunction {
  // Own log group and role: AWSLambdaBasicExecutionRole would allow writing to every log group of the account.
  const logGroup = new LogGroup(scope, `${id}Logs`, logs);
  const role = new Role(scope, `${id}Role`, { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  logGroup.grantWrite(role);
  for (const grant of grants) grant(role, stores);
  if (network.vpc !== undefined) grantNetworkInterfaces(role, network);
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
    environment: { [environmentVariable]: environment },
    loggingFormat: LoggingFormat.JSON,
    logGroup,
    role,
    ...network,
    securityGroups: [...(network.securityGroups ?? [])],
  });
}
