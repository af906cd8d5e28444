/** The order of writes around a refresh token in Secrets Manager. The rest is in renewed-secret.slow.test.ts. */

import type { DynamoDBClient, PutItemCommandInput } from '@aws-sdk/client-dynamodb';
import { GetSecretValueCommand, PutSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { mockClient } from 'aws-sdk-client-mock';
import { expect, it } from 'vitest';
import { createRenewedSecret } from '../../../lib/aws/lambda/renewed-secret.ts';
import { createSecretApiKey } from '../../../lib/aws/secrets.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { createSimulatedDynamoDb } from '../../simulation/world/dynamodb.ts';
import { sha256Of } from '../../support/builders.ts';

it('has its digest in the table before it is stored: a function that is killed in between leaves no secret that looks outdated', async () => {
  const writes: string[] = [];
  const table = createSimulatedDynamoDb({
    tableName: 'table',
    maxBatch: 1,
    returnsExisting: true,
    onWrite: (item) => {
      if (JSON.stringify(item).includes(sha256Of('token 1'))) writes.push('digest');
    },
  });
  const client = {
    send: async (command: { readonly input: PutItemCommandInput }) => table.perform(command),
  } as unknown as DynamoDBClient;
  const secretsManager = new SecretsManagerClient({ region: 'us-east-1' });
  const mock = mockClient(secretsManager);
  mock.on(GetSecretValueCommand).resolves({ SecretString: 'token 0' });
  mock.on(PutSecretValueCommand).callsFake(({ SecretString }: { readonly SecretString: string }) => {
    writes.push(SecretString);
    return {};
  });
  const runtime = systemRuntime;
  const source = createSecretApiKey({ client: secretsManager, secretId: 'token', now: runtime.now });
  const options = { source, secretsManager, secretId: 'token', client, table: 'table', service: 'acme', runtime };
  await createRenewedSecret(options).update?.(async () => 'token 1');
  // The first one shows that the secret can be written, and changes nothing.
  expect(writes).toEqual(['token 0', 'digest', 'token 1']);
});
