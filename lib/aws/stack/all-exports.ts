/** All exports of a stack, to read the status of each: what can be read of many exports in one request is. */

import { mapConcurrently } from '../../core/concurrency.ts';
import type { DeployedExport } from '../../target/target.ts';
import type { Runtime } from '../../core/ports.ts';
import { type ItemKey, stateKey } from '../dynamodb/items.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { readItems } from '../dynamodb/read-items.ts';
import { listSchedules } from '../scheduler/schedules.ts';
import { listRunningExecutions, type RunningExecutions } from '../step-functions/running-executions.ts';
import type { OperatorClients } from './clients.ts';
import { openDeployedExport } from './deployed-export.ts';
import type { StackExport } from './services.ts';

const concurrency = 8;

/**
 * Sends one request for a hundred states, and one per schedule group (and per hundred schedules in it).
 * To read their status then takes one per state machine whose exports have unfinished runs (and per thousand running executions),
 * one for each unfinished run, and another for each that seems to have stopped. Needs
 * dynamodb:BatchGetItem, dynamodb:Query, scheduler:ListSchedules, states:ListExecutions and states:DescribeExecution.
 */
export async function openAllExports(
  exports: readonly StackExport[],
  clients: OperatorClients,
  runtime: Runtime,
): Promise<readonly DeployedExport[]> {
  const { dynamoDb: client, stepFunctions } = clients;
  const locations = exports.map(({ name, service: { table, service } }) => ({ table, ...stateKey(service, name) }));
  const [itemAt, schedules] = await Promise.all([
    readItems({ client, clock: runtime }, locations),
    readSchedules(exports, clients),
  ]);
  const running = new Map<string, Promise<RunningExecutions>>();
  /** First read after the states, so that the executions that they name have been started. */
  const runningOn = (machine: string): Promise<RunningExecutions> => {
    const listed = running.get(machine) ?? listRunningExecutions(stepFunctions, machine);
    running.set(machine, listed);
    return listed;
  };
  return exports.map((each) => {
    const { name, service, schedule } = each;
    const { table } = service;
    const deployed = openDeployedExport(each, clients, runtime);
    const readItem = async (key: ItemKey) => itemAt({ table, ...key });
    const log = createDynamoPageLog({ client, table, service: service.service, runtime, readItem });
    return {
      ...deployed,
      log,
      executions: {
        ...deployed.executions,
        isRunning: async (execution) => {
          const { arns, isComplete } = await runningOn(service.stateMachineArn);
          if (arns.has(execution)) return true;
          // The list may lack an execution that started just now, but one that has recorded a failure does not run any longer.
          const active = (await log.exportState(name))?.active;
          const hasFailed = active?.execution === execution && active.lastFailure !== undefined;
          return !(hasFailed && isComplete) && (await deployed.executions.isRunning(execution));
        },
      },
      async readSchedule() {
        const kind = schedule && schedules.get(schedule.group)?.get(name);
        if (schedule === undefined || kind === undefined) return { kind: 'manual' };
        return { kind, expression: schedule.expression, timeZone: schedule.timeZone };
      },
    };
  });
}

/** The listed schedules by group. */
async function readSchedules(exports: readonly StackExport[], { scheduler }: OperatorClients) {
  const groups = [...new Set(exports.flatMap(({ schedule }) => (schedule === undefined ? [] : [schedule.group])))];
  const listed = await mapConcurrently(groups, concurrency, async (group) => {
    return [group, await listSchedules(scheduler, group)] as const;
  });
  return new Map(listed);
}
