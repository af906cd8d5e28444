/** The newest run of every export of a stack, in few requests: what can be read for many exports at once is. */

import { mapConcurrently } from '../../core/concurrency.ts';
import type { ExportState, Run } from '../../core/model.ts';
import type { NextStart, OverviewEntry } from '../../target/target.ts';
import { type ExportFacts, overviewOf, unreadableExport } from '../../target/export-overview.ts';
import type { Runtime } from '../../core/ports.ts';
import { exportDefinition, sourceOf } from '../../settings/settings.ts';
import { readExportStates } from '../dynamodb/export-states.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { type ListedSchedule, listSchedules, nextStart } from '../scheduler/next-start.ts';
import { createExecutions } from '../step-functions/executions.ts';
import { listRunningExecutions, type RunningExecutions } from '../step-functions/running-executions.ts';
import type { OperatorClients } from './clients.ts';
import type { StackExport } from './services.ts';

const concurrency = 8;

/**
 * One request for the states of a hundred exports, one per schedule group (and per hundred schedules in it), one per state
 * machine whose exports have unfinished runs (and per thousand running executions), and one for each unfinished run; another
 * for each that seems to have stopped. Needs dynamodb:BatchGetItem, dynamodb:Query, scheduler:ListSchedules,
 * states:ListExecutions and states:DescribeExecution.
 */
export async function readOverview(
  exports: readonly StackExport[],
  clients: OperatorClients,
  runtime: Runtime,
): Promise<readonly OverviewEntry[]> {
  const [states, schedules] = await Promise.all([
    readStates(exports, clients, runtime),
    readSchedules(exports, clients),
  ]);
  // After the states, so that the executions that they name have been started.
  const running = await readRunning(states, clients);
  return await mapConcurrently(states, concurrency, async ({ export: each, state: stored }) => {
    const { name, service, serviceSettings, settings, schedule } = each;
    try {
      const state = valueOf(stored);
      const active = state?.active;
      const facts: ExportFacts = {
        export: name,
        service: service.service,
        state,
        active: active && (await readProgress(each, active, running, clients, runtime)),
        next: nextStartOf(each, schedules, state, runtime.now()),
        freshnessSeconds: schedule?.freshnessSeconds ?? null,
        definition: exportDefinition(settings, sourceOf(serviceSettings.baseUrl)),
      };
      return overviewOf(facts, runtime.now());
    } catch (error) {
      return unreadableExport(name, service.service, error);
    }
  });
}

interface StoredState {
  readonly export: StackExport;
  readonly state: PromiseSettledResult<ExportState | undefined>;
}

function valueOf<Value>(result: PromiseSettledResult<Value>): Value {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}

async function readStates(
  exports: readonly StackExport[],
  { dynamoDb: client }: OperatorClients,
  clock: Runtime,
): Promise<readonly StoredState[]> {
  const locations = exports.map(({ name, service: { table, service } }) => ({ table, service, export: name }));
  const states = await readExportStates({ client, clock }, locations);
  return exports.flatMap((each, index) => {
    const state = states[index];
    return state === undefined ? [] : [{ export: each, state }];
  });
}

/** The listed schedules by group. */
async function readSchedules(
  exports: readonly StackExport[],
  { scheduler }: OperatorClients,
): Promise<ReadonlyMap<string, ReadonlyMap<string, ListedSchedule>>> {
  const groups = [...new Set(exports.flatMap(({ schedule }) => (schedule === undefined ? [] : [schedule.group])))];
  const listed = await mapConcurrently(groups, concurrency, async (group) => {
    return [group, await listSchedules(scheduler, group)] as const;
  });
  return new Map(listed);
}

/** The running executions by state machine, of those machines for which it matters. */
async function readRunning(
  states: readonly StoredState[],
  { stepFunctions }: OperatorClients,
): Promise<ReadonlyMap<string, RunningExecutions>> {
  const withRuns = states.filter(({ state }) => state.status === 'fulfilled' && state.value?.active !== undefined);
  const machines = [...new Set(withRuns.map(({ export: { service } }) => service.stateMachineArn))];
  const listed = await mapConcurrently(machines, concurrency, async (machine) => {
    return [machine, await listRunningExecutions(stepFunctions, machine)] as const;
  });
  return new Map(listed);
}

async function readProgress(
  { service: { stateMachineArn, table, service } }: StackExport,
  active: Run,
  running: ReadonlyMap<string, RunningExecutions>,
  { dynamoDb, stepFunctions }: OperatorClients,
  runtime: Runtime,
): Promise<ExportFacts['active']> {
  const log = createDynamoPageLog({ client: dynamoDb, table, service, runtime });
  const { arns, isComplete } = running.get(stateMachineArn) ?? { arns: new Set(), isComplete: false };
  const isListed = arns.has(active.execution);
  // The list may not have an execution that started just now, but one that has recorded a failure does not run any longer.
  const isUncertain = !isListed && (!isComplete || active.lastFailure === undefined);
  const [last, isRunning] = await Promise.all([
    log.last(active),
    isUncertain ? createExecutions(stepFunctions, stateMachineArn).isRunning(active.execution) : isListed,
  ]);
  return { isRunning, last };
}

function nextStartOf(
  { name, schedule }: StackExport,
  schedules: ReadonlyMap<string, ReadonlyMap<string, ListedSchedule>>,
  state: ExportState | undefined,
  now: number,
): NextStart {
  const listed = schedule && schedules.get(schedule.group)?.get(name);
  // Someone may have deleted the schedule.
  if (schedule === undefined || listed === undefined) return { kind: 'manual' };
  const { expression, timeZone, flexible } = schedule;
  return nextStart({ name, expression, timeZone, flexible, ...listed }, now, state?.lastScheduledTime);
}
