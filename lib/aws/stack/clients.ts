/**
 * The SDK clients for an operator at a terminal. The SDK finds profile, region and endpoints by itself. What does not work
 * fails within about twenty seconds, with a message that says what to do.
 */

import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { SchedulerClient } from '@aws-sdk/client-scheduler';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SFNClient } from '@aws-sdk/client-sfn';
import { SNSClient } from '@aws-sdk/client-sns';
import { createS3Client } from '../s3/client.ts';
import type { Environment } from '../sdk-config.ts';
import { type AskMfaCode, operatorIdentity } from './credentials.ts';
import { addFriendlyErrors } from './error-messages.ts';

export type OperatorClients = ReturnType<typeof createOperatorClients>;

/** Three attempts of up to six seconds each. */
const operatorConfig = {
  maxAttempts: 3,
  requestHandler: { connectionTimeout: 3_000, requestTimeout: 6_000, throwOnRequestTimeout: true },
} as const;

/** The consumer of a page may pause, so a body that is not read stays open for ten minutes. */
const operatorS3Config = {
  ...operatorConfig,
  requestHandler: { ...operatorConfig.requestHandler, socketTimeout: 600_000 },
};

/** An invocation responds when the function has ended: a cold start and half a minute for the service. It is not repeated. */
const operatorLambdaConfig = {
  maxAttempts: 1,
  requestHandler: { ...operatorConfig.requestHandler, requestTimeout: 60_000 },
};

/** Errors that the operator can fix are thrown as ExportError. `env` is only for what the SDK does not find by itself. */
export function createOperatorClients(env: Environment, askMfaCode: AskMfaCode) {
  const identity = operatorIdentity(env, askMfaCode);
  const config = { ...operatorConfig, ...identity };
  const clients = {
    cloudFormation: new CloudFormationClient(config),
    scheduler: new SchedulerClient(config),
    stepFunctions: new SFNClient(config),
    dynamoDb: new DynamoDBClient(config),
    s3: createS3Client(env, { ...operatorS3Config, ...identity }),
    secretsManager: new SecretsManagerClient(config),
    lambda: new LambdaClient({ ...operatorLambdaConfig, ...identity }),
    sns: new SNSClient(config),
  };
  for (const client of Object.values(clients)) addFriendlyErrors(client);
  return {
    ...clients,
    close() {
      for (const client of Object.values(clients)) client.destroy();
    },
  };
}
