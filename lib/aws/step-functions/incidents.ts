/** What held a run up, out of the histories of the executions that worked on it. Step Functions keeps them for 90 days. */

import {
  type ExecutionListItem,
  GetExecutionHistoryCommand,
  type HistoryEvent,
  ListExecutionsCommand,
  type SFNClient,
} from '@aws-sdk/client-sfn';
import type { Incident, RunSpan } from '../../core/operations/deployment.ts';
import type { PageLog } from '../../core/ports.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { createHistoryReading, type IncidentEvent } from './history.ts';

export interface IncidentDependencies {
  readonly client: SFNClient;
  readonly stateMachineArn: string;
  readonly log: Pick<PageLog, 'exportState'>;
  readonly now: () => number;
}

/** Of so many executions the histories are read, the newest ones; each takes a request for a thousand events. */
const maxExecutions = 200;
/** Of a thousand executions each. */
const maxListings = 20;
/** No execution is looked for that began so long before the run; only one that went on under a new run id could be it. */
const maxLeadMs = 86_400_000;
/** How far Step Functions' clock and Lambda's may be apart. */
const clockSkewMs = 60_000;

/**
 * In order of time. Left out is what lies beyond the newest 200 executions in the run's time, or beyond the 20,000 newest
 * of the export; a run that was given up should come with its end, or all that came after it counts. Needs ListExecutions
 * and GetExecutionHistory.
 */
export async function* incidentsOf(deps: IncidentDependencies, run: RunSpan): AsyncGenerator<Incident> {
  const executions: ExecutionListItem[] = [];
  for await (const execution of executionsIn(deps, run, 1_000)) {
    executions.push(execution);
    if (executions.length === maxExecutions) break;
  }
  for (const { executionArn = '', name = '' } of executions.reverse()) {
    const reading = createHistoryReading(runInName(name));
    for await (const event of eventsOf(deps.client, executionArn)) yield* ofRun(run, reading.read(event));
    yield* ofRun(run, reading.rest());
  }
}

/** As far as the last events of the run's newest execution tell of one. */
export async function lastIncidentOf(deps: IncidentDependencies, run: RunSpan): Promise<Incident | undefined> {
  for (const execution of await newestExecutions(deps, run)) {
    const { incidentEvents, isOfRun } = await recentIncidentEvents(deps.client, execution, run.run);
    const [newest] = ofRun(run, incidentEvents).slice(-1);
    if (newest !== undefined || isOfRun) return newest;
  }
  return undefined;
}

/** The events of 28 turns, or of 60 failed attempts. */
const recentEvents = 200;

/** `run`: the one that the events are about which come before any that names another. */
export async function recentIncidentEvents(
  client: SFNClient,
  executionArn: string,
  run?: string,
): Promise<{ readonly incidentEvents: readonly IncidentEvent[]; readonly isOfRun: boolean }> {
  const { events = [], nextToken } = await client.send(
    new GetExecutionHistoryCommand({ executionArn, reverseOrder: true, maxResults: recentEvents }),
  );
  // Where the beginning is seen, the events say themselves which run they are about.
  const known = runInName(executionArn.slice(executionArn.lastIndexOf(':') + 1));
  const reading = createHistoryReading(known ?? (nextToken === undefined ? undefined : run));
  const inOrder = events.toReversed();
  const incidentEvents = [...inOrder.flatMap((event) => reading.read(event)), ...reading.rest()];
  return { incidentEvents, isOfRun: run !== undefined && inOrder.some((event) => names(event, run)) };
}

const names = ({ stateEnteredEventDetails: entered }: HistoryEvent, run: string): boolean =>
  entered?.input?.includes(JSON.stringify(run)) === true;

/** Where the head knows it, the one; otherwise those that were at work last in the run's time. */
async function newestExecutions(deps: IncidentDependencies, run: RunSpan): Promise<readonly string[]> {
  const head = await deps.log.exportState(run.export);
  if (head?.active?.run === run.run) return [head.active.execution];
  if (head?.lastCompleted?.result.run === run.run) return [head.lastCompleted.execution];
  const executions: string[] = [];
  for await (const { executionArn = '' } of executionsIn(deps, run, 100)) {
    executions.push(executionArn);
    if (executions.length === 3) break;
  }
  return executions;
}

/** Those that were at work in the run's time, the newest first. */
async function* executionsIn(
  { client, stateMachineArn, now }: IncidentDependencies,
  run: RunSpan,
  maxResults: number,
): AsyncGenerator<ExecutionListItem> {
  const began = epochMsOf(run.startedAt) - clockSkewMs;
  const ended = (run.completedAt === undefined ? now() : epochMsOf(run.completedAt)) + clockSkewMs;
  let nextToken: string | undefined;
  for (let listings = 0; listings < maxListings; listings += 1) {
    const part = await client.send(new ListExecutionsCommand({ stateMachineArn, maxResults, nextToken }));
    for (const execution of part.executions ?? []) {
      const { startDate, stopDate } = execution;
      const startedAt = startDate?.getTime() ?? 0;
      if (startedAt < began - maxLeadMs) return;
      if (startedAt <= ended && (stopDate?.getTime() ?? ended) >= began) yield execution;
    }
    nextToken = part.nextToken;
    if (nextToken === undefined) return;
  }
}

/** A later segment says in its name whose it is; the first has a name of its own. */
function runInName(name: string): string | undefined {
  return /^(\d{8}T\d{6}Z-[0-9a-f]{6})-\d+$/.exec(name)?.[1];
}

async function* eventsOf(client: SFNClient, executionArn: string): AsyncGenerator<HistoryEvent> {
  let nextToken: string | undefined;
  do {
    const part = await client.send(new GetExecutionHistoryCommand({ executionArn, maxResults: 1_000, nextToken }));
    yield* part.events ?? [];
    nextToken = part.nextToken;
  } while (nextToken !== undefined);
}

function ofRun({ run }: RunSpan, incidentEvents: readonly IncidentEvent[]): Incident[] {
  return incidentEvents.filter((each) => each.run === run).map(({ incident }) => incident);
}
