/** A refresh token in Secrets Manager: one container at a time replaces it, and none reads the replaced one. */

import { GetSecretValueCommand, PutSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRenewedSecret } from '../../../lib/aws/lambda/renewed-secret.ts';
import { createSecretApiKey } from '../../../lib/aws/secrets.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { anExportName } from '../../support/builders.ts';
import { expectNoKey, failureOf } from '../../support/service/service-client.ts';
import { type DynamoHarness, fakeDynamoHarness } from '../dynamodb/dynamodb-harness.ts';

let harness: DynamoHarness;
beforeAll(async () => {
  harness = await fakeDynamoHarness();
});
afterAll(async () => await harness.cleanup());

const secretId = 'reports/token';
const awsError = (name: string, message = name) => Object.assign(new Error(message), { name });

interface Put {
  readonly SecretString: string;
  readonly VersionStages?: readonly string[];
}

/** Containers of one service, and their Secrets Manager. Waits are short. */
function aService() {
  const service = anExportName('service');
  const versions = ['token 0'];
  /** How many of the next reads return the version before, and the errors of the next writes. */
  const faults = { outdatedReads: 0, writes: [] as Error[] };
  const secretsManager = new SecretsManagerClient({ region: 'us-east-1' });
  const mock = mockClient(secretsManager);
  mock.on(GetSecretValueCommand, { SecretId: secretId }).callsFake(() => ({
    SecretString: versions.at(faults.outdatedReads > 0 && (faults.outdatedReads -= 1) >= 0 ? -2 : -1),
  }));
  mock.on(PutSecretValueCommand, { SecretId: secretId }).callsFake(({ SecretString, VersionStages }: Put) => {
    const error = faults.writes.shift();
    if (error !== undefined) throw error;
    if (VersionStages?.includes('AWSCURRENT') ?? true) versions.push(SecretString);
    return {};
  });
  const runtime = {
    ...systemRuntime,
    sleep: (ms: number, signal?: AbortSignal) => systemRuntime.sleep(Math.min(ms, 5), signal),
  };
  const container = (clock = runtime, remainingMs = 900_000) => {
    const source = createSecretApiKey({ client: secretsManager, secretId, now: clock.now });
    const { table, client } = harness;
    const options = { source, secretsManager, secretId, client, table, service, runtime: clock };
    const renewed = createRenewedSecret({ ...options, remainingMs: () => remainingMs });
    return { ...renewed, update: renewed.update as NonNullable<typeof renewed.update> };
  };
  return { versions, faults, runtime, container };
}

/** The exchange of a token at a server, which `sent` records. */
const exchangeOf = (sent: string[]) => async (newest: string) => {
  sent.push(newest);
  return `token ${Number(newest.split(' ')[1]) + 1}`;
};

describe('a refresh token in Secrets Manager', () => {
  it('is written once before the first exchange, to show that it can be', async () => {
    const { container, versions, faults } = aService();
    const sent: string[] = [];
    faults.writes = [awsError('DecryptionFailure', 'failed: token 0')];
    const error = await failureOf(container().update(exchangeOf(sent)));
    expect(error).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/cannot be written \(DecryptionFailure\)\. Allow secretsmanager:PutSecretValue/),
    });
    expectNoKey(error, 'token 0');
    expect(sent).toEqual([]);
    await container().update(exchangeOf(sent));
    await container().update(exchangeOf(sent));
    expect(versions).toEqual(['token 0', 'token 1', 'token 2']);
  });

  it('is read again while a read returns the one that was replaced', async () => {
    const { container, faults } = aService();
    const sent: string[] = [];
    await container().update(exchangeOf(sent));
    faults.outdatedReads = 3;
    await container().update(exchangeOf(sent));
    expect(sent).toEqual(['token 0', 'token 1']);
  });

  it('is used if a person has stored it again', async () => {
    const { container, versions } = aService();
    const sent: string[] = [];
    await container().update(exchangeOf(sent));
    versions.push('token 0');
    await container().update(exchangeOf(sent));
    expect(sent).toEqual(['token 0', 'token 0']);
  });

  it('is stored although Secrets Manager fails for some time', async () => {
    const { container, versions, faults } = aService();
    await container().update(exchangeOf([]));
    faults.writes = ['ThrottlingException', 'InternalServiceError', 'TimeoutError'].map((name) => awsError(name));
    await container().update(exchangeOf([]));
    expect(versions.at(-1)).toBe('token 2');
  });

  it('is not used if it cannot be stored, and other containers do not wait', async () => {
    const { container, faults, runtime } = aService();
    await container().update(exchangeOf([]));
    faults.writes = Array.from({ length: 20 }, () => awsError('ThrottlingException'));
    let late = 0;
    const clock = { ...runtime, now: () => Date.now() + late };
    const update = container(clock).update(async (newest) => {
      late = 80_000;
      return await exchangeOf([])(newest);
    });
    expect(await failureOf(update)).toMatchObject({ name: 'ServiceUnavailableError' });
    faults.writes = [];
    await container().update(exchangeOf([]));
  });

  it('is not sent too long after the slot was taken: another container may have it', async () => {
    const { container, runtime } = aService();
    let late = 0;
    const clock = { ...runtime, now: () => Date.now() + late };
    const update = container(clock).update(async (_, assertMaySend) => {
      assertMaySend();
      late = 31_000;
      assertMaySend();
      return 'never';
    });
    expect(await failureOf(update)).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('The refresh token was not sent: reading the secret took too long'),
    });
  });

  it('is not sent if the function may end before its successor is stored', async () => {
    const { container, versions } = aService();
    const sent: string[] = [];
    const exchange = async (newest: string, assertMaySend: () => void) => {
      assertMaySend();
      return await exchangeOf(sent)(newest);
    };
    expect(await failureOf(container(undefined, 59_000).update(exchange))).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('too little time left'),
    });
    expect([sent, versions]).toEqual([[], ['token 0']]);
    await container(undefined, 61_000).update(exchange);
  });

  it('does not become the current version by the trial before the first exchange', async () => {
    const { container, versions, faults } = aService();
    versions.push('corrected');
    faults.outdatedReads = 1;
    await failureOf(
      container(undefined, 0).update(async (newest, assertMaySend) => {
        assertMaySend();
        return newest;
      }),
    );
    expect(versions).toEqual(['token 0', 'corrected']);
  });

  it('is waited for half a minute; then the attempt fails, to be retried', async () => {
    const { container, runtime } = aService();
    let elapsed = 0;
    const clock = { ...runtime, monotonicNow: () => (elapsed += 1_000) };
    const { promise, resolve } = Promise.withResolvers<string>();
    const first = container().update(() => promise);
    await expect.poll(() => container(clock).get()).toBe('token 0');
    await systemRuntime.sleep(50);
    expect(await failureOf(container(clock).update(exchangeOf([])))).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('Another process is using the refresh token'),
    });
    resolve('token 1');
    await first;
  });

  it('is not written if it has not changed', async () => {
    const { container, versions } = aService();
    await container().update(exchangeOf([]));
    const other = container();
    expect(await other.update(async (newest) => newest)).toBe('token 1');
    expect(await other.get()).toBe('token 1');
    expect(versions).toEqual(['token 0', 'token 1']);
  });
});
