/** The incidents of a run, from the histories of its executions. Step Functions keeps them for 90 days. */

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
import { createHistoryReader, type IncidentEvent } from './history.ts';

export interface IncidentDependencies {
  readonly client: SFNClient;
  readonly stateMachineArn: string;
  readonly log: Pick<PageLog, 'exportState'>;
  readonly now: () => number;
}

/** The histories of this many executions are read, the newest ones. Each takes a request per thousand events. */
const maxExecutions = 200;
/** Of a thousand executions each. */
const maxListPages = 20;
/** The search ends with executions this much older than the run. One may be older because a restart gave it a new run. */
const maxLeadMs = 86_400_000;
/** How far the clocks of Step Functions and Lambda may differ. */
const clockSkewMs = 60_000;

/**
 * The incidents of `run` in order of time. Limited to the newest 200 executions during the run, and to the newest 20,000 of
 * the export. Without `completedAt`, all executions since the start of the run count, so an abandoned run should have it.
 * Needs states:ListExecutions and states:GetExecutionHistory.
 */
export async function* incidentsOf(deps: IncidentDependencies, run: RunSpan): AsyncGenerator<Incident> {
  const executions: ExecutionListItem[] = [];
  for await (const execution of executionsDuring(deps, run, 1_000)) {
    executions.push(execution);
    if (executions.length === maxExecutions) break;
  }
  for (const { executionArn = '', name = '' } of executions.reverse()) {
    const reader = createHistoryReader(runInName(name));
    for await (const event of eventsOf(deps.client, executionArn)) yield* incidentsOfRun(run, reader.read(event));
    yield* incidentsOfRun(run, reader.pending());
  }
}

/** The newest incident, if it is among the last events of the run's newest execution. */
export async function lastIncidentOf(deps: IncidentDependencies, run: RunSpan): Promise<Incident | undefined> {
  for (const execution of await newestExecutions(deps, run)) {
    const { incidentEvents, isOfRun } = await recentIncidentEvents(deps.client, execution, run.run);
    const newest = incidentsOfRun(run, incidentEvents).at(-1);
    if (newest !== undefined || isOfRun) return newest;
  }
  return undefined;
}

/** The events of 28 iterations, or of 60 failed attempts. */
const recentEvents = 200;

export interface RecentIncidentEvents {
  readonly incidentEvents: readonly IncidentEvent[];
  /** Whether the last of them is a failed attempt whose retry has not begun. */
  readonly isRetryPending: boolean;
  /** Whether any event names the run. */
  readonly isOfRun: boolean;
}

/** `run` is the run of the events before the first one that names a run. */
export async function recentIncidentEvents(
  client: SFNClient,
  executionArn: string,
  run?: string,
): Promise<RecentIncidentEvents> {
  const { events = [], nextToken } = await client.send(
    new GetExecutionHistoryCommand({ executionArn, reverseOrder: true, maxResults: recentEvents }),
  );
  // A history that is read from its beginning names the run itself.
  const knownRun = runInName(executionArn.slice(executionArn.lastIndexOf(':') + 1));
  const reader = createHistoryReader(knownRun ?? (nextToken === undefined ? undefined : run));
  const inOrder = events.toReversed();
  const completed = inOrder.flatMap((event) => reader.read(event));
  const pending = reader.pending();
  return {
    incidentEvents: [...completed, ...pending],
    isRetryPending: pending.length > 0,
    isOfRun: run !== undefined && inOrder.some((event) => hasRunInInput(event, run)),
  };
}

const hasRunInInput = ({ stateEnteredEventDetails: entered }: HistoryEvent, run: string): boolean =>
  entered?.input?.includes(JSON.stringify(run)) === true;

/** The one that the export state names; otherwise the newest ones during the run. */
async function newestExecutions(deps: IncidentDependencies, run: RunSpan): Promise<readonly string[]> {
  const state = await deps.log.exportState(run.export);
  if (state?.active?.run === run.run) return [state.active.execution];
  if (state?.lastCompleted?.result.run === run.run) return [state.lastCompleted.execution];
  const executions: string[] = [];
  for await (const { executionArn = '' } of executionsDuring(deps, run, 100)) {
    executions.push(executionArn);
    if (executions.length === 3) break;
  }
  return executions;
}

/** The executions that were running during the run, the newest first. */
async function* executionsDuring(
  { client, stateMachineArn, now }: IncidentDependencies,
  run: RunSpan,
  maxResults: number,
): AsyncGenerator<ExecutionListItem> {
  const runStart = epochMsOf(run.startedAt) - clockSkewMs;
  const runEnd = (run.completedAt === undefined ? now() : epochMsOf(run.completedAt)) + clockSkewMs;
  let nextToken: string | undefined;
  for (let listPage = 0; listPage < maxListPages; listPage += 1) {
    const response = await client.send(new ListExecutionsCommand({ stateMachineArn, maxResults, nextToken }));
    for (const execution of response.executions ?? []) {
      const { startDate, stopDate } = execution;
      const startedAt = startDate?.getTime() ?? 0;
      if (startedAt < runStart - maxLeadMs) return;
      if (startedAt <= runEnd && (stopDate?.getTime() ?? runEnd) >= runStart) yield execution;
    }
    nextToken = response.nextToken;
    if (nextToken === undefined) return;
  }
}

/** The name of an execution that continues a run begins with the run. That of a run's first execution does not. */
function runInName(name: string): string | undefined {
  return /^(\d{8}T\d{6}Z-[0-9a-f]{6})-\d+$/.exec(name)?.[1];
}

async function* eventsOf(client: SFNClient, executionArn: string): AsyncGenerator<HistoryEvent> {
  let nextToken: string | undefined;
  do {
    const response = await client.send(new GetExecutionHistoryCommand({ executionArn, maxResults: 1_000, nextToken }));
    yield* response.events ?? [];
    nextToken = response.nextToken;
  } while (nextToken !== undefined);
}

function incidentsOfRun({ run }: RunSpan, incidentEvents: readonly IncidentEvent[]): Incident[] {
  return incidentEvents.filter((each) => each.run === run).map(({ incident }) => incident);
}
