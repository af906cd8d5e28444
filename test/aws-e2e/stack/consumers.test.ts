import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { expect, inject, it } from 'vitest';
import { errorResponse, onPage } from '../../support/service/faults.ts';
import { problemsIn } from '../../support/docs/published-schemas.ts';
import { s3 } from '../support/aws.ts';
import { deployApp, type Settings } from '../support/cdk.ts';
import { openEventQueue } from '../support/event-queue.ts';
import { runExecution } from '../support/executions.ts';
import {
  apiKey,
  bucketPrefix,
  prefix,
  putApiKey,
  serviceName,
  serviceOutput,
  vendor,
} from '../support/exporter-stack.ts';
import { openService } from '../support/service.ts';

const workDirectory = inject('workDirectory');
const stackName = 'Consumers';

it('a subscriber receives the failures and completions of an export, which match their schemas, as do the documents', async () => {
  const settings: Settings = {
    stackName,
    services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
    bucket: { prefix: bucketPrefix },
    exports: ['nightly', 'other'].map((name) => ({ name, size: 2 })),
  };
  const file = join(workDirectory, 'consumers.json');
  await writeFile(file, JSON.stringify(settings));
  const app = join(import.meta.dirname, '../support/consumer-app.ts');
  const assembly = join(workDirectory, 'consumers.out');
  const deployed = await deployApp({ file: app, context: { consumers: file }, assembly }, [stackName]);
  const outputs = deployed[stackName] ?? {};
  await putApiKey({ secretId: String(outputs.AcmeApiKeySecretId) }, apiKey);
  const { stateMachineArn } = serviceOutput(outputs);
  const received: unknown[] = [];
  const subscription = openEventQueue(String(outputs.EventsUrl));
  const run = async (exportName: string) => (await runExecution({ stateMachineArn, exportName })).arn;
  const receive = async (arn: string) =>
    await subscription.find('about the run', ({ detail }) => {
      const { execution } = detail as { execution: string };
      received.push(execution);
      return execution === arn;
    });
  {
    await using _ = await openService(3, { faults: onPage(1, errorResponse(404)) });
    const event = await receive(await run('nightly'));
    expect(event['detail-type']).toBe('Report Export Failed');
    expect(problemsIn('failed.v1', event.detail)).toEqual([]);
  }
  await using _ = await openService(3);
  // First, so that an event about it would arrive before the other.
  const other = await run('other');
  const { detail } = await receive(await run('nightly'));
  expect(received).not.toContain(other);
  expect(problemsIn('completed.v1', detail)).toEqual([]);

  const { result } = detail as { readonly result: { readonly manifest: string } };
  const read = async (key: string) => {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: outputs.BucketName, Key: prefix + key }));
    return JSON.parse((await Body?.transformToString()) ?? '') as unknown;
  };
  expect(problemsIn('manifest.v1', await read(result.manifest))).toEqual([]);
  expect(problemsIn('latest.v1', await read('nightly/latest.json'))).toEqual([]);
  const summary = await read(result.manifest.replace('manifest.json', 'run.json'));
  expect(problemsIn('run.v1', summary)).toEqual([]);
  expect(summary).toMatchObject(result);
});
