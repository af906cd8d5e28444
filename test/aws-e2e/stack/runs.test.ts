import { beforeAll, describe, expect, it } from 'vitest';
import { openEventQueue } from '../support/event-queue.ts';
import { runExecution } from '../support/executions.ts';
import { type ExporterStack, exporterStack } from '../support/exporter-stack.ts';
import { exportStateOf, keysOf, readNewestRun } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

describe('a deployed export', () => {
  let deployed: ExporterStack;
  beforeAll(async () => {
    deployed = await exporterStack();
  });

  it('publishes every report once and in order, and new reports in the next run', async () => {
    const machine = deployed.stateMachineOf('daily');
    const eventQueue = openEventQueue(deployed.eventQueue);
    await using service = await openService(7);

    const first = await runExecution(machine);

    expect(first.states.at(-1)).toBe('Completed');
    const published = await readNewestRun(deployed, 'daily');
    expect(published.ids).toEqual(reportIds(1, 7));
    expect(published.manifest.pages.map(({ reports }) => reports)).toEqual([2, 2, 2, 1]);
    expect(published.manifest.totals).toMatchObject({ pages: 4, reports: 7 });
    expect(await keysOf(deployed, 'daily')).toHaveLength(4 + 3);
    const { watermark } = await exportStateOf(deployed, 'daily');
    expect(watermark).toMatchObject({ instant: first.output.watermark, source: service.baseUrl });

    const completed = await eventQueue.find('about the completion', ({ detail }) => isOf(detail, first.arn));
    expect(completed).toMatchObject({
      source: 'report-exporter',
      'detail-type': 'Report Export Completed',
      detail: { export: 'daily', execution: first.arn, result: { manifest: published.latest.manifest, reports: 7 } },
    });

    service.addReports(8, 9, 10);
    const second = await runExecution(machine);

    expect(second.output.since).toBe(watermark?.instant);
    const next = await readNewestRun(deployed, 'daily');
    expect(next.ids).toEqual(reportIds(8, 10));
    expect(next.latest.sequence).toBeGreaterThan(published.latest.sequence);
    expect((await exportStateOf(deployed, 'daily')).watermark?.instant).toBe(second.output.watermark);
  });
});

function isOf(detail: unknown, execution: string): boolean {
  return (detail as { execution?: unknown }).execution === execution;
}
