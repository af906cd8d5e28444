/**
 * Backfills: the commands with which operators start, continue and abandon them, with the real operations and page log, on a
 * computer that fails like any other process; and what else they do with windows.
 */

import { isExportError } from '../../../lib/core/errors.ts';
import { abandonBackfill } from '../../../lib/backfill/abandon.ts';
import { beginBackfill } from '../../../lib/backfill/plan.ts';
import type { BackfillRequest } from '../../../lib/backfill/request.ts';
import { remainingWindows } from '../../../lib/backfill/window-states.ts';
import { probeWindow } from '../../../lib/backfill/probe-window.ts';
import { exportDefinition, serviceSettingsSchema, sourceOf } from '../../../lib/settings/settings.ts';
import type { Backfill } from '../../../lib/backfill/store.ts';
import { type Window, windowName } from '../../../lib/backfill/windows.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { type Observations, type ObservedExport, partitionOf } from '../invariants/observations.ts';
import { settleAbandonment } from '../invariants/windows.ts';
import type { ExecutionEvent } from '../step-functions/step-functions.ts';
import { createContainer } from '../world/container.ts';
import { text } from '../world/dynamodb.ts';
import { createOperatorTools, deployedSettings, type Endpoints } from '../world/functions.ts';
import { createProcess } from '../world/process.ts';
import { createWindowScheduler } from '../world/window-scheduler.ts';
import type { BackfillScenario, Scenario } from './scenario.ts';

const minute = 60_000;
const untilOperator = 'lt';

/** A command that fails is repeated this often. One that is refused is not. */
const maxAttempts = 3;

type Tools = ReturnType<typeof createOperatorTools>;

interface BackfillWorld {
  readonly observations: Observations;
  readonly endpoints: Endpoints;
  readonly scenario: Pick<Scenario, 'start' | 'faultsEndAt' | 'deployment'>;
  readonly observed: ObservedExport;
}

/** Schedules what operators do with the backfill of the export, if it has one. */
export function scheduleBackfill({
  observations,
  endpoints,
  scenario: { start, faultsEndAt, deployment },
  observed: { name, label, stepFunctions, scenario },
}: BackfillWorld): { readonly onEvent: (event: ExecutionEvent) => void } | undefined {
  const { backfill: plan } = scenario;
  if (plan === undefined) return undefined;
  const { world } = observations;
  const { time } = world;
  const service = serviceSettingsSchema.parse(deployedSettings(deployment, []).service);
  const definition = exportDefinition(scenario.settings, sourceOf(service.baseUrl), service);
  const scheduler = createWindowScheduler(world, () => stepFunctions);

  const run = (command: string, at: number, act: (tools: Tools, id: string) => Promise<void>) => {
    const attempt = (number: number) => {
      const id = `${label}-${command}#${number}`;
      let isOver = false;
      const repeat = () => {
        // A command that has failed may still have a process that is killed later.
        if (isOver || number === maxAttempts) return;
        isOver = true;
        time.after(world.rng(`${id}/repeat`).between(1, 15) * minute, () => attempt(number + 1));
      };
      const process = createProcess({
        world,
        id,
        step: 'Operator',
        payload: { input: { export: name }, execution: id },
        skewMs: 0,
        clockJumps: false,
        onKilled: repeat,
      });
      const container = createContainer(id, () => async () => undefined);
      container.begin(process);
      world.log(id, () => 'begins');
      act(createOperatorTools(endpoints, deployment, container), id).then(
        () => {
          isOver = true;
          world.log(id, () => 'ends');
        },
        (error: unknown) => {
          world.log(id, () => `fails: ${String(error)}`);
          if (!(error instanceof Error)) throw error;
          if (!isExportError(error, 'ConfigurationError')) repeat();
        },
      );
    };
    time.after(at - time.now(), () => attempt(1));
  };

  const startWith =
    (chooseRequest: (tools: Tools) => Promise<BackfillRequest>) =>
    async (tools: Tools, id: string): Promise<void> => {
      const { log, store, runtime, service } = tools;
      const request = await chooseRequest(tools);
      const root = await probeWindow(
        { definition, service, untilOperator, log, runtime },
        { since: request.from, until: request.to },
      );
      const backfill = await beginBackfill(
        { log, backfills: log.backfills, store, runtime, definition, untilOperator },
        request,
        root,
      );
      exportWindows(id, await remainingWindows(log.backfills, backfill), backfill);
    };

  const exportWindows = (id: string, windows: readonly Window[], { parallel }: Backfill): void => {
    world.log(id, () => `starts ${windows.length} windows, ${parallel} at a time`);
    if (windows.length === 0) return;
    const named = windows.map((window) => {
      const { since, until } = window;
      return { name: windowName(name, window), since: Date.parse(since), until: Date.parse(until) };
    });
    scheduler.run(id, named, parallel);
  };

  const planned = requestOf(plan);
  /** The newest backfill if there is one, as its status shows it. */
  const continued = startWith(async ({ log }) => {
    const newest = await log.backfills.read(name);
    return newest === undefined ? planned : { ...planned, from: newest.from, to: newest.to, windowMs: newest.windowMs };
  });
  const abandon = async ({ log, runtime, store, executions }: Tools, id: string): Promise<void> => {
    const { backfill, abandonedRuns } = await abandonBackfill(
      { log, backfills: log.backfills, runtime, store, executions },
      name,
    );
    world.log(id, () => `has abandoned version ${backfill.version} with ${abandonedRuns} runs`);
    settleAbandonment(observations, name, backfill);
  };

  run(
    'backfill',
    plan.startsAt,
    startWith(async () => planned),
  );
  for (let at = plan.startsAt + 10 * minute; at < faultsEndAt; at += 25 * minute) {
    const moment = `backfill-${Math.round((at - start) / minute)}`;
    const rng = world.rng(`${label}-${moment}`);
    const dueAt = at + rng.between(0, 25) * minute;
    const site = `${label}-${moment}`;
    if (world.injectFault('backfill-abandoned', site)) run(`${moment}-abandon`, dueAt, abandon);
    if (world.injectFault('backfill-started-again', site)) {
      run(
        `${moment}-again`,
        dueAt + rng.pick([0, 1_000, 5 * minute]),
        rng.chance(0.5) ? continued : startWith(async () => planned),
      );
    }
    if (world.injectFault('backfill-with-other-windows', site)) {
      const { from, to, windowMs } = plan;
      const halfMs = Math.ceil(windowMs / 2_000) * 1_000;
      const other = {
        ...plan,
        from: from + rng.pick([0, 0, 1_000, -60 * minute, halfMs]),
        to: to + rng.pick([0, -1_000, -60 * minute]),
        windowMs: rng.pick([windowMs * 2, windowMs * 2, halfMs, windowMs + 1_000]),
      };
      if (other.to > other.from)
        run(
          `${moment}-other`,
          dueAt + rng.pick([500, 5 * minute]),
          startWith(async () => requestOf(other)),
        );
    }
    if (world.injectFault('window-started-again', site)) {
      time.after(dueAt - time.now(), () => {
        const items = observations.dynamoDb().items(partitionOf(name), 'window#');
        if (items.length === 0) return;
        const window = `${name}/${text(rng.pick(items), 'sk').slice('window#'.length)}`;
        world.log('operator', () => `starts ${window}`);
        stepFunctions.start(`${site}-window`, { export: window });
      });
    }
    if (world.injectFault('window-scheduler-stopped', site)) {
      time.after(dueAt - time.now(), () => {
        world.log('operator', () => 'stops what starts the windows');
        scheduler.stop();
      });
    }
  }
  // What operators have begun during the faults has ended by then.
  const settledAt = faultsEndAt + 150 * minute;
  if (plan.isGivenUp) run('backfill-given-up', settledAt, abandon);
  else {
    run('backfill-completed', settledAt, continued);
    run('backfill-completed-at-last', settledAt + 120 * minute, continued);
  }
  return { onEvent: scheduler.onEvent };
}

const requestOf = ({ from, to, windowMs, parallel }: BackfillScenario): BackfillRequest => ({
  from: instantOf(from),
  to: instantOf(to),
  windowMs,
  parallel,
});
