import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { ended, executionsOf } from '../support/executions.ts';
import { type Deployment, deployWith, theDeployment } from '../support/exporter-stack.ts';
import { headOf, readNewest } from '../support/published-run.ts';
import { ids, openService } from '../support/service.ts';

describe('A deployed schedule', () => {
  let deployed: Deployment;
  beforeAll(async () => {
    deployed = await theDeployment();
  });

  it('does nothing while it is switched off; switched on by another deployment, it starts a run by itself', async () => {
    const machine = deployed.stateMachineOf('ticking');
    await using service = await openService(3);
    expect(await executionsOf(machine)).toEqual([]);

    const outputs = await deployWith({
      ticking: { schedule: { expression: 'rate(1 minute)', enabled: true, freshness: 'none' } },
    });

    // The deployment has touched nothing else: bucket and table are the same ones.
    expect(outputs).toMatchObject({ BucketName: deployed.bucket, TableName: deployed.table });
    const started = await eventually('the schedule to fire', async () => (await executionsOf(machine))[0]);
    const end = await ended(started.arn);
    expect(end.states.at(-1)).toBe('Completed');
    expect((await readNewest(deployed, 'ticking')).ids).toEqual(ids(1, 3));
    expect(service.exchanges).toHaveLength(2);

    // MiniStack leaves the placeholder as it stands; AWS puts the time there.
    const input = JSON.parse(end.history[0]?.executionStartedEventDetails?.input ?? '');
    expect(input).toEqual({ scheduledTime: '<aws.scheduler.scheduled-time>' });
    expect((await headOf(deployed, 'ticking')).lastScheduledTime).toBe(input.scheduledTime);
  });
});
