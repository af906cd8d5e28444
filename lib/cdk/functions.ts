/** The four Lambda functions of an export. Each has its own role, with the permissions of its step. */

import { join } from 'node:path';
import { Duration, RemovalPolicy, Size } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, LoggingFormat, Runtime, Tracing } from 'aws-cdk-lib/aws-lambda';
import { LogLevel, NodejsFunction, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { type FunctionVariable, stepVariables } from '../core/settings/environment.ts';
import { byStep, type StepName } from '../core/state-machine/definition.ts';
import { bundling } from './bundling.ts';
import { type FunctionLimits, finishRunEphemeralStorageMebibytes } from './function-limits.ts';
import { acknowledgeWildcard } from './nag-suppressions.ts';
import type { Grant, Permissions } from './permissions.ts';

export type ExportFunctions = Readonly<Record<StepName, NodejsFunction>>;

export interface ExportFunctionsProps {
  readonly exportName: string;
  /** Each function gets the variables that it reads. */
  readonly environment: Readonly<Record<FunctionVariable, string>>;
  readonly permissions: Permissions;
  readonly limits: FunctionLimits;
  readonly logRetention: RetentionDays;
}

export function createFunctions(scope: Construct, props: ExportFunctionsProps): ExportFunctions {
  const configs = functionConfigs(props);
  return byStep((step) => createFunction(scope, step, configs[step], props));
}

interface FunctionConfig {
  readonly entry: string;
  readonly description: string;
  readonly memoryMebibytes: number;
  readonly ephemeralStorageMebibytes?: number;
  readonly grants: readonly Grant[];
}

function functionConfigs(props: ExportFunctionsProps): Readonly<Record<StepName, FunctionConfig>> {
  const { exportName, permissions, limits } = props;
  const { grantPageLog, grantPageStore, grantReadApiKey } = permissions;
  return {
    BeginRun: {
      entry: 'begin-run.ts',
      description: `Begins or resumes a run of export ${exportName}, or skips the execution`,
      memoryMebibytes: 256,
      // DescribeExecution is granted with the state machine, which is created after the functions.
      grants: [grantPageLog],
    },
    ExportPage: {
      entry: 'export-page.ts',
      description: `Fetches, stores and logs pages of export ${exportName}`,
      // Lambda allocates CPU in proportion to memory. The function mostly waits for the service, and parses the XML meanwhile.
      memoryMebibytes: 512,
      ephemeralStorageMebibytes: limits.ephemeralStorageMebibytes,
      grants: [grantPageLog, grantPageStore, grantReadApiKey],
    },
    FinishRun: {
      entry: 'finish-run.ts',
      description: `Publishes the manifest of a run of export ${exportName}`,
      // One full vCPU: it reads the log entries and the object listing of a million pages within 15 minutes.
      memoryMebibytes: 1_769,
      ephemeralStorageMebibytes: finishRunEphemeralStorageMebibytes,
      grants: [grantPageLog, grantPageStore],
    },
    FailRun: {
      entry: 'fail-run.ts',
      description: `Records why a run of export ${exportName} failed`,
      memoryMebibytes: 256,
      grants: [grantPageLog],
    },
  };
}

const root = join(import.meta.dirname, '../..');

function createFunction(
  scope: Construct,
  id: StepName,
  config: FunctionConfig,
  props: ExportFunctionsProps,
): NodejsFunction {
  // Own log group and role: AWSLambdaBasicExecutionRole would allow writing to every log group of the account.
  const logGroup = new LogGroup(scope, `${id}Logs`, {
    retention: props.logRetention,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  const role = new Role(scope, `${id}Role`, { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  logGroup.grantWrite(role);
  for (const grant of config.grants) grant(role);
  acknowledgeWildcard(role, '*', 'X-Ray does not support resource-level permissions for trace segments');
  const { alias, ...options } = bundling;
  return new NodejsFunction(scope, id, {
    description: config.description,
    entry: join(root, 'functions', config.entry),
    projectRoot: root,
    depsLockFilePath: join(root, 'package-lock.json'),
    bundling: {
      ...options,
      format: OutputFormat.CJS,
      mainFields: [...options.mainFields],
      // CDK has no option for aliases.
      esbuildArgs: Object.fromEntries(Object.entries(alias).map(([name, path]) => [`--alias:${name}`, path])),
      bundleAwsSDK: true,
      logLevel: LogLevel.WARNING,
      // Under `npm exec -c`, the npx that CDK runs would read the outer command from this variable and fail.
      environment: { npm_config_call: '' },
    },
    runtime: Runtime.NODEJS_24_X,
    architecture: Architecture.ARM_64,
    memorySize: config.memoryMebibytes,
    timeout: Duration.seconds(props.limits.timeoutSeconds[id]),
    ...(config.ephemeralStorageMebibytes === undefined
      ? {}
      : { ephemeralStorageSize: Size.mebibytes(config.ephemeralStorageMebibytes) }),
    environment: Object.fromEntries(stepVariables[id].map((variable) => [variable, props.environment[variable]])),
    // Sets a variable that only version 2 of the SDK reads.
    awsSdkConnectionReuse: false,
    tracing: Tracing.ACTIVE,
    loggingFormat: LoggingFormat.JSON,
    logGroup,
    role,
  });
}
