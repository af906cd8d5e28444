/**
 * The SDK clients for an operator at a terminal. The SDK finds profile, region and endpoints by itself. What does not work
 * fails within about twenty seconds, with a message that says what to do.
 */

import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SchedulerClient } from '@aws-sdk/client-scheduler';
import { SFNClient } from '@aws-sdk/client-sfn';
import { createS3Client } from '../s3/client.ts';
import type { Environment } from '../sdk-config.ts';
import { type AskMfaCode, operatorIdentity } from './credentials.ts';
import { addFriendlyErrors, type Client } from './error-messages.ts';

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
export const operatorLambdaConfig = {
  maxAttempts: 1,
  requestHandler: { ...operatorConfig.requestHandler, requestTimeout: 60_000 },
};

/** Errors that the operator can fix are thrown as ExportError. `env` is only for what the SDK does not find by itself. */
export function createOperatorClients(env: Environment, askMfaCode: AskMfaCode) {
  const identity = operatorIdentity(env, askMfaCode);
  const config = { ...operatorConfig, ...identity };
  const opened: Client[] = [];
  const open = <Opened extends Client>(client: Opened): Opened => {
    addFriendlyErrors(client);
    opened.push(client);
    return client;
  };
  return {
    cloudFormation: open(new CloudFormationClient(config)),
    scheduler: open(new SchedulerClient(config)),
    stepFunctions: open(new SFNClient(config)),
    dynamoDb: open(new DynamoDBClient(config)),
    s3: open(createS3Client(env, { ...operatorS3Config, ...identity })),
    /** Creates a client that few commands need. It is closed with the others. */
    open: <Opened extends Client>(create: (common: typeof config) => Opened): Opened => open(create(config)),
    close() {
      for (const client of opened) client.destroy();
    },
  };
}
