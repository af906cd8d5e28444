import { beforeAll, describe, expect, it } from 'vitest';
import { errorResponse, onPage } from '../../../lib/report-service/simulator/faults.ts';
import { openMailbox } from '../support/event-queue.ts';
import { ended, run, start } from '../support/executions.ts';
import { type Deployment, theDeployment } from '../support/exporter-stack.ts';
import { headOf, keysOf, readNewest } from '../support/published-run.ts';
import { ids, openService } from '../support/service.ts';

describe('A deployed export', () => {
  let deployed: Deployment;
  beforeAll(async () => {
    deployed = await theDeployment();
  });

  it('publishes every report once and in order, and in the next run what has come since', async () => {
    const machine = deployed.stateMachineOf('daily');
    const mailbox = openMailbox(deployed.events);
    await using service = await openService(7);

    const first = await run(machine);

    expect(first.states.at(-1)).toBe('Completed');
    const published = await readNewest(deployed, 'daily');
    expect(published.ids).toEqual(ids(1, 7));
    expect(published.manifest.pages.map(({ reports }) => reports)).toEqual([2, 2, 2, 1]);
    expect(published.manifest.totals).toMatchObject({ pages: 4, reports: 7 });
    expect(await keysOf(deployed, 'daily')).toHaveLength(4 + 2);
    const { watermark } = await headOf(deployed, 'daily');
    expect(watermark).toMatchObject({ instant: first.output.watermark, source: service.baseUrl });

    const completed = await mailbox.event('says that the run has completed', ({ detail }) => isOf(detail, first.arn));
    expect(completed).toMatchObject({
      source: 'report-exporter',
      'detail-type': 'Report Export Completed',
      detail: { export: 'daily', execution: first.arn, result: { manifest: published.latest.manifest, reports: 7 } },
    });
    // A consumer may as well wait for the manifest itself to appear.
    await mailbox.event('tells of the new manifest', ({ source, detail }) => {
      return source === 'aws.s3' && JSON.stringify(detail).includes(published.latest.manifest);
    });

    service.arrive(8, 9, 10);
    const second = await run(machine);

    expect(second.output.since).toBe(watermark?.instant);
    const next = await readNewest(deployed, 'daily');
    expect(next.ids).toEqual(ids(8, 10));
    expect(next.latest.sequence).toBeGreaterThan(published.latest.sequence);
    expect((await headOf(deployed, 'daily')).watermark?.instant).toBe(second.output.watermark);
  });

  it('starts where {"since"} says, and fails in BeginRun where the input says nothing it understands', async () => {
    const machine = deployed.stateMachineOf('asked');
    const mailbox = openMailbox(deployed.events);
    await using service = await openService(5);

    for (const [input, named] of [
      [{ snice: '2026-11-20T00:00:04Z' }, 'snice'],
      [{ since: 'yesterday' }, 'since'],
      [[], 'start input'],
      ['"now"', 'start input'],
    ] as const) {
      const refused = await run(machine, input);
      expect(refused).toMatchObject({ status: 'FAILED', error: 'ConfigurationError' });
      expect(refused.cause).toContain('The start input cannot be used. Give {}');
      expect(refused.cause).toContain(named);
      expect(refused.states).toEqual(['BeginRun', 'FailRun', 'AnnounceFailed', 'Failed']);
      expect(await mailbox.event('says so', ({ detail }) => isOf(detail, refused.arn))).toMatchObject({
        'detail-type': 'Report Export Failed',
        detail: { export: 'asked', error: 'ConfigurationError', failed: { run: null } },
      });
    }
    expect(service.exchanges).toEqual([]);

    expect((await run(machine, { since: '2026-11-20T00:00:04Z' })).states.at(-1)).toBe('Completed');
    expect((await readNewest(deployed, 'asked')).ids).toEqual(ids(4, 5));

    // Nothing is dated so late: a run without reports is published too, so that its readers know.
    await run(machine, { since: '2200-01-01T00:00:00Z' });
    expect((await readNewest(deployed, 'asked')).manifest.totals).toMatchObject({ pages: 1, reports: 0 });
  });

  it('refuses another "since" while a run is unfinished, and begins afresh with {"restart": true}', async () => {
    const machine = deployed.stateMachineOf('restarted');
    {
      await using _ = await openService(5, { faults: onPage(2, errorResponse(403)) });
      expect((await run(machine)).error).toBe('ConfigurationError');
    }
    const [abandoned] = await keysOf(deployed, 'restarted');
    await using service = await openService(5);

    const other = { since: '2026-11-20T00:00:02Z' };
    const refused = await run(machine, other);
    expect(refused.error).toBe('ConfigurationError');
    expect(refused.cause).toContain('since 1970-01-01T00:00:00Z, now 2026-11-20T00:00:02Z');
    expect(service.exchanges).toEqual([]);

    expect((await run(machine, { ...other, restart: true })).states.at(-1)).toBe('Completed');
    const { ids: published, manifest } = await readNewest(deployed, 'restarted');
    expect(published).toEqual(ids(2, 5));
    expect(abandoned).not.toContain(manifest.run);
  });

  it('lets a start that overlaps a living run end as skipped', async () => {
    const machine = deployed.stateMachineOf('overlapping');
    await using service = await openService(5, { holdBack: 'r3' });

    const running = await start(machine);
    await service.pendingBackoff;
    const overlapping = await run(machine);
    service.release();

    expect(overlapping).toMatchObject({ status: 'SUCCEEDED', output: { next: 'skip' } });
    expect(overlapping.states).toEqual(['BeginRun', 'HasWork', 'Skipped']);
    expect(overlapping.output.reason).toContain(running);
    expect((await ended(running)).states.at(-1)).toBe('Completed');
    expect((await readNewest(deployed, 'overlapping')).ids).toEqual(ids(1, 5));
    expect(service.exchanges).toHaveLength(3);
  });
});

function isOf(detail: unknown, execution: string): boolean {
  return (detail as { execution?: unknown }).execution === execution;
}
