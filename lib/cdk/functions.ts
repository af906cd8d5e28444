/**
 * The four functions of an export, each with a role of its own that holds what its step needs and nothing else.
 */

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
import { type FunctionLimits, finishRunTemporaryMebibytes } from './function-limits.ts';
import { acknowledgeWildcard } from './nag-suppressions.ts';
import type { Grant, Grants } from './permissions.ts';

export type ExportFunctions = Readonly<Record<StepName, NodejsFunction>>;

export interface ExportFunctionsProps {
  readonly exportName: string;
  readonly environment: Readonly<Record<FunctionVariable, string>>;
  readonly grants: Grants;
  readonly limits: FunctionLimits;
  readonly logRetention: RetentionDays;
}

interface Recipe {
  readonly entry: string;
  readonly description: string;
  readonly memoryMebibytes: number;
  readonly temporaryMebibytes?: number;
  readonly grants: readonly Grant[];
}

function recipes({ exportName, grants, limits }: ExportFunctionsProps): Readonly<Record<StepName, Recipe>> {
  return {
    BeginRun: {
      entry: 'begin-run.ts',
      description: `Decides what an execution of export ${exportName} is for`,
      memoryMebibytes: 256,
      // That it may also ask whether another execution lives is added beside the state machine, which comes after it.
      grants: [grants.pageLog],
    },
    ExportPage: {
      entry: 'export-page.ts',
      description: `Fetches, stores and logs pages of export ${exportName}`,
      // Waits for the service most of its time; memory brings the processor that checks the XML.
      memoryMebibytes: 512,
      temporaryMebibytes: limits.temporaryMebibytes,
      grants: [grants.pageLog, grants.pageStore, grants.apiKey],
    },
    FinishRun: {
      entry: 'finish-run.ts',
      description: `Publishes a finished run of export ${exportName}`,
      // A whole processor: it reads the log and the listing of a million pages within its fifteen minutes.
      memoryMebibytes: 1_769,
      temporaryMebibytes: finishRunTemporaryMebibytes,
      grants: [grants.pageLog, grants.pageStore],
    },
    FailRun: {
      entry: 'fail-run.ts',
      description: `Records why a run of export ${exportName} failed`,
      memoryMebibytes: 256,
      grants: [grants.pageLog],
    },
  };
}

export function exportFunctions(scope: Construct, props: ExportFunctionsProps): ExportFunctions {
  const recipe = recipes(props);
  return byStep((step) => exportFunction(scope, step, recipe[step], props));
}

const root = join(import.meta.dirname, '../..');

function exportFunction(scope: Construct, id: StepName, recipe: Recipe, props: ExportFunctionsProps): NodejsFunction {
  // Its own group and role: the managed policy would let it write to every log group of the account.
  const logGroup = new LogGroup(scope, `${id}Logs`, {
    retention: props.logRetention,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  const role = new Role(scope, `${id}Role`, { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  logGroup.grantWrite(role);
  for (const grant of recipe.grants) grant(role);
  acknowledgeWildcard(role, '*', 'X-Ray takes trace segments for no resource in particular');
  const { alias, ...options } = bundling;
  return new NodejsFunction(scope, id, {
    description: recipe.description,
    entry: join(root, 'functions', recipe.entry),
    projectRoot: root,
    depsLockFilePath: join(root, 'package-lock.json'),
    bundling: {
      ...options,
      format: OutputFormat.CJS,
      mainFields: [...options.mainFields],
      // CDK has no word of its own for it.
      esbuildArgs: Object.fromEntries(Object.entries(alias).map(([name, path]) => [`--alias:${name}`, path])),
      bundleAwsSDK: true,
      logLevel: LogLevel.WARNING,
      // Under `npm exec -c` the npx that CDK calls would find the outer command in its environment, and trip over it.
      environment: { npm_config_call: '' },
    },
    runtime: Runtime.NODEJS_24_X,
    architecture: Architecture.ARM_64,
    memorySize: recipe.memoryMebibytes,
    timeout: Duration.seconds(props.limits.seconds[id]),
    ...(recipe.temporaryMebibytes === undefined
      ? {}
      : { ephemeralStorageSize: Size.mebibytes(recipe.temporaryMebibytes) }),
    environment: Object.fromEntries(stepVariables[id].map((variable) => [variable, props.environment[variable]])),
    // A variable for version 2 of the SDK.
    awsSdkConnectionReuse: false,
    tracing: Tracing.ACTIVE,
    loggingFormat: LoggingFormat.JSON,
    logGroup,
    role,
  });
}
