/** A stack of its own for the operator's commands: what they find is a whole stack, and nobody else's runs are in it. */

import { PutSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { inject, vi } from 'vitest';
import type { ExportDeploymentSettings } from '../../../lib/cdk/settings/deployed-export.ts';
import { credentials, region } from '../emulators/ministack.ts';
import { secretsManager } from './aws.ts';
import { bootstrap, deploy, type Outputs } from './cdk.ts';
import { prefix, theKey, vendor } from './exporter-stack.ts';

export const operatedStack = 'ReportExporterOperated';

const exports: readonly ExportDeploymentSettings[] = [
  { name: 'commanded', pagesPerInvocation: 25 },
  { name: 'followed' },
  { name: 'segmented', size: 1, iterationsPerExecution: 2 },
  { name: 'troubled', maxInlineWait: 'PT0S' },
  { name: 'overlapped' },
  // Switched on, but not in anybody's lifetime. In UTC: MiniStack's CloudFormation knows no other zone.
  { name: 'timed', schedule: { expression: 'cron(30 2 1 JAN ? 2199)', freshness: 'none' } },
  { name: 'idle', schedule: { expression: 'rate(1 day)', enabled: false, freshness: 'none' } },
];

/** Deploys it, and puts the key into its secret. */
export async function deployOperatedStack(): Promise<Outputs> {
  await bootstrap();
  const outputs = await deploy({
    stackName: operatedStack,
    service: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor },
    bucket: { prefix },
    exports: exports.map((each) => ({ size: 2, ...each })),
  });
  await secretsManager.send(
    new PutSecretValueCommand({ SecretId: outputs.ApiKeySecretId as string, SecretString: theKey }),
  );
  return outputs;
}

/** What an operator has in the environment; the SDK reads it there. */
export function asAnOperator(): Readonly<Record<string, string>> {
  const env = {
    AWS_ENDPOINT_URL: inject('miniStack'),
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  return env;
}
