/** A local AWS in its own process, and the environment of functions that use it. */

import { startServerProcess } from '../harness/server-process.ts';

/** What the process reports when it is ready. */
export interface LocalAwsEndpoints {
  /** Environment variables that direct the SDK to it. */
  readonly env: Readonly<Record<string, string>>;
  readonly table: string;
}

/** `putObjectDelayMs`: how long S3 takes to store an object. */
export async function startLocalAwsProcess({ putObjectDelayMs = 0 } = {}): Promise<
  LocalAwsEndpoints & AsyncDisposable
> {
  return await startServerProcess<LocalAwsEndpoints>(new URL('local-aws-process.ts', import.meta.url), [
    `${putObjectDelayMs}`,
  ]);
}

export function functionEnvironment(
  { env, table }: LocalAwsEndpoints,
  service: Readonly<Record<string, unknown>>,
  settings: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, string>> {
  return {
    ...env,
    // For the measured process, which passes them to the functions.
    SETTINGS: JSON.stringify({ service, exports: [{ name: 'reports', ...settings }] }),
    DEPLOYMENT_NAME: 'Bench',
    SERVICE_NAME: 'bench',
    TABLE_NAME: table,
    BUCKET_NAME: 'bucket',
    KEY_PREFIX: '',
    BUCKET_KMS_KEY_ARN: '',
    API_KEY_SECRET_ID: 'reports/api-key',
    API_KEY_SECRET_FIELD: 'apiKey',
  };
}
