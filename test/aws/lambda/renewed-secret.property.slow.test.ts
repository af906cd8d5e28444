/**
 * Containers that share a refresh token, some of which are killed at any call, while reads of Secrets Manager are
 * outdated: a consent is lost only where one was killed between the exchange and the storage of its result.
 */

import { GetSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, expect } from 'vitest';
import { createRenewedSecret } from '../../../lib/aws/lambda/renewed-secret.ts';
import { createSecretApiKey } from '../../../lib/aws/secrets.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import { anExportName } from '../../support/builders.ts';
import { cases, fc, test } from '../../support/property.ts';
import { fakeDynamoHarness } from '../dynamodb/dynamodb-harness.ts';

const harness = await fakeDynamoHarness();
afterAll(async () => await harness.cleanup());

/** When a container is killed: before or after which of its calls. */
interface Kill {
  readonly call: number;
  readonly isAfter: boolean;
}

const batches = fc.array(
  fc.record({
    kills: fc.array(fc.option(fc.record({ call: fc.nat(16), isAfter: fc.boolean() }), { nil: undefined }), {
      minLength: 3,
      maxLength: 3,
    }),
    /** How many reads after each write return an older version, and how many versions older. */
    outdated: fc.nat(3),
    age: fc.integer({ min: 1, max: 3 }),
  }),
  { minLength: 1, maxLength: 4 },
);

test.prop([batches], { numRuns: cases(40) })(
  'a consent is lost by a kill at the worst moment only',
  async (history) => {
    const service = anExportName('service');
    const clock = { now: Date.parse('2026-11-20T02:00:00Z') };
    const versions = ['token 0'];
    let valid = 'token 0';
    let issued = 0;
    let outdated = 0;
    /** Tokens that the server has issued, and no version of the secret has. */
    const unstored = new Set<string>();
    const counts = { lost: 0, atRisk: 0 };

    async function run(kill: Kill | undefined, outdatedReads: number, age = 1): Promise<string> {
      let calls = 0;
      const { promise: died, reject } = Promise.withResolvers<never>();
      const own = new Set<string>();
      /** An effect outside the container. A container that is killed gets no result, and does nothing more. */
      const call = async <Value>(effect: () => Value | Promise<Value>): Promise<Value> => {
        const isLast = kill?.call === calls;
        calls += 1;
        const die = () => {
          counts.atRisk += own.size;
          reject(new Error('killed'));
          return new Promise<never>(() => {});
        };
        if (isLast && kill?.isAfter === false) return await die();
        const value = await effect();
        return isLast ? await die() : value;
      };
      const secretsManager = {
        send: (command: { readonly input: { readonly SecretString?: string; readonly VersionStages?: string[] } }) =>
          call(() => {
            if (command instanceof GetSecretValueCommand) {
              const isOutdated = outdated > 0 && versions.length > 1;
              if (isOutdated) outdated -= 1;
              return { SecretString: versions.at(isOutdated ? -Math.min(1 + age, versions.length) : -1) };
            }
            const { SecretString = '', VersionStages } = command.input;
            if (VersionStages !== undefined) return {};
            own.delete(SecretString);
            unstored.delete(SecretString);
            versions.push(SecretString);
            outdated = outdatedReads;
            return {};
          }),
      } as unknown as SecretsManagerClient;
      const client = {
        send: (command: never) => call(() => harness.client.send(command)),
      } as unknown as DynamoDBClient;
      const runtime = {
        ...systemRuntime,
        now: () => clock.now,
        monotonicNow: () => clock.now,
        sleep: async (ms: number) => {
          clock.now += ms;
          await systemRuntime.sleep(1);
        },
      };
      const source = createSecretApiKey({ client: secretsManager, secretId: 's', now: runtime.now });
      const options = { source, secretsManager, secretId: 's', client, table: harness.table, service, runtime };
      const update = createRenewedSecret(options).update?.(async (newest, assertMaySend) => {
        assertMaySend();
        return await call(() => {
          if (newest !== valid) {
            counts.lost += 1;
            throw new ExportError('ConfigurationError', 'invalid_grant');
          }
          issued += 1;
          valid = `token ${issued}`;
          own.add(valid);
          unstored.add(valid);
          return valid;
        });
      });
      const ended = Promise.race([update, died]);
      return await ended.then(
        () => 'renewed',
        ({ message }: Error) => message,
      );
    }

    for (const { kills, outdated: reads, age } of history) {
      const results = await Promise.all(kills.map((kill) => run(kill, reads, age)));
      for (const result of results) {
        expect(result).toMatch(
          /^(renewed|killed|invalid_grant|Another process is using.*|The refresh token was not sent.*)$/,
        );
      }
      // A person consents again where the server has revoked the token. The leases of those that were killed end.
      clock.now += 300_000;
      outdated = 0;
      if (counts.lost > 0 && versions.at(-1) !== valid) {
        issued += 1;
        valid = `token ${issued}`;
        versions.push(valid);
        unstored.clear();
      }
    }
    const isValid = versions.at(-1) === valid;
    expect(isValid || unstored.has(valid)).toBe(true);
    expect(await run(undefined, 0)).toBe(isValid ? 'renewed' : 'invalid_grant');
    if (counts.atRisk === 0) expect(counts.lost).toBe(0);
  },
);
