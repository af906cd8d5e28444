/** A deployment to the local AWS of `local-aws-process.ts`: what the functions find in their environment. */

import { startServer } from '../harness/server-process.ts';

export interface ServedAws extends AsyncDisposable {
  /** What leads the SDK there. */
  readonly env: Readonly<Record<string, string>>;
  readonly table: string;
}

export async function startAws({ storingMs = 0 } = {}): Promise<ServedAws> {
  return await startServer<Omit<ServedAws, keyof AsyncDisposable>>(new URL('local-aws-process.ts', import.meta.url), [
    `${storingMs}`,
  ]);
}

export function functionEnvironment(
  aws: Pick<ServedAws, 'env' | 'table'>,
  service: Readonly<Record<string, unknown>>,
  settings: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, string>> {
  return {
    ...aws.env,
    EXPORT_SETTINGS: JSON.stringify({ name: 'reports', ...settings }),
    SERVICE_SETTINGS: JSON.stringify(service),
    DEPLOYMENT_NAME: 'Bench',
    TABLE_NAME: aws.table,
    BUCKET_NAME: 'bucket',
    KEY_PREFIX: '',
    API_KEY_SECRET_ID: 'reports/api-key',
    API_KEY_SECRET_FIELD: 'apiKey',
  };
}
