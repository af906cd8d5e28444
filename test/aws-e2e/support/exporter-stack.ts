/**
 * The stack that all deployed tests share, with an export for each of them, so that they do not meet. Whoever comes first
 * deploys it.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PutSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { inject } from 'vitest';
import type { ExportDeploymentSettings } from '../../../lib/cdk/settings/deployed-export.ts';
import { secretsManager } from './aws.ts';
import { bootstrap, deploy, type Outputs } from './cdk.ts';
import { createQueue } from './event-queue.ts';

export const stackName = 'ReportExporterE2E';
export const vendor = 'ACME';
export const theKey = 'k3y-of-the-deployed-tests-0f6c';
export const prefix = 'reports/';

/** By name, what is particular to an export; two reports a page, if it does not say otherwise. */
const exports: Readonly<Record<string, Omit<ExportDeploymentSettings, 'name'>>> = {
  daily: {},
  asked: {},
  restarted: {},
  overlapping: {},
  long: { size: 1, iterationsPerExecution: 4 },
  stopped: {},
  forbidden: {},
  outage: {},
  rotated: {},
  patient: { maxInlineWait: 'PT1S' },
  'moto-outage': {},
  'moto-rejected': {},
  'moto-slow': {},
  ticking: { schedule: { expression: 'rate(1 minute)', enabled: false, freshness: 'none' } },
};

export interface Deployment {
  readonly bucket: string;
  readonly table: string;
  readonly secretId: string;
  /** The queue in which the events of all runs arrive. */
  readonly events: string;
  stateMachineOf(exportName: string): string;
}

const file = join(inject('workDirectory'), 'deployment.json');

/** Deploys the stack, puts the key into its secret, and opens a mailbox for its events; or finds it all done. */
export async function theDeployment(): Promise<Deployment> {
  const known = await readFile(file, 'utf8').catch(() => undefined);
  const { outputs, events } = known === undefined ? await deployFirst() : JSON.parse(known);
  return deploymentOf(outputs, events);
}

async function deployFirst(): Promise<{ outputs: Outputs; events: string }> {
  await bootstrap();
  const outputs = await deployWith({});
  const done = { outputs, events: await createQueue() };
  await putKey(deploymentOf(done.outputs, done.events), theKey);
  await writeFile(file, JSON.stringify(done));
  return done;
}

/** Puts an API key into the secret, as an operator does. */
export async function putKey({ secretId }: Pick<Deployment, 'secretId'>, key: string): Promise<void> {
  await secretsManager.send(new PutSecretValueCommand({ SecretId: secretId, SecretString: key }));
}

/** Deploys the stack, or brings it up to date, with `changed` exports. */
export function deployWith(changed: Partial<Record<string, Omit<ExportDeploymentSettings, 'name'>>>): Promise<Outputs> {
  return deploy({
    stackName,
    service: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor },
    bucket: { prefix },
    exports: Object.entries({ ...exports, ...changed }).map(([name, settings]) => ({ name, size: 2, ...settings })),
  });
}

function deploymentOf(outputs: Outputs, events: string): Deployment {
  const output = (name: string): string => {
    const value = outputs[name];
    if (value === undefined)
      throw new Error(`The stack has no output ${name}, only ${Object.keys(outputs).join(', ')}`);
    return value;
  };
  return {
    bucket: output('BucketName'),
    table: output('TableName'),
    secretId: output('ApiKeySecretId'),
    events,
    // `moto-slow` → `MotoSlowStateMachineArn`
    stateMachineOf: (exportName) =>
      output(`${exportName.replaceAll(/(?:^|-)(.)/g, (_, first: string) => first.toUpperCase())}StateMachineArn`),
  };
}
