/** Outdated reads of Secrets Manager: no refresh token is sent twice or replaced by an older one. */

import { GetSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { afterAll, describe, expect, it } from 'vitest';
import { createRenewedSecret } from '../../../lib/aws/lambda/renewed-secret.ts';
import { createSecretApiKey } from '../../../lib/aws/secrets.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { anExportName } from '../../support/builders.ts';
import { failureOf } from '../../support/service/service-client.ts';
import { fakeDynamoHarness } from '../dynamodb/dynamodb-harness.ts';

const harness = await fakeDynamoHarness();
afterAll(async () => await harness.cleanup());

/** Containers of a service. The next reads return the versions in `reads`, and then the current one. */
function aService(...versions: string[]) {
  const service = anExportName('service');
  const reads: string[] = [];
  const sent: string[] = [];
  const secretsManager = {
    async send(command: { readonly input: { readonly SecretString?: string; readonly VersionStages?: string[] } }) {
      if (command instanceof GetSecretValueCommand) return { SecretString: reads.shift() ?? versions.at(-1) };
      const { SecretString = '', VersionStages: stages = ['AWSCURRENT'] } = command.input;
      if (stages.includes('AWSCURRENT')) versions.push(SecretString);
      return {};
    },
  } as unknown as SecretsManagerClient;
  const runtime = {
    ...systemRuntime,
    sleep: (ms: number, signal?: AbortSignal) => systemRuntime.sleep(Math.min(ms, 5), signal),
  };
  const exchange = (client = harness.client, clock = runtime, remainingMs = 900_000) => {
    const source = createSecretApiKey({ client: secretsManager, secretId: 's', now: clock.now });
    const { table } = harness;
    const options = { source, secretsManager, secretId: 's', client, table, service, runtime: clock };
    const renewed = createRenewedSecret({ ...options, remainingMs: () => remainingMs });
    return renewed.update?.(async (newest, assertMaySend) => {
      assertMaySend();
      sent.push(newest);
      return `after ${newest}`;
    }) as Promise<string>;
  };
  return { versions, reads, sent, runtime, exchange };
}

describe('an outdated read of a secret', () => {
  it('is recognized, however many versions old', async () => {
    const { versions, reads, sent, exchange } = aService('R0');
    for (let count = 0; count < 3; count += 1) await exchange();
    reads.push('R0', 'after R0', 'after after R0');
    await exchange();
    expect(sent).toEqual(versions.slice(0, 4));
    expect(new Set(sent).size).toBe(4);
  });

  it('is recognized after a function was killed right after it stored another version', async () => {
    const { versions, reads, sent, runtime, exchange } = aService('R0');
    await exchange();
    const { promise: killed, resolve: kill } = Promise.withResolvers<void>();
    const client = {
      async send(command: never) {
        if (!versions.includes('after after R0')) return await harness.client.send(command);
        kill();
        return await new Promise<never>(() => {});
      },
    } as unknown as typeof harness.client;
    void exchange(client);
    await killed;
    reads.push('after R0');
    // After the lease of the function that was killed.
    await exchange(undefined, { ...runtime, now: () => Date.now() + 245_000 });
    expect(sent).toEqual(['R0', 'after R0', 'after after R0']);
  });

  it('does not become the current version by the trial before the first exchange', async () => {
    const { versions, reads, exchange } = aService('wrong', 'corrected');
    reads.push('wrong');
    await failureOf(exchange(undefined, undefined, 0));
    expect(versions).toEqual(['wrong', 'corrected']);
  });
});

it('A refresh token is not sent if the function may end before its successor is stored', async () => {
  const { sent, exchange } = aService('R0');
  expect(await failureOf(exchange(undefined, undefined, 59_000))).toMatchObject({
    name: 'ServiceUnavailableError',
    message: expect.stringContaining('too little time left'),
  });
  expect(sent).toEqual([]);
  await exchange(undefined, undefined, 61_000);
});
