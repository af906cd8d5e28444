/**
 * The SDK's clients for a person at a terminal: profile, region and endpoints are what the SDK finds by itself, and what
 * does not work is known within some twenty seconds, in words that say what to do.
 */

import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { SchedulerClient } from '@aws-sdk/client-scheduler';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SFNClient } from '@aws-sdk/client-sfn';
import { createS3Client } from '../s3/client.ts';
import type { Environment } from '../sdk-config.ts';
import { addFriendlyErrors } from './error-messages.ts';

export type OperatorClients = ReturnType<typeof createOperatorClients>;

/** Three attempts of up to six seconds each. */
const patience = {
  maxAttempts: 3,
  requestHandler: { connectionTimeout: 3_000, requestTimeout: 6_000, throwOnRequestTimeout: true },
} as const;

/** Whoever reads a page may stop to think, so a body that is not read on is not given up for ten minutes. */
const patienceWithBodies = { ...patience, requestHandler: { ...patience.requestHandler, socketTimeout: 600_000 } };

/** `env` is for what the SDK does not see by itself. Every error that a person can mend comes as a ConfigurationError. */
export function createOperatorClients(env: Environment) {
  const clients = {
    cloudFormation: new CloudFormationClient(patience),
    lambda: new LambdaClient(patience),
    scheduler: new SchedulerClient(patience),
    stepFunctions: new SFNClient(patience),
    dynamoDb: new DynamoDBClient(patience),
    s3: createS3Client(env, patienceWithBodies),
    secretsManager: new SecretsManagerClient(patience),
  };
  for (const client of Object.values(clients)) addFriendlyErrors(client);
  return {
    ...clients,
    close() {
      for (const client of Object.values(clients)) client.destroy();
    },
  };
}
