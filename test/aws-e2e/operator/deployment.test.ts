import { StopExecutionCommand } from '@aws-sdk/client-sfn';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStack } from '../../../lib/aws/stack/stack.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { ExportTarget, Target, Retry, StartRequest } from '../../../lib/target/target.ts';
import type { Instant } from '../../../lib/core/model.ts';
import type { ExportEvent, RunRef } from '../../../lib/core/ports.ts';
import { combineScripts, errorResponse, onPage, throttled } from '../../support/service/faults.ts';
import { collect, fetchPage } from '../../support/builders.ts';
import { noMfa } from '../../support/aws/mocked-stack.ts';
import { stepFunctions } from '../support/aws.ts';
import { eventually } from '../support/eventually.ts';
import { deployOperatorStack, operatorStackName, stubOperatorEnvironment } from '../support/operator-stack.ts';
import { openService } from '../support/service.ts';
import { manifestKeyOf } from '../../support/builders.ts';

/** Starts an export and follows it to its end, or only until the execution has started. */
function follow(deployed: ExportTarget, request: StartRequest = {}, until: 'end' | 'start' = 'end') {
  const events: ExportEvent[] = [];
  const retries: Retry[] = [];
  const messages: string[] = [];
  const interruption = new AbortController();
  const end = deployed.start(request, {
    follow: true,
    emit: (event) => events.push(event),
    onRetry: (retry) => retries.push(retry),
    notify: (text) => {
      messages.push(text);
      if (until === 'start') interruption.abort();
    },
    signal: interruption.signal,
  });
  const executions = () => messages.map((text) => text.slice(text.indexOf('arn:')));
  return { end, events, retries, executions };
}

/** The active run, or the newest one. */
async function newestRun({ log, name }: ExportTarget): Promise<RunRef> {
  const state = await log.exportState(name);
  if (state?.active !== undefined) return state.active;
  const { done, value } = await log.runs(name)[Symbol.asyncIterator]().next();
  if (done === true) throw new Error(`Export ${name} has no run`);
  return value;
}

describe('a deployed stack', () => {
  let stack: Target;
  beforeAll(async () => {
    await deployOperatorStack();
    stack = await openStack({
      stackName: operatorStackName,
      env: stubOperatorEnvironment(),
      runtime: systemRuntime,
      askMfaCode: noMfa,
    });
  });
  afterAll(async () => await stack[Symbol.asyncDispose]());

  it('lists the exports in its outputs, with their deployed settings', async () => {
    expect(stack.name).toBe(`stack ${operatorStackName} in us-east-1`);
    expect(stack.option).toBe(`--stack ${operatorStackName}`);
    expect(await stack.exportNames()).toEqual([
      'commanded',
      'failing',
      'followed',
      'idle',
      'overlapped',
      'segmented',
      'timed',
    ]);
    const segmented = await stack.open('segmented');
    expect(segmented.definition).toMatchObject({ name: 'segmented', request: { size: 1, format: 'XML' } });
    expect(segmented.definition.limits.iterationsPerExecution).toBe(2);
    expect(segmented.service.settings).toMatchObject({ vendor: 'ACME', cursorIn: 'query' });
    expect(segmented.service.keySource).toMatch(/^secret arn:aws:secretsmanager:/);
    expect(segmented.store.locate('segmented/latest.json')).toMatch(
      /^s3:\/\/.*\/reports\/acme\/segmented\/latest\.json$/,
    );
    await expect(stack.open('daily')).rejects.toThrow(
      /no export daily in stack .* Its exports: commanded, failing, followed, idle,/,
    );
  });

  it('reads the schedule of an export', async () => {
    expect(await (await stack.open('followed')).readSchedule()).toEqual({ kind: 'manual' });
    expect(await (await stack.open('idle')).readSchedule()).toMatchObject({
      kind: 'disabled',
      expression: 'rate(1 day)',
    });
    expect(await (await stack.open('timed')).readSchedule()).toMatchObject({
      kind: 'scheduled',
      expression: 'cron(30 2 1 JAN ? 2199)',
    });
  });

  it('is suggested if another stack does not exist or has no exports', async () => {
    const missingStack = openStack({
      stackName: 'Nowhere',
      env: stubOperatorEnvironment(),
      runtime: systemRuntime,
      askMfaCode: noMfa,
    });
    await expect(missingStack).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/no stack Nowhere in us-east-1.*ReportExporterOperated.*AWS_PROFILE.*cdk deploy/),
    });
    const toolkit = openStack({
      stackName: 'CDKToolkit',
      env: stubOperatorEnvironment(),
      runtime: systemRuntime,
      askMfaCode: noMfa,
    });
    await expect(toolkit).rejects.toThrow(/CDKToolkit has no exports, so it is not a Report Exporter stack/);
  });

  it('connects to the service with the API key from the secret', async () => {
    await using service = await openService(3);
    const { service: deployed, definition } = await stack.open('followed');
    await using client = await deployed.connect(() => undefined);
    const since = '1970-01-01T00:00:00Z' as Instant;
    const bounds = { since, begunAt: since };
    const page = await fetchPage(client, { request: definition.request, ...bounds, cursor: null, label: 'page 1' });
    expect(page.body.toString()).toContain('<r id="r1"');
    expect(service.exchanges.map(({ status }) => status)).toEqual([200]);
  });

  it('follows a run, page by page, to its manifest', async () => {
    const deployed = await stack.open('followed');
    await using service = await openService(7, { pauseBefore: 'r5' });

    const run = follow(deployed);
    await service.paused;
    await eventually('the event about page 2', async () =>
      run.events.find((event) => event.event === 'page-exported' && event.page === 2),
    );
    service.release();

    const end = await run.end;
    expect(end).toMatchObject({ status: 'completed', result: { export: 'followed', pages: 4, reports: 7 } });
    if (end.status !== 'completed') throw new Error('The run has not completed');
    expect(end.manifest).toBe(deployed.store.locate(manifestKeyOf(end.result)));
    expect(run.events[0]).toMatchObject({
      event: 'run-started',
      run: end.result.run,
      pages: 0,
      page: 1,
      executionNumber: 1,
    });
    expect(run.events.at(-2)).toMatchObject({ event: 'page-exported', page: 4, totalReports: 7 });
    expect(run.events.at(-1)).toMatchObject({ event: 'run-completed', manifest: end.result.manifest });
    const manifest = await deployed.store.read(manifestKeyOf(end.result));
    if (manifest === undefined) throw new Error('There is no manifest');
    expect(JSON.parse(Buffer.concat(await collect(manifest)).toString())).toMatchObject({ run: end.result.run });
  });

  it('follows a run through all its executions', async () => {
    const deployed = await stack.open('segmented');
    await using _ = await openService(5);

    const run = follow(deployed);

    expect(await run.end).toMatchObject({ status: 'completed', result: { pages: 5, reports: 5 } });
    const { run: id } = await newestRun(deployed);
    expect(run.executions()).toEqual([
      expect.stringMatching(/:segmented-manual-[0-9a-f]{16}$/),
      expect.stringMatching(new RegExp(`:segmented-${id}-2$`)),
      expect.stringMatching(new RegExp(`:segmented-${id}-3$`)),
    ]);
    expect(run.events.filter(({ event }) => event === 'run-started')).toHaveLength(1);
    expect(run.events.at(-2)).toMatchObject({ event: 'page-exported', page: 5, totalReports: 5 });
  });

  it('starts a run without following it, skips a concurrent start, and shows which execution is running', async () => {
    const deployed = await stack.open('overlapped');
    await using service = await openService(5, { pauseBefore: 'r3' });
    const ignore = () => undefined;
    const started = await deployed.start(
      {},
      { follow: false, emit: ignore, notify: ignore, onRetry: ignore, signal: new AbortController().signal },
    );
    if (started.status !== 'started') throw new Error(`The start is ${started.status}`);
    await service.paused;
    const { run: id } = await newestRun(deployed);

    const skipped = await follow(deployed).end;

    expect(skipped).toMatchObject({
      status: 'skipped',
      reason: expect.stringContaining(`is still exporting run ${id}`),
    });
    expect(await deployed.executions.isRunning(started.execution)).toBe(true);

    // To stop following does not stop the run.
    const startOver = { restart: true, since: '2026-11-20T00:00:02Z' as Instant };
    const restarted = follow(deployed, startOver, 'start');
    expect(await restarted.end).toEqual({ status: 'started', execution: restarted.executions()[0], run: null });
    await eventually(
      'the end of the new run',
      async () => (await deployed.log.exportState('overlapped'))?.lastCompleted,
    );
    service.release();
    expect((await deployed.log.exportState('overlapped'))?.lastCompleted?.result.since).toBe('2026-11-20T00:00:02Z');
  });

  it('reports retries and waits as they happen, and the failure; the next start resumes the run', async () => {
    const deployed = await stack.open('failing');
    {
      const faults = combineScripts(
        onPage(2, errorResponse(503), { times: 2 }),
        onPage(3, throttled('3')),
        onPage(4, errorResponse(403)),
      );
      await using _ = await openService(9, { faults });

      const run = follow(deployed);

      const message = expect.stringContaining('responded with 403 for page 4');
      const failed = { pages: 3, reports: 6, error: 'ConfigurationError', message, resumable: true };
      expect(await run.end).toMatchObject({ status: 'failed', failed });
      expect(run.events.at(-1)).toMatchObject({ event: 'run-failed', ...failed });
      expect(run.retries).toMatchObject(
        [1, 2].map((attempt) => ({
          state: 'ExportPage',
          error: 'ServiceUnavailableError',
          message: expect.stringContaining('responded with 503 for page 2'),
          attempt,
          maxAttempts: 20,
        })),
      );
      expect(run.events).toContainEqual(
        expect.objectContaining({ event: 'service-asked-to-wait', page: 3, seconds: 3, inside: false }),
      );
    }
    const { run: id } = await newestRun(deployed);
    const { active } = (await deployed.log.exportState('failing')) ?? {};
    expect(active?.lastFailure?.message).toContain('responded with 403 for page 4');
    const entries = await collect(deployed.log.entries({ export: 'failing', run: id }));
    expect(entries.map(({ failedAttempts, waitedSeconds }) => [failedAttempts, waitedSeconds])).toEqual([
      [undefined, undefined],
      [2, undefined],
      [undefined, 3],
    ]);

    await using service = await openService(9, { pauseBefore: 'r9' });
    const stopped = follow(deployed);
    await service.paused;
    const [executionArn] = stopped.executions();
    await stepFunctions.send(new StopExecutionCommand({ executionArn, cause: 'The test stops it' }));
    expect(await stopped.end).toMatchObject({
      status: 'failed',
      failed: { run: id, pages: 4, error: 'ExecutionAborted', message: 'The test stops it', resumable: true },
    });

    expect(await deployed.lastIncident?.(executionArn ?? '')).toEqual({
      kind: 'failed-run',
      at: expect.stringMatching(/^20.*Z$/),
      error: 'ExecutionAborted',
      message: 'The test stops it',
    });

    const resumed = follow(deployed);
    expect(await resumed.end).toMatchObject({ status: 'completed', result: { run: id, pages: 5, reports: 9 } });
    service.release();
    expect(resumed.events[0]).toMatchObject({ event: 'run-resumed', run: id, page: 5, pages: 4, reports: 8 });
  });
});
