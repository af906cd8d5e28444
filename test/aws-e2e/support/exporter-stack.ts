/**
 * The stack that most tests share. Each test has its own export, so that they do not interfere. The first test that
 * needs the stack deploys it. It stores pages compressed; other stacks do not.
 */

import { PutSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { inject } from 'vitest';
import type { ExportProps } from '../../../lib/settings/props.ts';
import { readVersioned, type ServiceOutput, serviceOutputSuffix } from '../../../lib/settings/deployed-settings.ts';
import { secretsManager } from './aws.ts';
import { deploy, type Outputs } from './cdk.ts';
import { createEventQueue } from './event-queue.ts';
import type { DeployedMachine } from './executions.ts';
import { once } from './once.ts';

export const stackName = 'ReportExporterE2E';
export const vendor = 'ACME';
export const apiKey = 'api-key-of-the-deployed-tests-0f6c';
export const serviceName = 'acme';
export const bucketPrefix = 'reports/';
/** The prefix of the service's keys. */
export const prefix = `${bucketPrefix}${serviceName}/`;

/** The settings of each export by name. The default is two reports per page. */
const exports: Readonly<Record<string, Omit<ExportProps, 'name'>>> = {
  forbidden: {},
  outage: {},
  python: { since: { overlap: 'P1D' } },
  duckdb: { since: { overlap: 'P1D' } },
  copied: { since: { overlap: 'P1D' } },
  ticking: { schedule: { expression: 'rate(1 minute)', enabled: false, freshness: 'none' } },
};

export interface ExporterStack {
  readonly bucket: string;
  readonly table: string;
  readonly secretId: string;
  /** The URL of the queue that receives the events of all runs. */
  readonly eventQueue: string;
  /** The state machine is the same for all exports. */
  stateMachineOf(exportName: string): DeployedMachine;
}

/** Deploys the stack, stores the API key and creates the event queue, unless an earlier test file has done so. */
export async function exporterStack(): Promise<ExporterStack> {
  const { outputs, eventQueue } = await once(stackName, async () => {
    const deployed = { outputs: await deployWith({}), eventQueue: await createEventQueue() };
    await putApiKey(stackOf(deployed.outputs, deployed.eventQueue), apiKey);
    return deployed;
  });
  return stackOf(outputs, eventQueue);
}

/** Stores an API key in the secret, as an operator does. */
export async function putApiKey({ secretId }: Pick<ExporterStack, 'secretId'>, key: string): Promise<void> {
  await secretsManager.send(new PutSecretValueCommand({ SecretId: secretId, SecretString: key }));
}

/** Creates or updates the stack, with other settings for the `changed` exports. */
export function deployWith(changed: Partial<Record<string, Omit<ExportProps, 'name'>>>): Promise<Outputs> {
  return deploy({
    stackName,
    services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
    bucket: { prefix: bucketPrefix, compression: 'gzip' },
    exports: Object.entries({ ...exports, ...changed }).map(([name, settings]) => ({ name, size: 2, ...settings })),
  });
}

/** The output of the service, or of the stack's only one. */
export function serviceOutput(outputs: Outputs, service?: string): ServiceOutput {
  const texts = Object.entries(outputs).flatMap(([name, value]) => (name.endsWith(serviceOutputSuffix) ? value : []));
  const output = texts
    .map((text) => readVersioned<ServiceOutput>(text))
    .find((each) => service === undefined || each?.service === service);
  if (output === undefined) throw new Error(`The stack has no output of ${service ?? 'a service'}`);
  return output;
}

function stackOf(outputs: Outputs, eventQueue: string): ExporterStack {
  const output = (name: string): string => {
    const value = outputs[name];
    if (value === undefined)
      throw new Error(`The stack has no output ${name}, only ${Object.keys(outputs).join(', ')}`);
    return value;
  };
  return {
    bucket: output('BucketName'),
    table: output('TableName'),
    secretId: output('AcmeApiKeySecretId'),
    eventQueue,
    stateMachineOf: (exportName) => ({ stateMachineArn: serviceOutput(outputs).stateMachineArn, exportName }),
  };
}
