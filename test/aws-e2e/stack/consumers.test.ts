import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { errorResponse, onPage } from '../../support/service/faults.ts';
import { problemsIn } from '../../support/docs/published-schemas.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { s3 } from '../support/aws.ts';
import { deployApp } from '../support/cdk.ts';
import type { ConsumerAppSettings } from '../support/consumer-app.ts';
import { openEventQueue } from '../support/event-queue.ts';
import { runExecution } from '../support/executions.ts';
import {
  apiKey,
  bucketPrefix,
  exporterStack,
  prefix,
  putApiKey,
  serviceName,
  serviceOutput,
  vendor,
} from '../support/exporter-stack.ts';
import { openService } from '../support/service.ts';

/** The export of both deployments. */
const nightlyOf = (outputs: Readonly<Record<string, string>>) => ({
  stateMachineArn: serviceOutput(outputs).stateMachineArn,
  exportName: 'nightly',
});

const workDirectory = inject('workDirectory');
const [consumedStack, otherStack] = ['ConsumersWatched', 'ConsumersOther'];

describe('what consumers receive from a deployment', () => {
  let deployments: Readonly<Record<string, Readonly<Record<string, string>>>>;
  let eventQueue: ReturnType<typeof openEventQueue>;
  const output = (name: string, stackName = consumedStack): string => {
    const value = deployments[stackName]?.[name];
    if (value === undefined) throw new Error(`Stack ${stackName} has no output ${name}`);
    return value;
  };

  beforeAll(async () => {
    eventQueue = openEventQueue((await exporterStack()).eventQueue);
    deployments = await deployApp(await buildApp(), [consumedStack, otherStack]);
    for (const stackName of [consumedStack, otherStack]) {
      await putApiKey({ secretId: output('AcmeApiKeySecretId', stackName) }, apiKey);
    }
  });

  /** Completes a run. Resolves to its event and its manifest. */
  async function completeRun(stackName = consumedStack) {
    const end = await runExecution(nightlyOf(deployments[stackName] ?? {}));
    expect(end.states.at(-1)).toBe('Completed');
    const event = await eventQueue.find('about the run', isOf(end.arn));
    const { manifest: key } = (event.detail as { result: { manifest: string } }).result;
    return {
      event,
      key,
      manifest: JSON.parse(await textAt(output('BucketName', stackName), prefix + key)) as Manifest,
    };
  }

  it('are events, manifests, summaries and pointers that match their schemas', async () => {
    await using service = await openService(3);
    const { event, key, manifest } = await completeRun();
    expect(problemsIn('completed.v1', event.detail)).toEqual([]);
    expect(problemsIn('manifest.v1', manifest)).toEqual([]);
    const latest = JSON.parse(await textAt(output('BucketName'), `${prefix}nightly/latest.json`));
    expect(problemsIn('latest.v1', latest)).toEqual([]);
    const summary = JSON.parse(await textAt(output('BucketName'), prefix + key.replace('manifest.json', 'run.json')));
    expect(problemsIn('run.v1', summary)).toEqual([]);
    expect(summary).toMatchObject((event.detail as { result: object }).result);
    expect(service.exchanges).toHaveLength(2);
  });

  it('subscribers to an export receive its completions and failures, but none of an export of the same name in another stack', async () => {
    const received: unknown[] = [];
    const subscription = openEventQueue(output('EventsUrl'));
    const receive = async (arn: string) =>
      await subscription.find('about our run', (each) => {
        received.push((each.detail as { execution: string }).execution);
        return isOf(arn)(each);
      });
    const failRun = async (stackName: string) => {
      await using _ = await openService(5, { faults: onPage(1, errorResponse(404)) });
      return await runExecution(nightlyOf(deployments[stackName] ?? {}), { restart: true });
    };
    // The other stack's runs are first, so that an event about them would arrive before ours.
    const theirFailure = await failRun(otherStack);
    const ourFailure = await failRun(consumedStack);
    const event = await receive(ourFailure.arn);
    expect(event['detail-type']).toBe('Report Export Failed');
    expect(problemsIn('failed.v1', event.detail)).toEqual([]);

    await using _ = await openService(5);
    const theirRun = await completeRun(otherStack);
    const ourRun = await completeRun();
    const completed = await receive((ourRun.event.detail as { execution: string }).execution);
    expect(completed.detail).toEqual(ourRun.event.detail);

    const theirs = [theirFailure.arn, (theirRun.event.detail as { execution: string }).execution];
    expect(received.filter((each) => theirs.includes(each as string))).toEqual([]);
    // A subscriber to all events receives both.
    await eventQueue.find('about their failure', isOf(theirFailure.arn));
  });

  async function buildApp() {
    const settings: ConsumerAppSettings = {
      stackNames: [consumedStack, otherStack],
      deployment: {
        services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
        bucket: { prefix: bucketPrefix },
        exports: [{ name: 'nightly', size: 2, since: { overlap: 'P1D' } }],
      },
    };
    const file = join(workDirectory, 'consumers.json');
    await writeFile(file, JSON.stringify(settings));
    return {
      file: join(import.meta.dirname, '../support/consumer-app.ts'),
      context: { consumers: file },
      assembly: join(workDirectory, 'consumers.out'),
    };
  }
});

const isOf =
  (execution: string) =>
  ({ detail }: { readonly detail: unknown }): boolean =>
    (detail as { execution?: unknown }).execution === execution;

async function textAt(Bucket: string, Key: string): Promise<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return (await Body?.transformToString()) ?? '';
}
