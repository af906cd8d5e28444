import { StopExecutionCommand } from '@aws-sdk/client-sfn';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStack } from '../../../lib/aws/stack/stack.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { ExportTarget, Target, Retry } from '../../../lib/target/target.ts';
import type { ExportEvent, RunRef } from '../../../lib/core/ports.ts';
import { combineScripts, errorResponse, onPage, throttled } from '../../support/service/faults.ts';
import { collect } from '../../support/builders.ts';
import { noMfa } from '../../support/aws/mocked-stack.ts';
import { stepFunctions } from '../support/aws.ts';
import { deployOperatorStack, operatorStackName, stubOperatorEnvironment } from '../support/operator-stack.ts';
import { openService } from '../support/service.ts';

/** Starts an export and follows it to its end. */
function follow(deployed: ExportTarget) {
  const events: ExportEvent[] = [];
  const retries: Retry[] = [];
  const messages: string[] = [];
  const observer = {
    emit: (event: ExportEvent) => events.push(event),
    onRetry: (retry: Retry) => retries.push(retry),
    notify: (text: string) => messages.push(text),
  };
  const end = deployed.start({}, { follow: true, ...observer, signal: new AbortController().signal });
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
    expect(run.events.at(-1)).toMatchObject({ event: 'page-exported', page: 5, totalReports: 5 });
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
