/** One history: a world made from a seed, left to itself until all is done, and whether every promise was kept. */

import { functionLimits, stateGraceSeconds } from '../../../lib/cdk/function-limits.ts';
import { serviceSettingsSchema } from '../../../lib/core/settings/settings.ts';
import { byStep, type StepName, stateMachine } from '../../../lib/core/state-machine/definition.ts';
import { watchExecutions } from '../invariants/executions.ts';
import { createInvariants, type ExportWorld, type Invariants } from '../invariants/invariants.ts';
import { checkCalm } from '../invariants/liveness.ts';
import { describeExecution, performTask } from '../step-functions/integrations.ts';
import { createStepFunctions, type StepFunctions } from '../step-functions/step-functions.ts';
import { createSimulatedDynamoDb } from '../world/dynamodb.ts';
import { apiKey, type Outside, prefix, runStep, vendor } from '../world/functions.ts';
import { createLambda } from '../world/lambda.ts';
import type { Process } from '../world/process.ts';
import { createSimulatedService } from '../world/report-service.ts';
import { reportTimeline } from '../world/reports.ts';
import { createSimulatedS3 } from '../world/s3.ts';
import { createWorld, type Line, type Strike, type Violation, type World } from '../world/world.ts';
import { type ExportSetting, type Setting, settingFor } from './scenario.ts';
import { makeStarts } from './starts.ts';

export interface HistoryPlan {
  readonly seed: string;
  /** About how many pages the largest run has. */
  readonly pages: number;
  /** Only these faults may strike; undefined: whatever the seed brings. */
  readonly only?: ReadonlySet<string>;
  /** Just these faults strike, whatever the seed brings. */
  readonly exactly?: ReadonlySet<string>;
  /** Whether to keep the history, line by line. */
  readonly writeDown?: boolean;
}

export interface History {
  readonly seed: string;
  readonly violation: Violation | undefined;
  readonly strikes: readonly Strike[];
  /** Where the history is written down: every fault that might have struck. */
  readonly possible: readonly Strike[];
  readonly lines: readonly Line[];
  readonly start: number;
  readonly figures: Figures;
}

export interface Figures {
  readonly events: number;
  readonly executions: number;
  readonly invocations: number;
  readonly requestsToService: number;
  readonly pagesStored: number;
  readonly runsPublished: number;
  readonly mostHistoryEvents: number;
}

/** What makes one export, once the world is there. */
export interface Exported extends ExportWorld {
  readonly setting: ExportSetting;
  readonly machine: StepFunctions;
  /** Runs whose completion the event bus was told. */
  readonly announced: ReadonlySet<string>;
}

/** More than this, and something goes round for ever. */
const mostEvents = 150_000;

export async function makeHistory({ seed, pages, only, exactly, writeDown = false }: HistoryPlan): Promise<History> {
  const setting = settingFor(seed, pages);
  const { start, calmFrom, rates, end } = setting;
  const world = createWorld({ seed, start, rates, calmFrom, only, exactly, writeDown });
  const exports = new Map<string, Exported>();
  const { invariants, outside, find } = stores(world, setting, exports);
  const invocations: (() => number)[] = [];
  for (const each of setting.exports) {
    const { name } = each.settings;
    const { exported, lambda } = exportIn(world, setting, each, outside);
    exports.set(name, exported);
    invocations.push(lambda);
    makeStarts(world, setting, exported);
  }
  await world.time.run({
    until: end,
    stop: () => world.violation() !== undefined || world.time.events() > mostEvents,
  });
  if (world.time.events() > mostEvents)
    world.violate('every export completes', `after ${mostEvents} events it still goes on`);
  const all = [...exports.values()];
  for (const exported of all) checkCalm(world, setting, exported, invariants, find.item);
  const sum = (count: (exported: Exported) => number) => all.reduce((total, exported) => total + count(exported), 0);
  const executions = all.flatMap(({ machine }) => machine.executions);
  return {
    seed,
    violation: world.violation(),
    strikes: world.struck,
    possible: world.possible,
    lines: world.lines,
    start,
    figures: {
      events: world.time.events(),
      executions: executions.length,
      invocations: invocations.reduce((total, count) => total + count(), 0),
      requestsToService: sum(({ service }) => service.requests()),
      pagesStored: find.pages(),
      runsPublished: invariants.publishedRuns(),
      mostHistoryEvents: Math.max(0, ...executions.map(({ events }) => events)),
    },
  };
}

/** The stores all exports share, and the way to them. */
function stores(world: World, setting: Setting, exports: ReadonlyMap<string, Exported>) {
  let writer: Process | undefined;
  const execution = (arn: string) => {
    for (const { machine } of exports.values()) {
      const found = machine.find(arn);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  const invariants: Invariants = createInvariants({
    world,
    prefix,
    s3: () => s3,
    dynamoDb: () => dynamoDb,
    exports,
    writer: () => {
      if (writer === undefined) throw new Error('nobody writes');
      return writer;
    },
    execution,
  });
  const s3 = createSimulatedS3(invariants.onObject);
  const dynamoDb = createSimulatedDynamoDb({ ...setting.table, onWrite: invariants.onItem });
  const by = <Answer>(process: Process, act: () => Answer): Answer => {
    writer = process;
    return act();
  };
  const outside: Omit<Outside, 'service'> = {
    world,
    s3: (process, command) => by(process, () => s3.perform(command)),
    dynamoDb: (process, command) => by(process, () => dynamoDb.perform(command)),
    stepFunctions: (process, command) => describeExecution(world, process, execution, command),
  };
  const find = {
    item: dynamoDb.item,
    pages: () => [...s3.objects.keys()].filter((key) => key.includes('/page-')).length,
  };
  return { invariants, outside, find };
}

function exportIn(world: World, setting: Setting, each: ExportSetting, outside: Omit<Outside, 'service'>) {
  const { settings } = each;
  const { name } = settings;
  const dice = world.dice(`reports of ${name}`);
  const timeline = reportTimeline({
    dice,
    ...each.reports,
    everyMs: each.everyMs,
    from: setting.start + each.service.skewMs,
    until: setting.calmFrom + 3_600_000 + each.service.skewMs,
  });
  const service = createSimulatedService({
    world,
    vendor,
    apiKey,
    timeline,
    ...each.service,
    padding: Buffer.alloc(each.service.paddingBytes, ' '),
  });
  const { seconds } = functionLimits({ service: serviceSettings, settings });
  const lambda = createLambda({
    world,
    timeoutSeconds: seconds,
    zombies: setting.zombies,
    skewMs: setting.functionSkewMs,
    run: (process, remainingMs) => runStep({ ...outside, service }, each, process, remainingMs),
  });
  const announced = new Set<string>();
  const machine = createStepFunctions({
    definition: stateMachine({
      exportName: name,
      functions: byStep((step: StepName) => step),
      eventBus: 'default',
      partition: 'aws',
      stepTimeoutSeconds: byStep((step) => seconds[step] + stateGraceSeconds),
      executionTimeoutSeconds: 86_400,
    }),
    machine: `arn:aws:states:us-east-1:123456789012:stateMachine:${name}`,
    time: world.time,
    random: (about) => world.dice(about).roll(),
    perform: (call) => performTask({ world, lambda, machine: () => machine, announced }, call),
    transitionMs: 25,
    on: watchExecutions(world, settings.iterationsPerExecution),
  });
  const initial = settings.since.initial === undefined ? undefined : Date.parse(settings.since.initial);
  const { maxCursorRestarts } = settings;
  const exported: Exported = { name, service, timeline, initial, maxCursorRestarts, setting: each, machine, announced };
  return { exported, lambda: lambda.invocations };
}

const serviceSettings = serviceSettingsSchema.parse({ baseUrl: 'https://reports.example.com' });
