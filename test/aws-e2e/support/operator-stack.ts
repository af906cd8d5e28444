/** A separate stack for the operator's commands, because they see all exports and runs of a stack. */

import { inject, vi } from 'vitest';
import type { ExportProps } from '../../../lib/settings/props.ts';
import { credentials, region } from '../emulators/ministack.ts';
import { deploy, type Outputs } from './cdk.ts';
import { apiKey, bucketPrefix, putApiKey, serviceName, vendor } from './exporter-stack.ts';
import { once } from './once.ts';

export const operatorStackName = 'ReportExporterOperated';

const exports: readonly ExportProps[] = [
  { name: 'commanded', pagesPerInvocation: 25 },
  { name: 'segmented', size: 1, iterationsPerExecution: 2 },
  { name: 'failing', maxInlineWait: 'PT0S' },
];

/** Deploys the stack and stores the API key, unless an earlier test file has done so. */
export const deployOperatorStack = (): Promise<Outputs> =>
  once(operatorStackName, async () => {
    const outputs = await deploy({
      stackName: operatorStackName,
      services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
      bucket: { prefix: bucketPrefix },
      exports: exports.map((each) => ({ size: 2, ...each })),
    });
    await putApiKey({ secretId: outputs.AcmeApiKeySecretId as string }, apiKey);
    return outputs;
  });

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
