/**
 * The incidents of a run, from the histories of its executions. Step Functions keeps them for 90 days.
 *
 * All exports of a service share a state machine, so its list of executions is searched for those of the export: by name if
 * we chose it, otherwise by the start input, which is in the first event of the history.
 */

import {
  type ExecutionListItem,
  GetExecutionHistoryCommand,
  type HistoryEvent,
  ListExecutionsCommand,
  type ListExecutionsCommandOutput,
  type SFNClient,
} from '@aws-sdk/client-sfn';
import * as z from 'zod';
import { mapConcurrently } from '../../core/concurrency.ts';
import { countIncidents, type Incident, type IncidentCounts, type RunSpan } from '../../target/target.ts';
import type { PageLog } from '../../core/ports.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { stateNameOfRun } from '../../core/windows.ts';
import { parseExecutionName } from './execution-names.ts';
import { createHistoryReader, type IncidentEvent, parseJson, type SlotWait, slotWaitIn } from './history.ts';

export interface IncidentDependencies {
  readonly client: SFNClient;
  readonly stateMachineArn: string;
  readonly log: Pick<PageLog, 'exportState'>;
  readonly now: () => number;
  /** Absent: nothing is shared between reads. */
  readonly cache?: ExecutionCache;
}

/** What several runs have in common: the list of executions, and the export of each. Each is requested once. */
export interface ExecutionCache {
  /** When the list was requested, in milliseconds since the epoch. It has every execution of the runs that had ended before. */
  listedAt?: number;
  readonly listPages: Map<string | undefined, Promise<ListExecutionsCommandOutput>>;
  readonly exportNames: Map<string, Promise<string | undefined>>;
}

export const createExecutionCache = (): ExecutionCache => ({ listPages: new Map(), exportNames: new Map() });

/** Reads once, and again only after an error. */
async function cached<Key, Value>(
  values: Map<Key, Promise<Value>> | undefined,
  key: Key,
  read: () => Promise<Value>,
): Promise<Value> {
  const reading = values?.get(key) ?? read();
  values?.set(key, reading);
  try {
    return await reading;
  } catch (error) {
    values?.delete(key);
    throw error;
  }
}

/** The histories of this many executions are read, the newest ones. Each takes a request per thousand events. */
const maxExecutions = 200;
/** So many start inputs are read at most, of the newest executions whose names do not contain their export. */
const maxLookups = { allIncidents: 500, lastIncident: 200, countedIncidents: 100 };
const lookupConcurrency = 8;
/** Of a thousand executions each. */
const maxListPages = 20;
/** The search ends with executions this much older than the run. One may be older because a restart gave it a new run. */
const maxLeadMs = 86_400_000;
/** How far the clocks of Step Functions and Lambda may differ. */
const clockSkewMs = 60_000;

/**
 * The incidents of `run` in order of time. Limited to the newest 200 executions of the export during the run, and to the
 * newest 20,000 of the service; of those, 500 whose names do not contain their export. Without `completedAt`, all executions
 * since the start of the run count, so an abandoned run should have it. Needs states:ListExecutions and
 * states:GetExecutionHistory.
 */
export async function* incidentsOf(deps: IncidentDependencies, run: RunSpan): AsyncGenerator<Incident> {
  const executions: ExecutionListItem[] = [];
  for await (const execution of executionsOf(deps, run, { pageSize: 1_000, lookups: maxLookups.allIncidents })) {
    executions.push(execution);
    if (executions.length === maxExecutions) break;
  }
  yield* incidentsIn(deps, run, executions.reverse());
}

async function* incidentsIn(
  deps: IncidentDependencies,
  run: RunSpan,
  executions: readonly ExecutionListItem[],
): AsyncGenerator<Incident> {
  for (const { executionArn = '', name = '' } of executions) {
    const reader = createHistoryReader(parseExecutionName(name)?.run);
    for await (const event of eventsOf(deps.client, executionArn)) yield* incidentsOfRun(run, reader.read(event));
    yield* incidentsOfRun(run, reader.pending());
  }
}

/** Undefined if no execution of the run is found: Step Functions no longer has it, or it is among too many others. */
export async function countIncidentsOf(deps: IncidentDependencies, run: RunSpan): Promise<IncidentCounts | undefined> {
  const executions: ExecutionListItem[] = [];
  for await (const execution of executionsOf(deps, run, { pageSize: 1_000, lookups: maxLookups.countedIncidents })) {
    executions.push(execution);
    if (executions.length === maxExecutions) break;
  }
  return executions.length === 0 ? undefined : await countIncidents(incidentsIn(deps, run, executions.reverse()));
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
  /** Set if the run is waiting for a slot now. */
  readonly slotWait?: SlotWait | undefined;
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
  const knownRun = parseExecutionName(executionArn.slice(executionArn.lastIndexOf(':') + 1))?.run;
  const reader = createHistoryReader(knownRun ?? (nextToken === undefined ? undefined : run));
  const inOrder = events.toReversed();
  const completed = inOrder.flatMap((event) => reader.read(event));
  const pending = reader.pending();
  return {
    incidentEvents: [...completed, ...pending],
    isRetryPending: pending.length > 0,
    isOfRun: run !== undefined && inOrder.some((event) => hasRunInInput(event, run)),
    slotWait: events[0] && slotWaitIn(events[0]),
  };
}

const hasRunInInput = ({ stateEnteredEventDetails: entered }: HistoryEvent, run: string): boolean =>
  entered?.input?.includes(JSON.stringify(run)) === true;

/** The one that the export state names; otherwise the newest ones during the run. */
async function newestExecutions(deps: IncidentDependencies, run: RunSpan): Promise<readonly string[]> {
  const state = await deps.log.exportState(stateNameOfRun(run));
  if (state?.active?.run === run.run) return [state.active.execution];
  if (state?.lastCompleted?.result.run === run.run) return [state.lastCompleted.execution];
  const executions: string[] = [];
  const limits = { pageSize: 100, lookups: maxLookups.lastIncident };
  for await (const { executionArn = '' } of executionsOf(deps, run, limits)) {
    executions.push(executionArn);
    if (executions.length === 3) break;
  }
  return executions;
}

/** The executions of the run's export, or of its window, that were running during the run, the newest first. */
async function* executionsOf(
  deps: IncidentDependencies,
  run: RunSpan,
  { pageSize, lookups }: { readonly pageSize: number; readonly lookups: number },
): AsyncGenerator<ExecutionListItem> {
  const stateName = stateNameOfRun(run);
  const isOfWindow = stateName !== run.export;
  const { active, lastCompleted } = (await deps.log.exportState(stateName)) ?? {};
  const known: ReadonlySet<string | undefined> = new Set([
    active?.startedBy,
    active?.execution,
    lastCompleted?.execution,
  ]);
  let remainingLookups = lookups;
  const isOfExport = async ({ name = '', executionArn = '' }: ExecutionListItem): Promise<boolean> => {
    const parsed = parseExecutionName(name);
    if (parsed !== undefined && parsed.export !== run.export) return false;
    if (known.has(executionArn)) return true;
    if (parsed !== undefined && (parsed.isWindow !== true || !isOfWindow)) {
      return isOfWindow ? parsed.run === run.run : parsed.isWindow !== true;
    }
    if (remainingLookups === 0) return false;
    remainingLookups -= 1;
    const { client, cache } = deps;
    const exportName = await cached(cache?.exportNames, executionArn, () => exportInStartInput(client, executionArn));
    // Without a name, it is the service's only export.
    return (exportName ?? run.export) === stateName;
  };
  for await (const executions of executionsDuring(deps, run, pageSize)) {
    const areOfExport = await mapConcurrently(executions, lookupConcurrency, isOfExport);
    yield* executions.filter((_, index) => areOfExport[index] === true);
  }
}

const startInputSchema = z.object({ export: z.string().optional() }).catch({});

/** The export that the start input of the execution names, if any. */
async function exportInStartInput(client: SFNClient, executionArn: string): Promise<string | undefined> {
  const { events = [] } = await client.send(new GetExecutionHistoryCommand({ executionArn, maxResults: 1 }));
  return startInputSchema.parse(parseJson(events[0]?.executionStartedEventDetails?.input)).export;
}

/** The executions of the service that were running during the run, the newest first, page by page. */
async function* executionsDuring(
  { client, stateMachineArn, now, cache }: IncidentDependencies,
  run: RunSpan,
  maxResults: number,
): AsyncGenerator<readonly ExecutionListItem[]> {
  const runStart = epochMsOf(run.startedAt) - clockSkewMs;
  const runEnd = (run.completedAt === undefined ? now() : epochMsOf(run.completedAt)) + clockSkewMs;
  if (cache !== undefined) cache.listedAt ??= now();
  const isListed = run.completedAt !== undefined && runEnd <= (cache?.listedAt ?? 0);
  const listPages = isListed ? cache?.listPages : undefined;
  let nextToken: string | undefined;
  for (let listPage = 0; listPage < maxListPages; listPage += 1) {
    const request = new ListExecutionsCommand({ stateMachineArn, maxResults, nextToken });
    const response: ListExecutionsCommandOutput = await cached(listPages, nextToken, () => client.send(request));
    const executions = response.executions ?? [];
    const startOf = ({ startDate }: ExecutionListItem) => startDate?.getTime() ?? 0;
    yield executions.filter((execution) => {
      const startedAt = startOf(execution);
      const isRecent = startedAt >= runStart - maxLeadMs && startedAt <= runEnd;
      return isRecent && (execution.stopDate?.getTime() ?? runEnd) >= runStart;
    });
    nextToken = response.nextToken;
    if (nextToken === undefined || executions.some((execution) => startOf(execution) < runStart - maxLeadMs)) return;
  }
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
