import { readFile } from 'node:fs/promises';
import { ScanCommand } from '@aws-sdk/client-dynamodb';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  combineFaults,
  combineScripts,
  errorResponse,
  type Fault,
  malformedXml,
  onPage,
  throttled,
  withBody,
} from '../../support/service/faults.ts';
import { dynamoDb, getJson, logEvents } from '../support/aws.ts';
import { templateFile } from '../support/cdk.ts';
import { openEventQueue } from '../support/event-queue.ts';
import { endOfExecution, executionsOf, runExecution } from '../support/executions.ts';
import { apiKey, type ExporterStack, exporterStack, stackName } from '../support/exporter-stack.ts';
import { keysOf, readNewestRun } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

/** A service that echoes the API key in an error. */
const echoingKey: Fault = combineFaults(
  errorResponse(403),
  withBody(JSON.stringify({ error: `${apiKey} may not do this` })),
);

describe('a deployed export of a failing service', () => {
  let deployed: ExporterStack;
  beforeAll(async () => {
    deployed = await exporterStack();
  });

  it('retries transient errors by their names, and waits out a long Retry-After in the state machine', async () => {
    await using service = await openService(7, {
      faults: combineScripts(onPage(2, errorResponse(503)), onPage(3, malformedXml), onPage(4, throttled('21'))),
    });

    const end = await runExecution(deployed.stateMachineOf('outage'));

    expect(end.failures).toEqual(['ServiceUnavailableError', 'ContractError']);
    expect(end.states.filter((state) => state === 'WaitForService')).toHaveLength(1);
    expect(end.states.at(-1)).toBe('Completed');
    expect((await readNewestRun(deployed, 'outage')).ids).toEqual(reportIds(1, 7));
    expect(service.exchanges).toHaveLength(4 + 3);
  });

  it('fails with the original error, sends an event, and resumes at the next start', async () => {
    const machine = deployed.stateMachineOf('forbidden');
    const eventQueue = openEventQueue(deployed.eventQueue);
    await using failingService = await openService(5, { faults: onPage(2, echoingKey) });

    const failed = await runExecution(machine);

    expect(failed).toMatchObject({ status: 'FAILED', error: 'ConfigurationError' });
    expect(failed.cause).toContain('Report service responded with 403 for page 2 of run');
    // Its text is redacted, because it contains the API key.
    expect(failed.cause).toContain('[not shown: it contains the API key]');
    expect(failed.failures).toEqual(['ConfigurationError']);
    expect(failed.states.slice(-3)).toEqual(['FailRun', 'AnnounceFailed', 'Failed']);
    const event = await eventQueue.find('about the failure', ({ detail }) => {
      return (detail as { execution?: unknown }).execution === failed.arn;
    });
    expect(event).toMatchObject({
      source: 'report-exporter',
      'detail-type': 'Report Export Failed',
      detail: { export: 'forbidden', error: 'ConfigurationError', failed: { pages: 1, resumable: true } },
    });
    expect((await keysOf(deployed, 'forbidden')).map((key) => key.split('/').at(-1))).toEqual(['page-000001.xml.gz']);
    expect(failingService.exchanges.map(({ status }) => status)).toEqual([200, 403]);
    await failingService.close();

    await using service = await openService(5);
    expect((await runExecution(machine)).states.at(-1)).toBe('Completed');
    expect((await readNewestRun(deployed, 'forbidden')).ids).toEqual(reportIds(1, 5));
    expect(service.exchanges).toHaveLength(2);
    expect(JSON.stringify(event)).not.toContain(apiKey);
  });

  it('keeps the API key out of templates, environments, execution histories, logs and the table', async () => {
    const { Functions } = await getJson<{ Functions: object[] }>('lambda', '/2015-03-31/functions/?MaxItems=1000');
    const executions = await executionsOf(deployed.stateMachineOf('forbidden'));
    const histories = await Promise.all(executions.map(({ arn }) => endOfExecution(arn)));
    const logs = await logEvents();
    const { Items } = await dynamoDb.send(new ScanCommand({ TableName: deployed.table }));
    const texts: Record<string, string> = {
      template: await readFile(templateFile(stackName), 'utf8'),
      functions: JSON.stringify(Functions),
      histories: JSON.stringify(histories),
      logs: JSON.stringify(logs),
      table: JSON.stringify(Items),
    };

    // Each has its usual content: otherwise the absence of the key would prove nothing.
    expect(texts).toMatchObject({
      template: expect.stringContaining('AWS::Lambda::Function'),
      functions: expect.stringContaining('apiKeySecret'),
      histories: expect.stringContaining('responded with 403'),
      logs: expect.stringContaining('attempt-failed'),
      table: expect.stringContaining('forbidden'),
    });
    expect(Object.keys(texts).filter((name) => texts[name]?.includes(apiKey))).toEqual([]);
  });
});
