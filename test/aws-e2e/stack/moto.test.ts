import { beforeAll, describe, expect, it } from 'vitest';
import { errorResponse, onPage } from '../../support/service/faults.ts';
import { motoStepFunctions } from '../support/aws.ts';
import { eventually } from '../support/eventually.ts';
import { createInMoto, runExecution } from '../support/executions.ts';
import { type ExporterStack, exporterStack } from '../support/exporter-stack.ts';
import { readNewestRun } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

/**
 * The deployed definition in a second interpreter: moto follows the States Language on retries (maximum delay and jitter
 * included) and on timeouts. It calls the functions and the event bus that are deployed in MiniStack.
 */
describe('the deployed state machine in moto', () => {
  let deployed: ExporterStack;
  beforeAll(async () => {
    deployed = await exporterStack();
  });

  it('retries transient errors by name', async () => {
    await using service = await openService(5, { faults: onPage(2, errorResponse(503), { times: 2 }) });

    const end = await runExecution(await createInMoto(deployed.stateMachineOf('moto-outage')), {}, motoStepFunctions);

    expect(end.failures).toEqual(['ServiceUnavailableError', 'ServiceUnavailableError']);
    expect(end.states.at(-1)).toBe('Completed');
    expect((await readNewestRun(deployed, 'moto-outage')).ids).toEqual(reportIds(1, 5));
    // 401: the functions are shared, and may still have the key that another test has rotated.
    const statuses = service.exchanges.map(({ status }) => status).filter((status) => status !== 401);
    expect(statuses).toEqual([200, 503, 503, 200, 200]);
  });

  it('retries a step that timed out while its first attempt is still running, and stores the page once', async () => {
    await using service = await openService(5, { pauseBefore: 'r3' });
    const machine = await createInMoto(deployed.stateMachineOf('moto-slow'), (definition) => {
      return {
        ...definition,
        States: { ...definition.States, ExportPage: { ...definition.States.ExportPage, TimeoutSeconds: 5 } },
      };
    });

    const end = await runExecution(machine, {}, motoStepFunctions);

    expect([...new Set(end.failures)]).toEqual(['States.Timeout']);
    expect(end.states.at(-1)).toBe('Completed');
    const published = await readNewestRun(deployed, 'moto-slow');
    expect(published.ids).toEqual(reportIds(1, 5));

    const exchangesBefore = service.exchanges.length;
    service.release();
    await eventually(
      'the response to the first attempt',
      async () => service.exchanges.length > exchangesBefore || undefined,
    );
    expect(await readNewestRun(deployed, 'moto-slow')).toEqual(published);
  });
});
