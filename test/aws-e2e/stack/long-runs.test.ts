import { StopExecutionCommand } from '@aws-sdk/client-sfn';
import { beforeAll, describe, expect, it } from 'vitest';
import { stepFunctions } from '../support/aws.ts';
import { eventually } from '../support/eventually.ts';
import { ended, executionsOf, run, start } from '../support/executions.ts';
import { type Deployment, theDeployment } from '../support/exporter-stack.ts';
import { keysOf, readNewest } from '../support/published-run.ts';
import { ids, openService } from '../support/service.ts';

describe('A deployed run', () => {
  let deployed: Deployment;
  beforeAll(async () => {
    deployed = await theDeployment();
  });

  it('that is too long for one execution continues itself in others, named after it', async () => {
    const machine = deployed.stateMachineOf('long');
    await using service = await openService(10);

    const first = await run(machine);

    expect(first.states.at(-1)).toBe('Continued');
    const third = await eventually('the third segment', async () => {
      return (await executionsOf(machine)).find(({ name }) => name.endsWith('-3'));
    });
    const last = await ended(third.arn);
    expect(last.states.at(-1)).toBe('Completed');
    const { manifest, ids: published } = await readNewest(deployed, 'long');
    expect(published).toEqual(ids(1, 10));
    const names = (await executionsOf(machine)).map(({ name }) => name);
    expect(names.toSorted()).toEqual([first.name, `${manifest.run}-2`, `${manifest.run}-3`].toSorted());
    const second = await ended(first.arn.replace(first.name, `${manifest.run}-2`));
    expect(second.states.at(-1)).toBe('Continued');
    expect(JSON.parse(second.history[0]?.executionStartedEventDetails?.input ?? '')).toEqual({
      continues: first.arn,
      waits: 0,
    });
    expect(service.exchanges).toHaveLength(10);
  });

  it('that is stopped half-way shows readers nothing, and is resumed without fetching a logged page again', async () => {
    const machine = deployed.stateMachineOf('stopped');
    await using service = await openService(7, { holdBack: 'r5' });

    const executionArn = await start(machine);
    await service.pendingBackoff;
    await stepFunctions.send(new StopExecutionCommand({ executionArn, cause: 'The test stops it' }));

    expect((await ended(executionArn)).status).toBe('ABORTED');
    const left = await keysOf(deployed, 'stopped');
    expect(left.map((key) => key.split('/').at(-1))).toEqual(['page-000001.xml', 'page-000002.xml']);
    const logged = service.exchanges.map(({ cursor }) => cursor);
    expect(logged).toHaveLength(2);

    const resumed = await run(machine);

    expect(resumed.states.at(-1)).toBe('Completed');
    const published = await readNewest(deployed, 'stopped');
    expect(published.ids).toEqual(ids(1, 7));
    expect(left[0]).toContain(published.manifest.run);
    for (const cursor of logged) {
      expect(service.exchanges.filter((exchange) => exchange.cursor === cursor)).toHaveLength(1);
    }

    // The function that was at page 3 when its execution was stopped gets its answer only now. It changes nothing.
    service.release();
    await eventually('the answer that was held back', async () => service.exchanges.length === 4 + 1 || undefined);
    expect(await readNewest(deployed, 'stopped')).toEqual(published);
    expect(await keysOf(deployed, 'stopped')).toHaveLength(4 + 2);
  });
});
