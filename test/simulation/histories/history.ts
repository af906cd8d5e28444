/** Runs one history: creates the world of a seed, lets it run until all exports are complete, and checks the invariants. */

import { functionLimits, stateGraceSeconds } from '../../../lib/cdk/function-limits.ts';
import { byStep, type StepName, stateMachine } from '../../../lib/core/state-machine/definition.ts';
import { checkCompletion } from '../invariants/completion.ts';
import { createExecutionChecks } from '../invariants/executions.ts';
import type { ObservedExport } from '../invariants/observations.ts';
import { createWriteChecks, exportOf, type WriteChecks } from '../invariants/write-checks.ts';
import { describeExecution, performTask } from '../step-functions/integrations.ts';
import { createStepFunctions, type StepFunctions } from '../step-functions/step-functions.ts';
import { createSimulatedDynamoDb } from '../world/dynamodb.ts';
import type { LogLine } from '../world/event-log.ts';
import { apiKey, type Endpoints, prefix, runStep, serviceSettings, vendor } from '../world/functions.ts';
import { createLambda } from '../world/lambda.ts';
import type { Process } from '../world/process.ts';
import { createSimulatedService } from '../world/report-service.ts';
import { createReportTimeline } from '../world/reports.ts';
import { createSimulatedS3 } from '../world/s3.ts';
import { createServiceTraffic } from '../world/traffic.ts';
import { createWorld, type Fault, type Violation, type World } from '../world/world.ts';
import { type Crowd, createScenario, type ExportScenario, type Scenario } from './scenario.ts';
import { createSmallScenario, type SmallHistory } from './small-histories.ts';
import { scheduleStarts } from './starts.ts';

export interface HistoryPlan {
  readonly seed: string;
  /** About how many pages the largest run has. */
  readonly pages: number;
  /** Instead of the exports that the seed brings. */
  readonly crowd?: Crowd | undefined;
  /** Instead of the scenario that the seed brings. */
  readonly small?: SmallHistory | undefined;
  /** Names of the only faults that may occur; undefined: all that the seed brings. */
  readonly allowedFaults?: ReadonlySet<string>;
  /** Names of the faults that occur, whatever the seed brings. */
  readonly forcedFaults?: ReadonlySet<string>;
  /** Whether to record the event log. */
  readonly recordLog?: boolean;
  /** Whether to record every fault that could have been injected. */
  readonly recordCandidates?: boolean;
}

export interface History {
  readonly seed: string;
  readonly violation: Violation | undefined;
  readonly injectedFaults: readonly Fault[];
  /** Every fault that could have been injected, in the order of its chances; empty unless they are recorded. */
  readonly candidateFaults: readonly Fault[];
  readonly logLines: readonly LogLine[];
  readonly start: number;
  readonly stats: HistoryStats;
}

export interface HistoryStats {
  readonly events: number;
  readonly executions: number;
  readonly invocations: number;
  readonly requestsToService: number;
  readonly pagesStored: number;
  readonly runsPublished: number;
  readonly maxHistoryEvents: number;
}

/** A history with more events, per export, has a loop that never ends. */
const maxEvents = 150_000;

export async function runHistory(plan: HistoryPlan): Promise<History> {
  const { seed, pages, crowd, small, allowedFaults, forcedFaults, recordLog = false, recordCandidates = false } = plan;
  const scenario = small === undefined ? createScenario(seed, pages, crowd) : createSmallScenario(small);
  const { start, faultsEndAt, rates, end } = scenario;
  const faults = { rates, faultsEndAt, allowedFaults, forcedFaults, recordCandidates };
  const world = createWorld({ seed, start, ...faults, recordLog });
  const exports = new Map<string, ObservedExport>();
  const { s3, dynamoDb, checks, endpoints } = createStores(world, scenario, exports);
  const { lambda, stepFunctions, announcedRuns } = createService(world, scenario, exports, endpoints);
  for (const each of scenario.exports) {
    const observed = observeExport(world, scenario, each, stepFunctions, announcedRuns);
    exports.set(observed.name, observed);
  }
  const lastStarts = new Map([...exports].map(([name, observed]) => [name, scheduleStarts(world, scenario, observed)]));

  const eventLimit = maxEvents * scenario.exports.length;
  await world.time.run({
    until: end,
    stop: () => world.violation() !== undefined || world.time.eventCount() > eventLimit,
  });
  if (world.time.eventCount() > eventLimit) {
    world.violate('every export completes', `still running after ${eventLimit} events`);
  }
  const all = [...exports.values()];
  for (const observed of all) {
    const lastStartAt = lastStarts.get(observed.name)?.() ?? scenario.lastStartAt;
    checkCompletion(world, { ...scenario, lastStartAt }, observed, checks, dynamoDb.item);
  }

  const { executions } = stepFunctions;
  return {
    seed,
    violation: world.violation(),
    injectedFaults: world.injectedFaults,
    candidateFaults: world.candidateFaults,
    logLines: world.logLines,
    start,
    stats: {
      events: world.time.eventCount(),
      executions: executions.length,
      invocations: lambda.invocationCount(),
      requestsToService: all.reduce((total, { service }) => total + service.requestCount(), 0),
      pagesStored: [...s3.objects.keys()].filter((key) => key.includes('/page-')).length,
      runsPublished: checks.publishedRunCount(),
      maxHistoryEvents: Math.max(0, ...executions.map(({ eventCount }) => eventCount)),
    },
  };
}

/** The stores that all exports share, with the checks of everything that is written to them. */
function createStores(world: World, scenario: Scenario, exports: ReadonlyMap<string, ObservedExport>) {
  let writer: Process | undefined;
  const findExecution = (arn: string) => {
    // All exports have the same state machine.
    const [first] = exports.values();
    return first?.stepFunctions.find(arn);
  };
  const checks: WriteChecks = createWriteChecks({
    world,
    maxConcurrentPages: scenario.maxConcurrentPages ?? 0,
    maxSkewMs: scenario.maxFunctionSkewMs,
    prefix,
    s3: () => s3,
    dynamoDb: () => dynamoDb,
    exports,
    writer() {
      if (writer === undefined) throw new Error('No process has sent a request yet');
      return writer;
    },
    findExecution,
  });
  const s3 = createSimulatedS3(checks.onObject);
  const dynamoDb = createSimulatedDynamoDb({ ...scenario.table, onWrite: checks.onItem });
  const performFor = <Response>(process: Process, perform: () => Response): Response => {
    writer = process;
    return perform();
  };
  const endpoints: Endpoints = {
    world,
    traffic: createServiceTraffic(world, scenario.maxConcurrentPages),
    s3: (process, command) => performFor(process, () => s3.perform(command)),
    dynamoDb: (process, command) => performFor(process, () => dynamoDb.perform(command)),
    stepFunctions: (process, command) => describeExecution(world, process, findExecution, command),
  };
  return { s3, dynamoDb, checks, endpoints };
}

/** The functions and the state machine that all exports share. */
function createService(
  world: World,
  { exports: scenarios, maxConcurrentPages, timedOutFunctionsContinue, maxFunctionSkewMs }: Scenario,
  exports: ReadonlyMap<string, ObservedExport>,
  endpoints: Endpoints,
) {
  const { timeoutSeconds } = functionLimits({
    service: { ...serviceSettings, maxConcurrentPages },
    exports: scenarios.map(({ settings }) => settings),
  });
  const lambda = createLambda({
    world,
    timeoutSeconds,
    timedOutFunctionsContinue,
    maxSkewMs: maxFunctionSkewMs,
    run: (process, remainingMs) => runStep(endpoints, exports, maxConcurrentPages, process, remainingMs),
  });
  const announcedRuns = new Set<string>();
  const integrations = { world, lambda, stepFunctions: () => stepFunctions, announcedRuns };
  const [only] = scenarios.length === 1 ? scenarios : [];
  const iterationsOf = (input: unknown) => {
    const name = exportOf(input) ?? only?.settings.name ?? '';
    return exports.get(name)?.scenario.settings.iterationsPerExecution ?? 0;
  };
  const stepFunctions = createStepFunctions({
    definition: stateMachine({
      functions: byStep((step: StepName) => step),
      eventBus: 'default',
      partition: 'aws',
      stepTimeoutSeconds: byStep((step) => timeoutSeconds[step] + stateGraceSeconds),
      executionTimeoutSeconds: 86_400,
    }),
    stateMachineArn: 'arn:aws:states:us-east-1:123456789012:stateMachine:acme',
    time: world.time,
    random: (decision) => world.rng(decision).next(),
    perform: (call) => performTask(integrations, call),
    transitionMs: 25,
    onEvent: createExecutionChecks(world, iterationsOf),
  });
  return { lambda, stepFunctions, announcedRuns };
}

/** One export with reports of its own, and its executions. */
function observeExport(
  world: World,
  { start, faultsEndAt, exports }: Scenario,
  scenario: ExportScenario,
  stepFunctions: StepFunctions,
  announcedRuns: ReadonlySet<string>,
): ObservedExport {
  const { name } = scenario.settings;
  const timeline = createReportTimeline({
    rng: world.rng(`reports of ${name}`),
    ...scenario.reports,
    intervalMs: scenario.intervalMs,
    from: start + scenario.service.skewMs,
    until: faultsEndAt + 3_600_000 + scenario.service.skewMs,
  });
  const service = createSimulatedService({
    world,
    vendor,
    apiKey,
    timeline,
    ...scenario.service,
    padding: Buffer.alloc(scenario.service.paddingBytes, ' '),
  });
  const isOnly = exports.length === 1;
  const own = {
    ...stepFunctions,
    get executions() {
      return isOnly
        ? stepFunctions.executions
        : stepFunctions.executions.filter(({ input }) => exportOf(input) === name);
    },
  };
  return { name, scenario, service, timeline, stepFunctions: own, announcedRuns };
}
