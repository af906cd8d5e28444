import { StopExecutionCommand } from '@aws-sdk/client-sfn';
import { beforeAll, describe, expect, it } from 'vitest';
import { stepFunctions } from '../support/aws.ts';
import { eventually } from '../support/eventually.ts';
import { endOfExecution, executionsOf, runExecution, startExecution } from '../support/executions.ts';
import { type ExporterStack, exporterStack } from '../support/exporter-stack.ts';
import { keysOf, readNewestRun } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

describe('a deployed run', () => {
  let deployed: ExporterStack;
  beforeAll(async () => {
    deployed = await exporterStack();
  });

  it('that is too long for one execution continues in others, which are named after it', async () => {
    const machine = deployed.stateMachineOf('long');
    await using _ = await openService(10);

    const first = await runExecution(machine);

    expect(first.states.at(-1)).toBe('Continued');
    const third = await eventually('the third execution', async () => {
      return (await executionsOf(machine)).find(({ name }) => name.endsWith('-3'));
    });
    const last = await endOfExecution(third.arn);
    expect(last.states.at(-1)).toBe('Completed');
    const { manifest, ids: published } = await readNewestRun(deployed, 'long');
    expect(published).toEqual(reportIds(1, 10));
    const names = (await executionsOf(machine)).map(({ name }) => name);
    expect(names.toSorted()).toEqual([first.name, `long-${manifest.run}-2`, `long-${manifest.run}-3`].toSorted());
    const second = await endOfExecution(first.arn.replace(first.name, `long-${manifest.run}-2`));
    expect(second.states.at(-1)).toBe('Continued');
    expect(JSON.parse(second.history[0]?.executionStartedEventDetails?.input ?? '')).toEqual({
      export: 'long',
      continues: first.arn,
      waits: 0,
    });
  });

  it('that is stopped shows nothing to readers, and resumes without fetching a logged page again', async () => {
    const machine = deployed.stateMachineOf('stopped');
    await using service = await openService(7, { pauseBefore: 'r5' });

    const executionArn = await startExecution(machine);
    await service.paused;
    await stepFunctions.send(new StopExecutionCommand({ executionArn, cause: 'The test stops it' }));

    expect((await endOfExecution(executionArn)).status).toBe('ABORTED');
    const storedKeys = await keysOf(deployed, 'stopped');
    expect(storedKeys.map((key) => key.split('/').at(-1))).toEqual(['page-000001.xml.gz', 'page-000002.xml.gz']);
    const logged = service.exchanges.map(({ cursor }) => cursor);
    expect(logged).toHaveLength(2);

    const resumed = await runExecution(machine);

    expect(resumed.states.at(-1)).toBe('Completed');
    const published = await readNewestRun(deployed, 'stopped');
    expect(published.ids).toEqual(reportIds(1, 7));
    expect(storedKeys[0]).toContain(published.manifest.run);
    for (const cursor of logged) {
      expect(service.exchanges.filter((exchange) => exchange.cursor === cursor)).toHaveLength(1);
    }

    // The function that was fetching page 3 gets its response only now. It changes nothing.
    service.release();
    await eventually('the paused response', async () => service.exchanges.length === 4 + 1 || undefined);
    expect(await readNewestRun(deployed, 'stopped')).toEqual(published);
    expect(await keysOf(deployed, 'stopped')).toHaveLength(4 + 3);
  });
});
