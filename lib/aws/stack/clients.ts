/**
 * The SDK clients for an operator at a terminal. The SDK finds profile, region and endpoints by itself. What does not
 * work fails within about twenty seconds, with a message that says what to do.
 */

import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SchedulerClient } from '@aws-sdk/client-scheduler';
import { SFNClient } from '@aws-sdk/client-sfn';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { createS3Client } from '../s3/client.ts';
import type { Environment } from '../sdk-config.ts';
import { AwsAgent } from './connections.ts';
import { addFriendlyErrors, type Client } from './error-messages.ts';

export type OperatorClients = ReturnType<typeof createOperatorClients>;

/** Three attempts of up to six seconds each. */
const maxAttempts = 3;
const timeouts = { connectionTimeout: 3_000, requestTimeout: 6_000, throwOnRequestTimeout: true } as const;

/** Errors that the operator can fix are thrown as ExportError. `env` has what the SDK does not find by itself. */
export function createOperatorClients(env: Environment) {
  const requestHandler = { ...timeouts, httpsAgent: new AwsAgent(env) };
  // The AWS CLI and the CDK read this variable, before the region of the profile; the SDK does not.
  const region = env.AWS_REGION || env.AWS_DEFAULT_REGION || undefined;
  // SSO, which also needs the proxy, is not requested with the handler of the client.
  const credentials = defaultProvider({ clientConfig: { requestHandler } });
  const config = { maxAttempts, requestHandler, credentials, ...(region !== undefined && { region }) };
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
    // The consumer of a page may pause, so a body that is not read stays open for ten minutes.
    s3: open(createS3Client(env, { ...config, requestHandler: { ...requestHandler, socketTimeout: 600_000 } })),
    /** Creates a client that few commands need. It is closed with the others. */
    open: <Opened extends Client>(create: (common: typeof config) => Opened): Opened => open(create(config)),
    close() {
      for (const client of opened) client.destroy();
    },
  };
}
