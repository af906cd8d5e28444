/** Runs one history: creates the world of a seed, lets it run until all exports are complete, and checks the invariants. */

import { checkCompletion } from '../invariants/completion.ts';
import { createExecutionChecks } from '../invariants/executions.ts';
import { checkObjectSettings } from '../invariants/object-settings.ts';
import type { ObservedExport } from '../invariants/observations.ts';
import { createWriteChecks, exportOf, type WriteChecks } from '../invariants/write-checks.ts';
import { describeExecution, performTask } from '../step-functions/integrations.ts';
import { createStepFunctions, type StepFunctions } from '../step-functions/step-functions.ts';
import { createDeployments, type Version } from '../world/deployments.ts';
import { createSimulatedDynamoDb } from '../world/dynamodb.ts';
import type { LogLine } from '../world/event-log.ts';
import { createContainer } from '../world/container.ts';
import { bucket, createHandler, deployedSettings, type Endpoints, prefix, table, vendor } from '../world/functions.ts';
import { createLambda } from '../world/lambda.ts';
import type { Process } from '../world/process.ts';
import { createSimulatedService, type SimulatedService } from '../world/report-service.ts';
import { createReportTimeline } from '../world/reports.ts';
import { createSimulatedS3 } from '../world/s3.ts';
import { type ApiKeys, createApiKeys } from '../world/secrets.ts';
import { createServiceTraffic } from '../world/traffic.ts';
import { createWorld, type Fault, type Violation, type World } from '../world/world.ts';
import { type Crowd, createScenario, type ExportInput, type ExportScenario, type Scenario } from './scenario.ts';
import { scheduleStarts } from './starts.ts';

export interface HistoryPlan {
  readonly seed: string;
  /** About how many pages the largest run has. */
  readonly pages: number;
  /** Instead of the exports that the seed brings. */
  readonly crowd?: Crowd | undefined;
  /** Names of the only faults that may occur; undefined: all that the seed brings. */
  readonly allowedFaults?: ReadonlySet<string>;
  /** Names of the faults that occur, whatever the seed brings. */
  readonly forcedFaults?: ReadonlySet<string>;
  /** Whether to record the event log. */
  readonly recordLog?: boolean;
}

export interface History {
  readonly seed: string;
  readonly violation: Violation | undefined;
  readonly injectedFaults: readonly Fault[];
  /** Every fault that could have been injected; empty unless the log is recorded. */
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
  const { seed, pages, crowd, allowedFaults, forcedFaults, recordLog = false } = plan;
  const scenario = createScenario(seed, pages, crowd);
  const { start, faultsEndAt, rates, end } = scenario;
  const world = createWorld({ seed, start, rates, faultsEndAt, allowedFaults, forcedFaults, recordLog });
  const exports = new Map<string, ObservedExport>();
  const apiKeys = createApiKeys(world, { start, faultsEndAt, field: scenario.deployment.apiKeyField });
  const { s3, dynamoDb, checks, endpoints } = createStores(world, scenario, exports, apiKeys);
  const { lambda, stepFunctions, announcedRuns } = createService(world, scenario, endpoints);
  for (const each of scenario.exports) {
    const observed = observeExport(world, scenario, each, apiKeys, stepFunctions, announcedRuns);
    exports.set(observed.name, observed);
  }
  for (const observed of exports.values()) scheduleStarts(world, scenario, observed);

  const eventLimit = maxEvents * scenario.exports.length;
  await world.time.run({
    until: end,
    stop: () => world.violation() !== undefined || world.time.eventCount() > eventLimit,
  });
  if (world.time.eventCount() > eventLimit) {
    world.violate('every export completes', `still running after ${eventLimit} events`);
  }
  const all = [...exports.values()];
  for (const observed of all) checkCompletion(world, scenario, observed, checks, dynamoDb.item);

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
function createStores(
  world: World,
  scenario: Scenario,
  exports: ReadonlyMap<string, ObservedExport>,
  apiKeys: ApiKeys,
) {
  const { maxConcurrentPages } = scenario.deployment;
  let writer: Process | undefined;
  const findExecution = (arn: string) => {
    // All exports have the same state machine.
    const [first] = exports.values();
    return first?.stepFunctions.find(arn);
  };
  const checks: WriteChecks = createWriteChecks({
    world,
    maxConcurrentPages: maxConcurrentPages ?? 0,
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
  const dynamoDb = createSimulatedDynamoDb({ ...scenario.table, tableName: table, onWrite: checks.onItem });
  const performFor = <Response>(process: Process, perform: () => Response): Response => {
    writer = process;
    return perform();
  };
  const endpoints: Endpoints = {
    world,
    traffic: createServiceTraffic(world, maxConcurrentPages),
    s3(process, command) {
      checkObjectSettings(world, bucket, scenario.deployment, command);
      return performFor(process, () => s3.perform(command));
    },
    dynamoDb: (process, command) => performFor(process, () => dynamoDb.perform(command)),
    stepFunctions: (process, command) => describeExecution(world, process, findExecution, command),
    secretsManager: (_process, command) => apiKeys.perform(command),
    // Only the execution says for which export a request is; the service sees a filter.
    serviceFor: ({ payload }) => exports.get(exportOf(payload.input) ?? '')?.service ?? firstService(exports),
  };
  return { s3, dynamoDb, checks, endpoints };
}

function firstService(exports: ReadonlyMap<string, ObservedExport>): SimulatedService {
  const [first] = exports.values();
  if (first === undefined) throw new Error('The history has no export');
  return first.service;
}

const withOtherEmptyRuns = (input: ExportInput): ExportInput => ({
  ...input,
  publishEmptyRuns: input.publishEmptyRuns !== true,
});

/** The functions and the state machine that all exports share. */
function createService(world: World, scenario: Scenario, endpoints: Endpoints) {
  const { exports: scenarios, deployment, timedOutFunctionsContinue, maxFunctionSkewMs } = scenario;
  const deployments = createDeployments(world, scenario);
  const { versions } = deployments;
  const [first] = versions as [Version];
  const lambda = createLambda({
    world,
    timedOutFunctionsContinue,
    maxSkewMs: maxFunctionSkewMs,
    functionVersion: deployments.functionVersion,
    createContainer(step, id, version, isChanged) {
      const settings = isChanged
        ? deployedSettings(deployment, version.exports.map(withOtherEmptyRuns))
        : version.settings;
      return createContainer(id, (container) =>
        createHandler(endpoints, deployment, { ...version, settings }, step, container),
      );
    },
    needsChangedContainer: (step, id) => step === 'FinishRun' && world.injectFault('settings-changed', id),
  });
  const announcedRuns = new Set<string>();
  const integrations = { world, lambda, stepFunctions: () => stepFunctions, announcedRuns };
  const [only] = scenarios.length === 1 ? scenarios : [];
  const iterationsOf = (input: unknown) => {
    const name = exportOf(input) ?? only?.settings.name ?? '';
    // An execution may invoke the functions of several versions.
    const inputs = versions.flatMap((version) => version.exports.filter((each) => each.name === name));
    return Math.max(0, ...inputs.map(({ iterationsPerExecution = 250 }) => iterationsPerExecution));
  };
  const stepFunctions = createStepFunctions({
    definition: first.definition,
    definitionFor: deployments.definition,
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
  apiKeys: ApiKeys,
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
    apiKeys,
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
