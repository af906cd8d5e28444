import { inject, vi } from 'vitest';
import { credentials, region } from '../emulators/ministack.ts';

/** Sets the environment of an operator, from which the SDK reads, and returns it. */
export function stubOperatorEnvironment(): Readonly<Record<string, string>> {
  const env = {
    AWS_ENDPOINT_URL: inject('miniStack'),
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  return env;
}
