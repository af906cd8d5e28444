/**
 * The checks of `doctor`: whether an export could run now, from its settings to a response of the service. They request one
 * page of size 1 from each service, from here and from its function on AWS, and do not store it. In a
 * directory, a file is written and removed again.
 */

import { systemRuntime } from '../core/clock.ts';
import { mapConcurrently } from '../core/concurrency.ts';
import { isExportError } from '../core/errors.ts';
import { noSettingsFile } from '../local/directory.ts';
import type { AlarmTopic, Concurrency, DeployedExport, Deployment, ScheduleState } from '../target/target.ts';
import { scheduleText } from './output/status-table.ts';
import { planRun } from './plan-run.ts';
import { listRuns, readBoundedRuns } from './run-status.ts';
import { emptyState, type ExportState, type Instant, type Run } from '../core/model.ts';
import type { Runtime } from '../core/ports.ts';
import { type ProbeResult, probeService } from '../target/probe-service.ts';
import { chooseBounds } from '../core/steps/watermark.ts';
import { latestKey, runFolder } from '../core/storage/keys.ts';
import { exists, missingManifest, readLatestPointer } from '../core/storage/published-runs.ts';
import { instantOf } from '../core/timestamps.ts';
import { coarseDuration, plural } from './output/format.ts';

export interface CheckResult {
  /**
   * `alarms`, `concurrency`, `bucket`, `settings`, `state`, `store`, `runs`, `bounded`, `schedule`, `network`, `key`, `service`, `clock` or
   * `function`.
   */
  readonly check: string;
  /** null for a check of the whole deployment, or of a service that several exports use. */
  readonly export: string | null;
  readonly state: 'ok' | 'warning' | 'problem';
  readonly message: string;
  /** What to do; null if there is nothing to do. */
  readonly remedy: string | null;
}

/** The result of one check, which knows neither its name nor its export. */
type Outcome = Omit<CheckResult, 'check' | 'export'>;

const ok = (message: string): Outcome => ({ state: 'ok', message, remedy: null });

const warning = (message: string, remedy: string): Outcome => ({ state: 'warning', message, remedy });

function problem(error: unknown, remedy: string): Outcome {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return { state: 'problem', message: `${name}: ${message}`, remedy };
}

interface HealthCheckOptions {
  /** The version of this program. */
  readonly version: string;
  /** Runs this program again, for remedies. */
  readonly program: string;
  /** Receives the address of a simulator that is started for a check. */
  readonly say: (text: string) => void;
  readonly runtime: Runtime;
}

/** So many exports are checked at the same time. */
const concurrency = 8;

/** Checks the deployment, the export `exportName` or all exports, and then the service of each, but no service twice. */
export async function* runHealthChecks(
  deployment: Deployment,
  exportName: string | undefined,
  { version, program, say, runtime }: HealthCheckOptions,
): AsyncGenerator<CheckResult> {
  const of = (name: string | null, check: string, outcome: Outcome) => ({ check, export: name, ...outcome });
  yield of(null, 'versions', versionsOutcome(version));
  // The deployment is open already, so it exists and its credentials work.
  yield of(null, 'target', ok(`${deployment.name} can be read`));
  const names = exportName === undefined ? await deployment.exportNames() : [exportName];
  if (names.length === 0) {
    yield of(null, 'exports', warning('no exports found', `make a first run: ${program} local ${deployment.option}`));
  }
  const alarms = await checkAlarmTopic(deployment);
  if (alarms !== undefined) yield of(null, 'alarms', alarms);
  const executions = await checkConcurrency(deployment);
  if (executions !== undefined) yield of(null, 'concurrency', executions);
  for (const outcome of await checkBuckets(deployment)) yield of(null, 'bucket', outcome);
  const checked = await mapConcurrently(names, concurrency, (name) => checkExport(deployment, name, program));
  for (const { name, results } of checked) {
    for (const [check, outcome] of results) yield of(name, check, outcome);
  }
  yield* checkServices(
    checked.flatMap(({ deployed }) => deployed ?? []),
    runtime,
    say,
  );
}

/** Checks exports that have not run anywhere: their settings, and the service of each, but no service twice. Stores nothing. */
export async function* runSettingsChecks(
  exports: readonly Configured[],
  file: string,
  { version, say, runtime }: Omit<HealthCheckOptions, 'program'>,
): AsyncGenerator<CheckResult> {
  yield { check: 'versions', export: null, ...versionsOutcome(version) };
  for (const configured of exports) {
    yield { check: 'settings', export: configured.name, ...settingsOutcome({ ...configured, settings: { file } }) };
  }
  yield* checkServices(exports, runtime, say);
}

/** An export as its settings describe it; without `log`, it has no state. */
type Configured = Pick<DeployedExport, 'name' | 'definition' | 'service' | 'probeFromFunction'> &
  Partial<Pick<DeployedExport, 'log' | 'store' | 'executions'>>;

/** Requests from each service once, however many exports use it. */
async function* checkServices(
  exports: readonly Configured[],
  runtime: Runtime,
  say: (text: string) => void,
): AsyncGenerator<CheckResult> {
  for (const [configured, ...others] of Map.groupBy(exports, identityOf).values()) {
    if (configured === undefined) continue;
    const name = others.length === 0 ? configured.name : null;
    for (const [check, outcome] of await checkService(configured, runtime, say)) {
      yield { check, export: name, ...outcome };
    }
  }
}

const versionsOutcome = (version: string) => ok(`report-exporter ${version} on Node.js ${process.versions.node}`);

/** Exports with the same address, settings and API key, and in a stack with the same function, use the same service. */
const identityOf = ({ service, probeFromFunction }: Configured): string => {
  const { address, settings, keySource } = service;
  return JSON.stringify([address, settings, keySource, probeFromFunction?.functionArn]);
};

/** What cannot be read of the deployment prevents no run. */
const unreadable =
  (what: string, remedy: string) =>
  (error: unknown): Outcome =>
    warning(`${what} cannot be read: ${error instanceof Error ? error.message : String(error)}`, remedy);

/** Whether a notification of an alarm would arrive. Undefined: the deployment has no alarms. */
export async function checkAlarmTopic(deployment: Deployment): Promise<Outcome | undefined> {
  return await deployment
    .alarmTopic()
    .then(
      (found) => found && alarmOutcome(found),
      unreadable('the topic', 'allow sns:GetTopicAttributes on it, or check its subscriptions'),
    );
}

function alarmOutcome({ topic, confirmed, pending, hasUnusableKey }: AlarmTopic): Outcome {
  if (hasUnusableKey) {
    return warning(
      `${topic} is encrypted with alias/aws/sns, which CloudWatch cannot use: every notification is lost`,
      'encrypt it with a customer managed key that CloudWatch may use; docs/alarms.md#alarms-that-arrive',
    );
  }
  if (confirmed > 0) return ok(`${plural(confirmed, 'confirmed subscription')} of ${topic}`);
  return pending > 0
    ? warning(
        `no one is notified: ${plural(pending, 'subscription')} of ${topic} not confirmed`,
        'open the link in the mail "AWS Notification - Subscription Confirmation"',
      )
    : warning(`no one is notified: ${topic} has no subscription`, 'set alarms.email, or subscribe to the topic');
}

const concurrencyDocs = 'docs/many-exports.md#concurrency-of-lambda';

/** Whether Lambda runs as many functions at the same time as may be needed. Undefined: exports run in this process. */
export async function checkConcurrency(deployment: Deployment): Promise<Outcome | undefined> {
  const remedy = `allow lambda:GetAccountSettings, or compare the quota of Lambda yourself; ${concurrencyDocs}`;
  return await deployment
    .concurrency()
    .then((found) => found && concurrencyOutcome(found), unreadable('the quota of concurrent executions', remedy));
}

function concurrencyOutcome({ unreserved, scheduledExports: needed }: Concurrency): Outcome {
  const needing = `${plural(needed, 'scheduled export')} need${needed === 1 ? 's' : ''} ${needed}`;
  const message = `Lambda runs ${plural(unreserved, 'function')} at the same time; ${needing}`;
  if (needed <= unreserved) return ok(message);
  return warning(
    `${message}. The others wait for up to ten hours, and then fail`,
    `request a higher quota of concurrent executions, or let them run at different times; ${concurrencyDocs}`,
  );
}

/** Whether the functions may write to the buckets. Without the permission to read that, the first run shows it, with the remedy. */
export async function checkBuckets(deployment: Deployment): Promise<readonly Outcome[]> {
  const found = (await deployment.unwritableBuckets?.().catch(() => [])) ?? [];
  return found.map(({ bucket, key }) =>
    warning(
      `the bucket ${bucket} encrypts with the key ${key} by default, which the functions may not use: every write is denied`,
      'set bucket.kmsKeyArn to the key and deploy; nothing to do if it is the AWS managed key aws/s3. docs/bucket.md#an-existing-bucket',
    ),
  );
}

type Results = readonly (readonly [check: string, outcome: Outcome])[];

interface ExportChecks {
  readonly name: string;
  /** undefined if the export cannot be opened. */
  readonly deployed: DeployedExport | undefined;
  readonly results: Results;
}

/** All checks except those of the service. */
async function checkExport(deployment: Deployment, name: string, program: string): Promise<ExportChecks> {
  let deployed: DeployedExport;
  try {
    deployed = await deployment.open(name);
  } catch (error) {
    const outcome = problem(error, 'correct the settings, then start a run or deploy again');
    return { name, deployed: undefined, results: [['settings', outcome]] };
  }
  const settings = ['settings', settingsOutcome(deployed)] as const;
  return { name, deployed, results: [settings, ...(await checkStored(deployed, program, deployment.option))] };
}

function settingsOutcome({
  definition,
  service,
  settings,
}: Pick<DeployedExport, 'definition' | 'service' | 'settings'>) {
  const { file, problem: cause } = settings ?? {};
  if (cause !== undefined) return problem(cause, 'no run starts before the file can be used');
  const { format, container, api } = definition.request;
  const origin = settings === undefined ? '' : `; ${file ?? noSettingsFile}`;
  return ok(`${api.pagination === undefined ? `${format} in ${container}` : format} from ${service.address}${origin}`);
}

/** What an export has stored, and its schedule. */
async function checkStored(deployed: DeployedExport, program: string, option: string): Promise<Results> {
  let state: ExportState | undefined;
  try {
    state = await deployed.log.exportState(deployed.name);
  } catch (error) {
    // The other checks need it.
    return [['state', problem(error, 'see docs/runbook.md#pageconflicterror')]];
  }
  const orProblem = (remedy: string) => (error: unknown) => problem(error, remedy);
  const seeRunbook = orProblem('see docs/runbook.md');
  const bounded = await checkBounded(deployed, program, option).catch(seeRunbook);
  const scheduleRemedy = 'check in the AWS console that the schedule exists, and deploy the stack again if it does not';
  return [
    ['state', ok(state === undefined ? 'no run yet' : `readable; watermark ${state.watermark?.instant ?? 'none'}`)],
    ['store', await checkStore(deployed, state?.active)],
    ['runs', await checkRuns(deployed, state, program, option).catch(seeRunbook)],
    ...(bounded === undefined ? [] : [['bounded', bounded] as const]),
    ['schedule', await deployed.readSchedule().then(scheduleOutcome, orProblem(scheduleRemedy))],
  ];
}

/** A run finds objects in both ways: by key, and by listing its folder. */
async function checkStore(deployed: DeployedExport, active: Run | undefined): Promise<Outcome> {
  const { store, name } = deployed;
  try {
    const latest = await readLatestPointer(store, name);
    if (latest !== undefined && !(await exists(store, latest.manifest))) {
      throw missingManifest(store.locate(latest.manifest));
    }
    if (active !== undefined) for await (const _ of store.list(runFolder(active))) break;
    await deployed.checkWritable?.([name, ...(active === undefined ? [] : [runFolder(active)])]);
    const access = deployed.checkWritable === undefined ? 'readable' : 'readable and writable';
    return ok(`${access}; ${store.locate(latestKey(name))} ${latest === undefined ? 'does not exist yet' : 'exists'}`);
  } catch (error) {
    return isExportError(error, 'PageConflictError')
      ? problem(error, 'see docs/runbook.md#pageconflicterror')
      : problem(error, 'check that the directory or bucket exists, and can be read and written');
  }
}

/** What the next start would do, and the newest run. */
async function checkRuns(
  deployed: DeployedExport,
  exportState: ExportState | undefined,
  program: string,
  option: string,
): Promise<Outcome> {
  const plan = await planRun({ ...deployed, runtime: systemRuntime });
  if (plan.act === 'refuse') {
    const remedy = `for details: ${program} plan ${deployed.name} ${option}`;
    return { state: 'problem', message: `the next start would fail: ${plan.reason}`, remedy };
  }
  for await (const { export: name, run, state, slices, lastIncident } of listRuns(deployed, exportState)) {
    const startCommand = `${program} start ${name} ${option}`;
    const failure = lastIncident === null || lastIncident.kind === 'wait' ? undefined : lastIncident;
    const reason = failure === undefined ? '' : `: ${failure.error}: ${failure.message}`;
    if (state === 'failed' || state === 'interrupted') {
      const ended = state === 'failed' ? 'failed' : 'was interrupted';
      return warning(`run ${run} ${ended} and is unfinished${reason}`, `to resume: ${startCommand}`);
    }
    if (state === 'abandoned' && failure?.kind === 'failed-run') {
      return warning(`run ${run} failed and was abandoned${reason}`, `to start a new run: ${startCommand}`);
    }
    if (state === 'damaged') {
      const message = `run ${run} was published, but its manifest is missing or was changed`;
      return { state: 'problem', message, remedy: `for details: ${program} verify ${name} --run ${run} ${option}` };
    }
    const [setAside] = slices?.setAside ?? [];
    if (setAside !== undefined) {
      const { slice, error, message } = setAside;
      return warning(
        `run ${run} has set aside ${plural(slices?.setAside.length ?? 0, 'slice')}; slice ${slice}: ${error}: ${message}`,
        `they are tried again; for all of them: ${program} status ${name} ${option}`,
      );
    }
    return ok(`run ${run} is ${state}`);
  }
  return ok('none yet');
}

/** Undefined: no bounded run is unfinished. */
async function checkBounded(deployed: DeployedExport, program: string, option: string): Promise<Outcome | undefined> {
  const { unfinished } = await readBoundedRuns(deployed);
  const [first] = unfinished;
  if (first === undefined) return undefined;
  const isTroubled = ({ state, slices }: (typeof unfinished)[number]) =>
    state !== 'running' || (slices?.setAside.length ?? 0) > 0;
  const troubled = unfinished.filter(isTroubled);
  const { since, until, state, slices, lastFailure } = troubled[0] ?? first;
  const cause = lastFailure ?? slices?.setAside[0];
  const reason = cause === undefined ? '' : `: ${cause.error}: ${cause.message}`;
  const message = `${plural(unfinished.length, 'unfinished run')}; ${since} to ${until} is ${state}${reason}`;
  return troubled.length === 0
    ? ok(message)
    : warning(message, `for details: ${program} status ${deployed.name} ${option}`);
}

function scheduleOutcome(schedule: ScheduleState): Outcome {
  switch (schedule.kind) {
    case 'manual':
      return ok(
        schedule.awsSchedule === undefined
          ? 'none: runs are started manually'
          : `${schedule.awsSchedule}, on AWS only: here, runs are started manually`,
      );
    case 'scheduled':
      return ok(scheduleText(schedule));
    case 'disabled':
      return warning(
        scheduleText(schedule),
        'to run on schedule, set "enabled": true in the settings file and deploy again',
      );
  }
}

/**
 * Requests one page from here and, of a stack, from its function. Results are `network` (left out for a direct connection), `key`,
 * `service` and `clock`, or the one that failed, and `function`.
 */
async function checkService(configured: Configured, runtime: Runtime, say: (text: string) => void): Promise<Results> {
  const since = await probeSince(configured, runtime);
  const fromHere = await checkFromHere(configured, since, runtime, say);
  if (configured.probeFromFunction === undefined) return fromHere;
  return [...fromHere, ['function', await checkFunction(configured.probeFromFunction, since)]];
}

const networkRemedy = 'correct what the message names; docs/network.md explains proxies and certificates';

/** Reads certificates and credentials, connects, and requests one page. */
async function checkFromHere(
  { definition, log: stateLog, service: { describeNetwork, connect, keySource, address } }: Configured,
  since: Instant,
  runtime: Runtime,
  say: (text: string) => void,
): Promise<Results> {
  // What is wrong with the state is reported by its own check.
  const log = { exportState: async (name: string) => await stateLog?.exportState(name).catch(() => undefined) };
  let failure = { check: 'network', remedy: networkRemedy };
  const network: [check: string, outcome: Outcome][] = [];
  try {
    const description = await describeNetwork();
    if (description !== '') network.push(['network', ok(description)]);
    failure = { check: 'key', remedy: `set the service's API key in the ${keySource}` };
    await using service = await connect(say);
    failure = {
      check: 'service',
      remedy: 'check that the service can be reached from here; docs/runbook.md explains each error',
    };
    const { clockLeadMs, ...result } = await probeService({ definition, service, log, runtime }, since);
    return [
      ...network,
      ['key', ok(`accepted (${keySource})`)],
      ['service', ok(`${address} returned ${describePage(result)}; it was not stored`)],
      ['clock', checkClock(clockLeadMs)],
    ];
  } catch (error) {
    if (failure.check === 'service' && isExportError(error, 'ConfigurationError')) {
      // Only an error of the connection has a cause.
      if (error.cause !== undefined) return [['network', problem(error, networkRemedy)]];
      return [
        ...network,
        ['key', problem(error, `check that the key is correct and allowed to export (${keySource})`)],
      ];
    }
    return [...network, [failure.check, problem(error, failure.remedy)]];
  }
}

/** What the function may do differs from what the operator may: its network, its role, its key. */
async function checkFunction(
  { probe }: NonNullable<DeployedExport['probeFromFunction']>,
  since: Instant,
): Promise<Outcome> {
  try {
    return ok(`ExportPage received ${describePage(await probe(since))} on AWS; it was not stored`);
  } catch (error) {
    // The errors of the function itself are no ExportErrors: these are about the invocation.
    if (!isExportError(error)) {
      return problem(
        error,
        "check that the function can reach the service (its network, the service's allow-list) and read the key; docs/runbook.md explains each error",
      );
    }
    if (error.message.startsWith('Access denied')) {
      return warning(
        `not tested from AWS: ${error.message}`,
        'to test it, request the permission lambda:InvokeFunction',
      );
    }
    return problem(error, 'correct what the message names, then run doctor again');
  }
}

function describePage({ reports, latencyMs }: Pick<ProbeResult, 'reports' | 'latencyMs'>): string {
  const content = reports === null ? '' : ` with ${plural(reports, 'report')}`;
  return `a valid page${content} after ${latencyMs} ms`;
}

/** Where the next run begins. If no run could start: now. */
async function probeSince({ definition, log, store, executions }: Configured, runtime: Runtime): Promise<Instant> {
  if (log === undefined || store === undefined || executions === undefined) {
    return chooseBounds(definition, emptyState(definition.name), {}, runtime.now()).since;
  }
  const plan = await planRun({ definition, log, store, executions, runtime }).catch(() => undefined);
  return plan?.act === 'start' || plan?.act === 'resume'
    ? plan.since
    : instantOf(Math.floor(runtime.now() / 1_000) * 1_000);
}

/** A smaller difference is normal: the service's time has whole seconds, and the response takes time. */
const maxNormalSkewMs = 30_000;

/** `skewMs` is positive if the service's clock is ahead; null if the service sends no time. */
function checkClock(skewMs: number | null): Outcome {
  if (skewMs === null) {
    return warning(
      'the service sends no Date, so the watermark uses the local clock',
      'keep the local clock synchronized, and set an overlap',
    );
  }
  const size = Math.abs(skewMs);
  if (size <= maxNormalSkewMs) return ok(`at most ${maxNormalSkewMs / 1_000} s from the service's clock`);
  const message = `the service's clock is ${coarseDuration(size)} ${skewMs > 0 ? 'ahead of' : 'behind'} the local clock`;
  const remedy =
    skewMs > 0
      ? 'the watermark uses the local clock, so each run exports the reports of that time again'
      : "the watermark uses the service's clock, so no report is missed";
  return warning(message, `${remedy}; correct the clock that is wrong`);
}
