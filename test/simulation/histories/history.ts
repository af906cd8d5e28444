/** Runs one history: creates the world of a seed, runs it until all exports are complete, and checks the invariants. */

import { checkCompletion, checkUploads, lastEffectiveStart } from '../invariants/completion.ts';
import { createExecutionChecks } from '../invariants/executions.ts';
import { checkObjectSettings } from '../invariants/object-settings.ts';
import { exportOf, type Observations, type ObservedExport } from '../invariants/observations.ts';
import { createOracle } from '../invariants/oracle.ts';
import { createRetryAfterChecks } from '../invariants/retry-after.ts';
import { checkProof, checkSlicesRead } from '../invariants/slices.ts';
import { createReportJobChecks, type ReportJobChecks } from '../invariants/report-jobs.ts';
import { createStartChecks } from '../invariants/starts.ts';
import { createWriteChecks, type WriteChecks } from '../invariants/write-checks.ts';
import { describeExecution, performTask } from '../step-functions/integrations.ts';
import { createStepFunctions, type ExecutionEvent, type StepFunctions } from '../step-functions/step-functions.ts';
import { createDeployments, type Deployments, type Version } from '../world/deployments.ts';
import { createSimulatedDynamoDb } from '../world/dynamodb.ts';
import type { LogLine } from '../world/event-log.ts';
import { createContainer } from '../world/container.ts';
import { bucket, createHandler, deployedSettings, type Endpoints, prefix, table, vendor } from '../world/functions.ts';
import { createLambda } from '../world/lambda.ts';
import { maxClockJumpMs, type Process } from '../world/process.ts';
import { createSimulatedService, type SimulatedService } from '../world/report-service.ts';
import { contractApi, describedApi } from '../world/service-apis.ts';
import { createReportTimeline, ofListedParents } from '../world/reports.ts';
import type { Command } from '../world/sdk-clients.ts';
import { createSimulatedS3, type SimulatedS3 } from '../world/s3.ts';
import { type ApiKeys, createApiKeys } from '../world/secrets.ts';
import { createServiceTraffic } from '../world/traffic.ts';
import type { RateLimit } from '../../../lib/core/slots/request-rate.ts';
import { createWorld, type Fault, type Violation, type World } from '../world/world.ts';
import { createAbandon } from './abandon.ts';
import { scheduleBoundedRuns } from './bounded-runs.ts';
import { createDaysScenario } from './days.ts';
import {
  type ExportInput,
  type Crowd,
  createScenario,
  type ExportScenario,
  listName,
  type Scenario,
} from './scenario.ts';
import { createSmallScenario, type SmallHistory } from './small-histories.ts';
import { createOperators, partsOf } from './operators.ts';
import { scheduleStarts } from './starts.ts';

export interface HistoryPlan {
  readonly seed: string;
  /** About how many pages the largest run has. */
  readonly pages: number;
  /** Instead of the exports that the seed brings. */
  readonly crowd?: Crowd | undefined;
  /** Whether all exports have report jobs, if the service can. Undefined: the seed decides. */
  readonly jobs?: boolean | undefined;
  /** Several days with right clocks. */
  readonly days?: boolean | undefined;
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
  readonly pagesStored: number;
  readonly runsPublished: number;
  /** How many of `runsPublished` have several slices. */
  readonly slicedRunsPublished: number;
  /** How many of `runsPublished` are bounded. */
  readonly boundedRunsPublished: number;
  /** How many of `runsPublished` have parents. */
  readonly parentRunsPublished: number;
  /** How many jobs the service has created. */
  readonly reportJobs: number;
}

/** A history with more events, per export, has a loop that never ends. */
const maxEvents = 400_000;

export async function runHistory(plan: HistoryPlan): Promise<History> {
  const { seed, allowedFaults, forcedFaults, recordLog = false, recordCandidates = false } = plan;
  const scenario = scenarioOf(plan);
  const { start, faultsEndAt, rates, end } = scenario;
  const faults = { rates, faultsEndAt, allowedFaults, forcedFaults, recordCandidates };
  const world = createWorld({ seed, start, ...faults, recordLog });
  const apiKeys = createApiKeys(world, scenario);
  const shared = createBucket(scenario.maxListed);
  const { s3 } = shared;
  const deployments = [createDeployment(world, scenario, shared, apiKeys, '')];
  if (scenario.otherExports.length > 0) {
    const other = { ...scenario, exports: scenario.otherExports };
    deployments.push(createDeployment(world, other, shared, apiKeys, 'other-'));
  }
  const all = deployments.flatMap(({ exports }) => [...exports.values()]);
  const lastStarts = new Map(
    deployments.flatMap(({ exports, abandon }) =>
      [...exports.values()].map((each) => [each, scheduleStarts(world, scenario, each, abandon)] as const),
    ),
  );
  for (const { exports, checks } of deployments) {
    for (const observed of exports.values()) scheduleBoundedRuns(world, scenario, observed, checks.completions);
  }

  const eventLimit = maxEvents * all.length;
  await world.time.run({
    until: end,
    stop: () => world.violation() !== undefined || world.time.eventCount() > eventLimit,
  });
  if (world.time.eventCount() > eventLimit) {
    world.violate('every export completes', `still running after ${eventLimit} events`);
  }
  for (const { exports, checks, dynamoDb, oracle } of deployments) {
    for (const observed of exports.values()) {
      const lastDueAt = lastStarts.get(observed)?.() ?? scenario.lastStartAt;
      const lastStartAt = lastEffectiveStart(lastDueAt, maxClockErrorOf(scenario), observed);
      const stores = { ...dynamoDb, damagedKeys: s3.damages.map(({ key }) => key) };
      checkCompletion(world, { ...scenario, lastStartAt }, observed, checks, stores);
      oracle.checkEnd(observed, lastStartAt);
    }
  }
  checkUploads(world, s3, shared.uploads);

  const executions = deployments.flatMap(({ stepFunctions }) => stepFunctions.executions);
  const manifests = deployments.flatMap(({ checks }) => checks.manifests());
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
      invocations: deployments.reduce((total, { lambda }) => total + lambda.invocationCount(), 0),
      pagesStored: [...s3.objects.keys()].filter((key) => key.includes('/page-')).length,
      runsPublished: manifests.length,
      slicedRunsPublished: manifests.filter(({ slices }) => slices !== undefined).length,
      boundedRunsPublished: manifests.filter(({ bounded }) => bounded).length,
      parentRunsPublished: manifests.filter(({ parents }) => parents !== undefined).length,
      reportJobs: all.reduce((total, { service }) => total + (service.jobs?.all().length ?? 0), 0),
    },
  };
}

const scenarioOf = ({ seed, pages, crowd, small, days = false, jobs }: HistoryPlan): Scenario => {
  if (small !== undefined) return createSmallScenario(small);
  return days ? createDaysScenario(seed, pages) : createScenario(seed, pages, { crowd, jobs });
};

/** Called with each object before it is stored, and with the object that it replaces. */
type OnObject = Parameters<typeof createSimulatedS3>[0];

/** A bucket that several deployments may use. Each checks what its own functions write. */
interface Bucket {
  readonly s3: SimulatedS3;
  /** The process that has created each upload in parts. */
  readonly uploads: Map<string, Process>;
  readonly perform: (command: Command, onObject: OnObject) => unknown;
}

function createBucket(maxListed: number): Bucket {
  let onWrite: OnObject = () => {};
  const s3 = createSimulatedS3((...written) => onWrite(...written), maxListed);
  return {
    s3,
    uploads: new Map(),
    perform(command, onObject) {
      onWrite = onObject;
      return s3.perform(command);
    },
  };
}

/** The exports of a service, and everything of theirs alone. `label`: the beginning of their executions' names. */
function createDeployment(world: World, scenario: Scenario, shared: Bucket, apiKeys: ApiKeys, label: string) {
  const exports = new Map<string, ObservedExport>();
  const versions = createDeployments(world, scenario, label);
  const stores = createStores(world, scenario, exports, shared, apiKeys);
  const { endpoints, onEvent } = stores;
  const { lambda, stepFunctions, announcedRuns } = createService(world, scenario, versions, endpoints, onEvent, label);
  for (const each of scenario.exports) {
    const { name } = each.settings;
    const observed = {
      ...observeExport(world, scenario, each, apiKeys, stepFunctions, announcedRuns, label + name, stores),
      versions: versions.settingsOf(name),
      reportsExpectedUntil: versions.reportsExpectedUntil,
      requestMark: versions.requestMark,
    };
    exports.set(observed.name, observed);
  }
  return { ...stores, exports, lambda, stepFunctions };
}

/** The largest difference between the clock of a function and the true time. */
const maxClockErrorOf = ({ maxFunctionSkewMs, clocksJump }: Scenario): number =>
  maxFunctionSkewMs + (clocksJump ? maxClockJumpMs : 0);

/** The rate of the service, if the clocks agree as well as it needs (docs/guarantees.md). */
function provenRateOf({ deployment, maxFunctionSkewMs, clocksJump }: Scenario): RateLimit | undefined {
  const { rate } = deployment;
  const maxDelayMs = 500;
  const isProven = rate !== undefined && !clocksJump && 2 * maxFunctionSkewMs + maxDelayMs <= 0.01 * rate.perMs;
  return isProven ? rate : undefined;
}

/** The stores that all exports share, with the checks of everything that is written to them. */
function createStores(
  world: World,
  scenario: Scenario,
  exports: ReadonlyMap<string, ObservedExport>,
  { s3, uploads, perform }: Bucket,
  apiKeys: ApiKeys,
) {
  const { maxConcurrentPages } = scenario.deployment;
  let writer: Process | undefined;
  const findExecution = (arn: string) => {
    // All exports have the same state machine.
    const [first] = exports.values();
    return first?.stepFunctions.find(arn);
  };
  const listings = new Map<string, number>();
  const foreignSeen = new Set<string>();
  const observations: Observations = {
    world,
    maxConcurrentPages: maxConcurrentPages ?? 0,
    maxSkewMs: scenario.maxFunctionSkewMs,
    dateUnitMs: dateUnitOf(scenario.deployment),
    prefix,
    s3: () => s3,
    dynamoDb: () => dynamoDb,
    exports,
    writer() {
      if (writer === undefined) throw new Error('No process has sent a request yet');
      return writer;
    },
    findExecution,
    runs: new Map(),
    listedAt: (processId) => listings.get(processId),
    hasSeenForeign: (processId, key) => foreignSeen.has(`${processId} ${key}`),
  };
  const starts = createStartChecks(observations);
  const oracle = createOracle(observations, maxClockErrorOf(scenario));
  const jobs = createReportJobChecks(observations, maxClockErrorOf(scenario));
  const onState: typeof starts.onState = (...change) => {
    starts.onState(...change);
    oracle.onState(...change);
  };
  const checks: WriteChecks = createWriteChecks(observations, { ...starts, onState }, jobs);
  const operators = createOperators(observations, scenario.faultsEndAt);
  const onObject: OnObject = (key, object, existing) => {
    checks.onObject(key, object, existing);
    operators.onStored(key);
  };
  const dynamoDb = createSimulatedDynamoDb({ ...scenario.table, tableName: table, onWrite: checks.onItem });
  const performFor = <Response>(process: Process, perform: () => Response): Response => {
    writer = process;
    return perform();
  };
  const endpoints: Endpoints = {
    world,
    retryAfter: createRetryAfterChecks(world),
    traffic: createServiceTraffic(world, { maxConcurrentPages, rate: provenRateOf(scenario) }),
    s3(process, command) {
      checkObjectSettings(world, bucket, scenario.deployment, command);
      const response = performFor(process, () => perform(command, onObject));
      const { name } = command.constructor;
      const { Key = '' } = command.input as { Key?: string };
      const object = name === 'HeadObjectCommand' ? s3.objects.get(Key) : undefined;
      if (object !== undefined && !s3.versions(Key).includes(object)) foreignSeen.add(`${process.id} ${Key}`);
      // The process has stored the page itself: someone has removed the foreign one meanwhile.
      const stores = name === 'PutObjectCommand' || name === 'CompleteMultipartUploadCommand';
      if (stores) foreignSeen.delete(`${process.id} ${Key}`);
      if (name === 'ListObjectsV2Command' && !listings.has(process.id)) listings.set(process.id, world.time.now());
      const { UploadId } = response as { UploadId?: string };
      if (name === 'CreateMultipartUploadCommand' && UploadId !== undefined) uploads.set(UploadId, process);
      return response;
    },
    dynamoDb(process, command) {
      checkSlicesRead(observations, process, command);
      return performFor(process, () => dynamoDb.perform(command));
    },
    stepFunctions: (process, command) => describeExecution(world, process, findExecution, command),
    secretsManager: (_process, command) => apiKeys.perform(command),
    // Only the execution says for which export a request is; the service sees a filter.
    serviceFor: ({ payload }) => exports.get(exportOf(payload.input) ?? '')?.service ?? firstService(exports),
  };
  const checkExecution = createExecutionChecks(
    world,
    (input) => findExport(exports, input)?.versions ?? [],
    () => s3.damages.map(({ key }) => partsOf(prefix, key).run),
    (run) => checks.firstPageAt(run),
    () => [...exports.values()].reduce((sum, { service }) => sum + service.retryAfterCount(), 0),
  );
  const onEvent = (event: ExecutionEvent) => {
    checkExecution(event);
    const name = findExport(exports, event.execution.input)?.name ?? '';
    starts.onEvent(event, name);
    oracle.onEvent(event, name);
    operators.onEvent(event);
  };
  const abandon = createAbandon(observations, (process, command) =>
    performFor(process, () => dynamoDb.perform(command)),
  );
  return { dynamoDb, checks, jobs, endpoints, observations, onEvent, oracle, abandon };
}

/** The export that a start input names; without a name, the only one. */
function findExport(exports: ReadonlyMap<string, ObservedExport>, input: unknown): ObservedExport | undefined {
  const name = exportOf(input);
  const [only] = exports.size === 1 ? exports.values() : [];
  return name === undefined ? only : exports.get(name);
}

function firstService(exports: ReadonlyMap<string, ObservedExport>): SimulatedService {
  const [first] = exports.values();
  if (first === undefined) throw new Error('The history has no export');
  return first.service;
}

const dateUnitOf = ({ hasDays }: Scenario['deployment']): number => (hasDays ? 86_400_000 : 1_000);

/** The list of parents is always published. */
const withOtherEmptyRuns = ({ publishEmptyRuns = true, ...input }: ExportInput): ExportInput => ({
  ...input,
  publishEmptyRuns: !publishEmptyRuns || input.name === listName,
});

/** The functions and the state machine that all exports share. */
function createService(
  world: World,
  { deployment, timedOutFunctionsContinue, maxFunctionSkewMs, clocksJump }: Scenario,
  deployments: Deployments,
  endpoints: Endpoints,
  onEvent: (event: ExecutionEvent) => void,
  label: string,
) {
  const [first] = deployments.versions as [Version];
  const lambda = createLambda({
    world,
    timedOutFunctionsContinue,
    maxSkewMs: maxFunctionSkewMs,
    clocksJump,
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
  const { onOutcome } = endpoints.retryAfter;
  const integrations = { world, lambda, stepFunctions: () => stepFunctions, announcedRuns, onOutcome };
  const stepFunctions = createStepFunctions({
    definition: first.definition,
    definitionFor: deployments.definition,
    stateMachineArn: `arn:aws:states:us-east-1:123456789012:stateMachine:${label}acme`,
    time: world.time,
    random: (decision) => world.rng(decision).next(),
    perform: (call) => performTask(integrations, call),
    transitionMs: 25,
    onEvent,
  });
  return { lambda, stepFunctions, announcedRuns };
}

/** One export with reports of its own, and its executions. */
function observeExport(
  world: World,
  { start, faultsEndAt, exports, clocksJump, maxFunctionSkewMs, deployment }: Scenario,
  scenario: ExportScenario,
  apiKeys: ApiKeys,
  stepFunctions: StepFunctions,
  announcedRuns: ReadonlySet<string>,
  label: string,
  {
    checks,
    jobs,
    observations,
  }: { readonly checks: WriteChecks; readonly jobs: ReportJobChecks; readonly observations: Observations },
): Omit<ObservedExport, 'versions' | 'reportsExpectedUntil' | 'requestMark'> {
  const { name } = scenario.settings;
  const { skewMs } = scenario.service;
  const timeline = createReportTimeline({
    rng: world.rng(`reports of ${label}`),
    redatingRng: world.rng(`dates of reports of ${label}`),
    leavingRng: world.rng(`leaving reports of ${label}`),
    parentsRng: world.rng(`parents of reports of ${label}`),
    ...scenario.reports,
    listed: scenario.reports.listed?.map(({ id, from, until }) => ({ id, from: from + skewMs, until: until + skewMs })),
    intervalMs: scenario.intervalMs,
    from: start + scenario.service.skewMs,
    until: faultsEndAt + 3_600_000 + scenario.service.skewMs,
  });
  const service: SimulatedService = createSimulatedService({
    world,
    vendor,
    api:
      deployment.describedApi === undefined
        ? contractApi(vendor, scenario.settings.format === 'XML')
        : describedApi(deployment.describedApi, deployment),
    apiKeys,
    timeline,
    ...scenario.service,
    // Its vendor has corrected it by the end of the faults, so that every export can complete.
    upperBoundsAt: (at) => (at < faultsEndAt ? scenario.service.upperBounds : 'honored'),
    endStatus: deployment.endStatus,
    counts: deployment.counts === true,
    missingParents: scenario.missingParents ?? [],
    jobForm: scenario.jobForm,
    jobChecks: jobs.requests,
    needsUpperBound: deployment.hasUpperBound && deployment.describedApi !== undefined,
    listsAll: scenario.reports.listed !== undefined,
    dateUnitMs: dateUnitOf(deployment),
    onProof: (process, at, earlier) => checkProof(observations, { service }, process, at, earlier),
    // If the functions' clocks were ahead as well, the exporter could not notice it (docs/guarantees.md).
    datesMayLead: !clocksJump && scenario.service.skewMs >= maxFunctionSkewMs,
    padding: Buffer.alloc(scenario.service.paddingBytes, ' '),
    knowsRoot: (process) => deployment.rootElement !== undefined || checks.mustKnowRoot(process, service),
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
  const { values, export: list } = scenario.settings.parents ?? {};
  const isListed = (parent: string) => values?.includes(parent) ?? parent !== 'not listed';
  const expected = values === undefined && list === undefined ? timeline : ofListedParents(timeline, isListed);
  const skipped = new Set<string>();
  return { name, label, scenario, service, timeline: expected, stepFunctions: own, announcedRuns, skipped };
}
