/** Simulated Secrets Manager: the API key, which may be rotated, and the credentials of the proxy. */

import { operatorMoments, type Scenario } from '../histories/scenario.ts';
import type { Command } from './sdk-clients.ts';
import type { World } from './world.ts';

export const apiKeySecret = 'acme/api-key';
export const proxySecret = 'acme/proxy';
export const proxyCredentials = { username: 'exporter', password: 'the-password-of-the-proxy' };

const minute = 60_000;

export interface ApiKeys {
  /** Whether the service accepts the key now. Keys of other times are known, but rejected. */
  check(key: string | undefined): 'accepted' | 'rejected' | 'unknown';
  /** GetSecretValue. @throws as Secrets Manager does */
  perform(command: Command): unknown;
}

export function createApiKeys(world: World, scenario: Scenario): ApiKeys {
  const { time } = world;
  const { apiKeyField: field } = scenario.deployment;
  const keyOf = (index: number) => `the-key-${index}-of-the-simulation`;
  const accepted = new Set([keyOf(0)]);
  let known = 1;
  let secret = keyOf(0);

  // In both orders, with a gap between them in which one side has the new key only.
  let endsAfterMs = 0;
  const period = { everyMs: 60 * minute, withinMs: 55 * minute };
  for (const { name: moment, at, withinMs } of operatorMoments(scenario, period)) {
    const name = `api-key-${moment}`;
    if (scenario.start + endsAfterMs > at || !world.injectFault('api-key-rotated', name)) continue;
    const rng = world.rng(name);
    const next = keyOf(known);
    known += 1;
    const rotatedAt = at - scenario.start + rng.between(0, withinMs);
    const secretDelayMs = rng.pick([0, rng.between(0, 3) * minute]);
    const oldKeyMs = rng.pick([0, rng.between(0, 5) * minute]);
    // One rotation at a time: to store any but the newest key would lock the exporter out.
    endsAfterMs = rotatedAt + Math.max(secretDelayMs, oldKeyMs);
    time.after(rotatedAt, () => {
      world.log('operator', () => `creates another API key: ${name}`);
      accepted.add(next);
    });
    time.after(rotatedAt + oldKeyMs, () => {
      for (const key of accepted) if (key !== next) accepted.delete(key);
    });
    time.after(rotatedAt + secretDelayMs, () => {
      world.log('operator', () => `stores the API key: ${name}`);
      secret = next;
    });
  }

  return {
    check(key) {
      if (key !== undefined && accepted.has(key)) return 'accepted';
      return Array.from({ length: known }, (_, index) => keyOf(index)).includes(key ?? '') ? 'rejected' : 'unknown';
    },
    perform({ input }) {
      const { SecretId } = input as { SecretId?: string };
      if (SecretId === apiKeySecret)
        return { SecretString: field === '' ? secret : JSON.stringify({ [field]: secret }) };
      if (SecretId === proxySecret) return { SecretString: JSON.stringify(proxyCredentials) };
      throw Object.assign(new Error(`There is no secret ${SecretId}`), {
        name: 'ResourceNotFoundException',
        $metadata: {},
      });
    },
  };
}
