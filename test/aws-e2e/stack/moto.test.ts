import { CreateStateMachineCommand, DescribeStateMachineCommand } from '@aws-sdk/client-sfn';
import { beforeAll, describe, expect, it } from 'vitest';
import { errorResponse, onPage } from '../../../lib/report-service/simulator/faults.ts';
import { stepFunctions, stepFunctionsOfMoto } from '../support/aws.ts';
import { openMailbox } from '../support/event-queue.ts';
import { eventually } from '../support/eventually.ts';
import { run } from '../support/executions.ts';
import { type Deployment, theDeployment } from '../support/exporter-stack.ts';
import { readNewest } from '../support/published-run.ts';
import { ids, openService } from '../support/service.ts';

/**
 * The deployed definition once more, as another reads it: moto keeps the States Language's rules on retries (maximum delay
 * and jitter included) and timeouts. The functions and the event bus it calls are those deployed in MiniStack.
 */
describe('The deployed state machine, interpreted by moto', () => {
  let deployed: Deployment;
  beforeAll(async () => {
    deployed = await theDeployment();
  });

  it('repeats by name what may pass', async () => {
    await using service = await openService(5, { faults: onPage(2, errorResponse(503), { times: 2 }) });

    const end = await run(await inMoto(deployed.stateMachineOf('moto-outage')), {}, stepFunctionsOfMoto);

    expect(end.failures).toEqual(['ServiceUnavailableError', 'ServiceUnavailableError']);
    expect(end.states.at(-1)).toBe('Completed');
    expect((await readNewest(deployed, 'moto-outage')).ids).toEqual(ids(1, 5));
    expect(service.exchanges.map(({ status }) => status)).toEqual([200, 503, 503, 200, 200]);
  });

  it('does not repeat what is final, and ends with its real name and cause', async () => {
    const mailbox = openMailbox(deployed.events);
    await using service = await openService(5, { faults: onPage(1, errorResponse(404)) });

    const end = await run(await inMoto(deployed.stateMachineOf('moto-rejected')), {}, stepFunctionsOfMoto);

    expect(end).toMatchObject({ status: 'FAILED', error: 'RequestRejectedError' });
    expect(end.cause).toContain('Report service responded with 404 for page 1 of run');
    expect(end.failures).toEqual(['RequestRejectedError']);
    expect(service.exchanges).toHaveLength(1);
    await mailbox.event('tells of the failure', ({ detail }) => {
      return (detail as { execution?: unknown }).execution === end.arn;
    });
  });

  it('repeats a step that takes too long, while the first attempt is still at it: the page is there once', async () => {
    await using service = await openService(5, { holdBack: 'r3' });
    const machine = await inMoto(deployed.stateMachineOf('moto-slow'), (definition) => {
      return {
        ...definition,
        States: { ...definition.States, ExportPage: { ...definition.States.ExportPage, TimeoutSeconds: 5 } },
      };
    });

    const end = await run(machine, {}, stepFunctionsOfMoto);

    expect([...new Set(end.failures)]).toEqual(['States.Timeout']);
    expect(end.states.at(-1)).toBe('Completed');
    const published = await readNewest(deployed, 'moto-slow');
    expect(published.ids).toEqual(ids(1, 5));

    const asked = service.exchanges.length;
    service.release();
    await eventually('the answer to the first attempt', async () => service.exchanges.length > asked || undefined);
    expect(await readNewest(deployed, 'moto-slow')).toEqual(published);
  });
});

interface Definition {
  readonly States: Readonly<Record<string, object>>;
}

/** Makes the machine known to moto, by the same name. Resolves to its ARN. */
async function inMoto(
  stateMachineArn: string,
  change: (definition: Definition) => Definition = (definition) => definition,
): Promise<string> {
  const {
    name,
    definition = '',
    roleArn,
  } = await stepFunctions.send(new DescribeStateMachineCommand({ stateMachineArn }));
  const made = await stepFunctionsOfMoto.send(
    new CreateStateMachineCommand({ name, roleArn, definition: JSON.stringify(change(JSON.parse(definition))) }),
  );
  return made.stateMachineArn as string;
}
