import { beforeAll, describe, expect, it } from 'vitest';
import { errorResponse, onPage } from '../../support/service/faults.ts';
import { openEventQueue } from '../support/event-queue.ts';
import { endOfExecution, runExecution, runExecutionWith, startExecution } from '../support/executions.ts';
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

  it('neither publishes nor announces a run without reports, with publishEmptyRuns: false', async () => {
    const machine = deployed.stateMachineOf('silent');
    const eventQueue = openEventQueue(deployed.eventQueue);
    await using service = await openService(0);

    const empty = await runExecution(machine);

    expect(empty.states.at(-1)).toBe('Completed');
    expect(empty.states).not.toContain('AnnounceCompleted');
    expect(empty.output).toMatchObject({ pages: 1, reports: 0, manifest: null });
    expect((await keysOf(deployed, 'silent')).map((key) => key.split('/').at(-1))).toEqual(['page-000001.xml.gz']);
    expect((await exportStateOf(deployed, 'silent')).watermark?.instant).toBe(empty.output.watermark);

    service.addReports(1, 2);
    const second = await runExecution(machine);

    // The first event about this export is that of the second run.
    const event = await eventQueue.find(
      'about the export',
      ({ detail }) => (detail as { export?: unknown }).export === 'silent',
    );
    expect(isOf(event.detail, second.arn)).toBe(true);
    expect((await readNewestRun(deployed, 'silent')).ids).toEqual(reportIds(1, 2));
  });

  it('starts at the given "since", and fails in BeginRun if the start input is invalid', async () => {
    const machine = deployed.stateMachineOf('since');
    const eventQueue = openEventQueue(deployed.eventQueue);
    await using service = await openService(5);

    for (const [input, problem, exportName] of [
      ['{"export":"since","snice":"2026-11-20T00:00:04Z"}', 'snice', 'since'],
      ['{"export":"since","since":"yesterday"}', 'since', 'since'],
      ['{"export":"sinse"}', 'There is no export "sinse". Exports of this service: daily, ', null],
      ['{}', 'The start input does not name an export', null],
      ['[]', 'The start input does not name an export', null],
      ['"now"', 'The start input does not name an export', null],
    ] as const) {
      const failed = await runExecutionWith(machine, input);
      expect(failed).toMatchObject({ status: 'FAILED', error: 'ConfigurationError' });
      expect(JSON.parse(failed.cause ?? '').errorMessage).toContain(problem);
      expect(failed.states).toEqual(['BeginRun', 'FailRun', 'AnnounceFailed', 'Failed']);
      expect(await eventQueue.find('about the failure', ({ detail }) => isOf(detail, failed.arn))).toMatchObject({
        'detail-type': 'Report Export Failed',
        detail: { export: exportName, error: 'ConfigurationError', failed: { run: null } },
      });
    }
    expect(service.exchanges).toEqual([]);

    expect((await runExecution(machine, { since: '2026-11-20T00:00:04Z' })).states.at(-1)).toBe('Completed');
    expect((await readNewestRun(deployed, 'since')).ids).toEqual(reportIds(4, 5));

    // A run without reports is published, too.
    await runExecution(machine, { since: '2026-11-21T00:00:00Z' });
    expect((await readNewestRun(deployed, 'since')).manifest.totals).toMatchObject({ pages: 1, reports: 0 });
  });

  it('rejects another "since" while a run is unfinished, and starts over with {"restart": true}', async () => {
    const machine = deployed.stateMachineOf('restarted');
    {
      await using _ = await openService(5, { faults: onPage(2, errorResponse(403)) });
      expect((await runExecution(machine)).error).toBe('ConfigurationError');
    }
    const [abandoned] = await keysOf(deployed, 'restarted');
    await using service = await openService(5);

    const otherSince = { since: '2026-11-20T00:00:02Z' };
    const rejected = await runExecution(machine, otherSince);
    expect(rejected.error).toBe('ConfigurationError');
    expect(rejected.cause).toContain('since was 1970-01-01T00:00:00Z and is now 2026-11-20T00:00:02Z');
    expect(service.exchanges).toEqual([]);

    expect((await runExecution(machine, { ...otherSince, restart: true })).states.at(-1)).toBe('Completed');
    const { ids: published, manifest } = await readNewestRun(deployed, 'restarted');
    expect(published).toEqual(reportIds(2, 5));
    expect(abandoned).not.toContain(manifest.run);
  });

  it('skips a start while a run is in progress', async () => {
    const machine = deployed.stateMachineOf('overlapping');
    await using service = await openService(5, { pauseBefore: 'r3' });

    const running = await startExecution(machine);
    await service.paused;
    const overlapping = await runExecution(machine);
    service.release();

    expect(overlapping).toMatchObject({ status: 'SUCCEEDED', output: { next: 'skip' } });
    expect(overlapping.states).toEqual(['BeginRun', 'HasWork', 'Skipped']);
    expect(overlapping.output.reason).toContain(running);
    expect((await endOfExecution(running)).states.at(-1)).toBe('Completed');
    expect((await readNewestRun(deployed, 'overlapping')).ids).toEqual(reportIds(1, 5));
    expect(service.exchanges).toHaveLength(3);
  });
});

function isOf(detail: unknown, execution: string): boolean {
  return (detail as { execution?: unknown }).execution === execution;
}
