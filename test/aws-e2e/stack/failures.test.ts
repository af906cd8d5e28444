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
} from '../../../lib/report-service/simulator/faults.ts';
import { ask, dynamoDb, get } from '../support/aws.ts';
import { templateFile } from '../support/cdk.ts';
import { openMailbox } from '../support/event-queue.ts';
import { ended, executionsOf, run } from '../support/executions.ts';
import { type Deployment, putKey, stackName, theDeployment, theKey } from '../support/exporter-stack.ts';
import { keysOf, readNewest } from '../support/published-run.ts';
import { ids, openService } from '../support/service.ts';

/** A service that is careless enough to show the key it was sent. */
const tellingTheKey: Fault = combineFaults(
  errorResponse(403),
  withBody(JSON.stringify({ error: `${theKey} may not do this` })),
);

describe('A deployed export of a service in trouble', () => {
  let deployed: Deployment;
  beforeAll(async () => {
    deployed = await theDeployment();
  });

  it('tries again what may pass, each failure by its name', async () => {
    await using service = await openService(7, {
      faults: combineScripts(onPage(2, errorResponse(503)), onPage(3, malformedXml)),
    });

    const end = await run(deployed.stateMachineOf('outage'));

    expect(end.failures).toEqual(['ServiceUnavailableError', 'ContractError']);
    expect(end.states.at(-1)).toBe('Completed');
    expect((await readNewest(deployed, 'outage')).ids).toEqual(ids(1, 7));
    expect(service.exchanges).toHaveLength(4 + 2);
  });

  it('waits in the state machine where the service asks for more than a short while', async () => {
    await using service = await openService(3, { faults: onPage(2, throttled('3')) });

    const end = await run(deployed.stateMachineOf('patient'));

    expect(end.failures).toEqual([]);
    expect(end.states.filter((state) => state === 'WaitForService')).toHaveLength(1);
    expect((await readNewest(deployed, 'patient')).ids).toEqual(ids(1, 3));
    expect(service.exchanges.map(({ status }) => status)).toEqual([200, 429, 200]);
  });

  it('fails with the real error, says so on the event bus, and goes on from there when the trouble is over', async () => {
    const machine = deployed.stateMachineOf('forbidden');
    const mailbox = openMailbox(deployed.events);
    await using refusal = await openService(5, { faults: onPage(2, tellingTheKey) });

    const failed = await run(machine);

    expect(failed).toMatchObject({ status: 'FAILED', error: 'ConfigurationError' });
    expect(failed.cause).toContain('Report service responded with 403 for page 2 of run');
    // It quotes what the service said, but for the key.
    expect(failed.cause).toContain('may not do this');
    expect(failed.failures).toEqual(['ConfigurationError']);
    expect(failed.states.slice(-3)).toEqual(['FailRun', 'AnnounceFailed', 'Failed']);
    const event = await mailbox.event('tells of the failure', ({ detail }) => {
      return (detail as { execution?: unknown }).execution === failed.arn;
    });
    expect(event).toMatchObject({
      source: 'report-exporter',
      'detail-type': 'Report Export Failed',
      detail: { export: 'forbidden', error: 'ConfigurationError', failed: { pages: 1, resumable: true } },
    });
    expect((await keysOf(deployed, 'forbidden')).map((key) => key.split('/').at(-1))).toEqual(['page-000001.xml']);
    expect(refusal.exchanges.map(({ status }) => status)).toEqual([200, 403]);
    await refusal.close();

    await using service = await openService(5);
    expect((await run(machine)).states.at(-1)).toBe('Completed');
    expect((await readNewest(deployed, 'forbidden')).ids).toEqual(ids(1, 5));
    expect(service.exchanges).toHaveLength(2);
    expect(JSON.stringify(event)).not.toContain(theKey);
  });

  it('takes a new key from the secret as soon as the old one is refused', async () => {
    const machine = deployed.stateMachineOf('rotated');
    {
      await using _ = await openService(1);
      expect((await run(machine)).states.at(-1)).toBe('Completed');
    }
    const newKey = `${theKey}-rotated`;
    await putKey(deployed, newKey);
    try {
      await using service = await openService(3, { apiKey: newKey });

      const end = await run(machine, { since: '2026-11-20T00:00:00Z' });

      expect(end.failures).toEqual([]);
      expect((await readNewest(deployed, 'rotated')).ids).toEqual(ids(1, 3));
      // The function that knew the old key is still at work, and looks again once.
      expect(service.exchanges.map(({ status }) => status)).toEqual([401, 200, 200]);
    } finally {
      await putKey(deployed, theKey);
    }
  });

  it('keeps the API key out of templates, environments, histories, logs and the table', async () => {
    const { Functions } = await get<{ Functions: object[] }>('lambda', '/2015-03-31/functions/?MaxItems=1000');
    const executions = await executionsOf(deployed.stateMachineOf('forbidden'));
    const histories = await Promise.all(executions.map(({ arn }) => ended(arn)));
    const logs = await logEvents();
    const { Items } = await dynamoDb.send(new ScanCommand({ TableName: deployed.table }));
    const places: Record<string, string> = {
      template: await readFile(templateFile(stackName), 'utf8'),
      functions: JSON.stringify(Functions),
      histories: JSON.stringify(histories),
      logs: JSON.stringify(logs),
      table: JSON.stringify(Items),
    };

    // Each place does hold what belongs there; only then does the absence of the key mean something.
    expect(places).toMatchObject({
      template: expect.stringContaining('AWS::Lambda::Function'),
      functions: expect.stringContaining('API_KEY_SECRET_ID'),
      histories: expect.stringContaining('responded with 403'),
      logs: expect.stringContaining('attempt-failed'),
      table: expect.stringContaining('forbidden'),
    });
    expect(Object.keys(places).filter((place) => places[place]?.includes(theKey))).toEqual([]);
  });
});

/** Of every log group there is. */
async function logEvents(): Promise<object[]> {
  const { logGroups } = await ask<{ logGroups: { logGroupName: string }[] }>(
    'logs',
    'Logs_20140328.DescribeLogGroups',
    {},
  );
  const found = logGroups.map(({ logGroupName }) =>
    ask<{ events: object[] }>('logs', 'Logs_20140328.FilterLogEvents', { logGroupName, limit: 10_000 }),
  );
  return (await Promise.all(found)).flatMap(({ events }) => events);
}
