import { DeleteScheduleCommand, ListSchedulesCommand } from '@aws-sdk/client-scheduler';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scheduler } from '../support/aws.ts';
import { eventually } from '../support/eventually.ts';
import { endOfExecution, executionsOf } from '../support/executions.ts';
import { deployWith, type ExporterStack, exporterStack } from '../support/exporter-stack.ts';
import { exportStateOf, readNewestRun } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

describe('a deployed schedule', () => {
  let deployed: ExporterStack;
  // Further runs would send requests to the services of other tests.
  afterAll(async () => {
    const { Schedules = [] } = await scheduler.send(new ListSchedulesCommand({}));
    for (const { Name, GroupName } of Schedules.filter((each) => each.Name === 'ticking')) {
      await scheduler.send(new DeleteScheduleCommand({ Name, GroupName }));
    }
  });
  beforeAll(async () => {
    deployed = await exporterStack();
  });

  it('starts no run while it is disabled, and starts runs once it is enabled by an update', async () => {
    const machine = deployed.stateMachineOf('ticking');
    await using service = await openService(3);
    expect(await executionsOf(machine)).toEqual([]);

    const outputs = await deployWith({
      ticking: { schedule: { expression: 'rate(1 minute)', enabled: true, freshness: 'none' } },
    });

    // The update replaced nothing else: bucket and table are the same.
    expect(outputs).toMatchObject({ BucketName: deployed.bucket, TableName: deployed.table });
    const started = await eventually('the schedule to fire', async () => (await executionsOf(machine))[0]);
    const end = await endOfExecution(started.arn);
    expect(end.states.at(-1)).toBe('Completed');
    expect((await readNewestRun(deployed, 'ticking')).ids).toEqual(reportIds(1, 3));
    expect(service.exchanges).toHaveLength(2);

    // MiniStack does not replace the placeholder. AWS replaces it with the scheduled time.
    const input = JSON.parse(end.history[0]?.executionStartedEventDetails?.input ?? '');
    expect(input).toEqual({ export: 'ticking', scheduledTime: '<aws.scheduler.scheduled-time>' });
    expect((await exportStateOf(deployed, 'ticking')).lastScheduledTime).toBe(input.scheduledTime);
  });
});
