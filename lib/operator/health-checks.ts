/**
 * The checks of `doctor`: whether an export could run now, from its settings to a response of the service. They request one
 * page of size 1 from each service, from here and from its function on AWS, and do not store it. In a
 * directory, a file is written and removed again.
 */

import { isExportError } from '../core/errors.ts';
import { emptyState, type ExportState, type Instant } from '../core/model.ts';
import type { Runtime } from '../core/ports.ts';
import { chooseBounds } from '../core/steps/watermark.ts';
import { latestKey, runFolder } from '../core/storage/keys.ts';
import { exists, missingManifest, readLatestPointer } from '../core/storage/published-runs.ts';
import { instantOf } from '../core/timestamps.ts';
import { mapConcurrently } from '../core/concurrency.ts';
import { noSettingsFile } from '../local/directory.ts';
import { type Finding, ok, type Outcome, problem, warning } from '../target/findings.ts';
import { type ProbeResult, probeService } from '../target/probe-service.ts';
import {
  type ExportTarget,
  type Target,
  type ScheduleState,
  type UnreadableExport,
  unreadableExport,
} from '../target/target.ts';
import { coarseDuration, plural } from './output/format.ts';
import { scheduleText } from './output/status-table.ts';
import { planRun } from './plan-run.ts';
import { listRuns, readBoundedRuns } from './run-status.ts';

interface HealthCheckOptions {
  /** The version of this program. */
  readonly version: string;
  /** Runs this program again, for remedies. */
  readonly program: string;
  /** Receives the address of a simulator that is started for a check. */
  readonly notify: (text: string) => void;
  readonly runtime: Runtime;
}

/** So many exports are checked at the same time. */
const concurrency = 8;

/** Checks the deployment, the export `exportName` or all exports, and then the service of each, but no service twice. */
export async function* runHealthChecks(
  deployment: Target,
  exportName: string | undefined,
  options: HealthCheckOptions,
): AsyncGenerator<Finding> {
  const { option } = deployment;
  const { program } = options;
  yield versions(options);
  // The deployment is open already, so it exists and its credentials work.
  yield { check: 'target', export: null, ...ok(`${deployment.name} can be read`) };
  const exports = exportName === undefined ? await deployment.openAll() : [await openOne(deployment, exportName)];
  if (exports.length === 0) {
    const outcome = warning('no exports found', `make a first run: ${program} local ${option}`);
    yield { check: 'exports', export: null, ...outcome };
  }
  yield* (await deployment.check?.()) ?? [];
  const checked = await mapConcurrently(exports, concurrency, async (each) =>
    'error' in each ? [unreadable(each)] : await checkExport(each, options, option),
  );
  yield* checked.flat();
  yield* checkServices(
    exports.flatMap((each) => ('error' in each ? [] : each)),
    options,
  );
}

const openOne = async (deployment: Target, name: string): Promise<ExportTarget | UnreadableExport> =>
  await deployment.open(name).catch((error: unknown) => unreadableExport(name, null, error));

const unreadable = ({ export: name, error }: UnreadableExport): Finding => ({
  check: 'settings',
  export: name,
  state: 'problem',
  message: `${error.name}: ${error.message}`,
  remedy: 'correct the settings, then start a run or deploy again',
});

/** Checks exports that have not run anywhere: their settings, and the service of each, but no service twice. Stores nothing. */
export async function* runSettingsChecks(
  exports: readonly Configured[],
  file: string,
  options: Omit<HealthCheckOptions, 'program'>,
): AsyncGenerator<Finding> {
  yield versions(options);
  for (const each of exports) {
    yield { check: 'settings', export: each.name, ...settingsOutcome({ ...each, settings: { file } }) };
  }
  yield* checkServices(exports, options);
}

const versions = ({ version }: Pick<HealthCheckOptions, 'version'>): Finding => ({
  check: 'versions',
  export: null,
  ...ok(`report-exporter ${version} on Node.js ${process.versions.node}`),
});

/** An export as its settings describe it; without `log`, it has no state. */
type Configured = Pick<ExportTarget, 'name' | 'definition' | 'service' | 'probeFromFunction'> &
  Partial<Pick<ExportTarget, 'log' | 'store' | 'executions' | 'settings'>>;

/** An export with what it has stored. */
interface Stored {
  readonly deployed: ExportTarget;
  readonly state: ExportState | undefined;
  /** The command of this program, with the option that selects the deployment. */
  readonly command: (name: string, more?: string) => string;
  readonly runtime: Runtime;
}

interface Rule {
  readonly check: string;
  /** Undefined: the rule does not apply. */
  readonly outcome: (stored: Stored) => Promise<Outcome | undefined> | Outcome;
  /** What to do if the check fails with an error. */
  readonly remedy: string;
}

const rules: readonly Rule[] = [
  {
    check: 'state',
    outcome: ({ state }) =>
      ok(state === undefined ? 'no run yet' : `readable; watermark ${state.watermark?.instant ?? 'none'}`),
    remedy: '',
  },
  {
    check: 'store',
    outcome: checkStore,
    remedy: 'check that the directory or bucket exists, and can be read and written',
  },
  { check: 'runs', outcome: checkRuns, remedy: 'see docs/runbook.md' },
  { check: 'bounded', outcome: checkBounded, remedy: 'see docs/runbook.md' },
  {
    check: 'schedule',
    outcome: async ({ deployed }) => scheduleOutcome(await deployed.readSchedule()),
    remedy: 'check in the AWS console that the schedule exists, and deploy the stack again if it does not',
  },
];

const conflictRemedy = 'see docs/runbook.md#pageconflicterror';

/** All checks except those of the service. */
async function checkExport(
  deployed: ExportTarget,
  { program, runtime }: HealthCheckOptions,
  option: string,
): Promise<readonly Finding[]> {
  const { name } = deployed;
  const findings: Finding[] = [{ check: 'settings', export: name, ...settingsOutcome(deployed) }];
  let state: ExportState | undefined;
  try {
    state = await deployed.log.exportState(name);
  } catch (error) {
    // The other checks need it.
    return [...findings, { check: 'state', export: name, ...problem(error, conflictRemedy) }];
  }
  const command = (verb: string, more = '') => `${program} ${verb} ${name} ${more}${option}`;
  for (const { check, outcome, remedy } of rules) {
    let found: Outcome | undefined;
    try {
      found = await outcome({ deployed, state, command, runtime });
    } catch (error) {
      const isConflict = check === 'store' && isExportError(error, 'PageConflictError');
      found = problem(error, isConflict ? conflictRemedy : remedy);
    }
    if (found !== undefined) findings.push({ check, export: name, ...found });
  }
  return findings;
}

function settingsOutcome({ definition, service, settings }: Pick<Configured, 'definition' | 'service' | 'settings'>) {
  const { problem: cause } = settings ?? {};
  if (cause !== undefined) return problem(cause, 'no run starts before the file can be used');
  const { format, container, api } = definition.request;
  const origin = settings === undefined ? '' : `; ${settings.file ?? noSettingsFile}`;
  return ok(`${api.pagination === undefined ? `${format} in ${container}` : format} from ${service.address}${origin}`);
}

/** A run finds objects in both ways: by key, and by listing its folder. */
async function checkStore({ deployed, state }: Stored): Promise<Outcome> {
  const { store, name } = deployed;
  const latest = await readLatestPointer(store, name);
  if (latest !== undefined && !(await exists(store, latest.manifest))) {
    throw missingManifest(store.locate(latest.manifest));
  }
  const folders = state?.active === undefined ? [] : [runFolder(state.active)];
  for (const folder of folders) for await (const _ of store.list(folder)) break;
  await deployed.checkWritable?.([name, ...folders]);
  const access = deployed.checkWritable === undefined ? 'readable' : 'readable and writable';
  return ok(`${access}; ${store.locate(latestKey(name))} ${latest === undefined ? 'does not exist yet' : 'exists'}`);
}

/** What the next start would do, and the newest run. */
async function checkRuns({ deployed, state: exportState, command, runtime }: Stored): Promise<Outcome> {
  const plan = await planRun({ ...deployed, runtime });
  if (plan.act === 'refuse') {
    const message = `the next start would fail: ${plan.reason}`;
    return { state: 'problem', message, remedy: `for details: ${command('plan')}` };
  }
  for await (const { run, state, slices, lastIncident } of listRuns(deployed, exportState)) {
    const failure = lastIncident === null || lastIncident.kind === 'wait' ? undefined : lastIncident;
    const reason = failure === undefined ? '' : `: ${failure.error}: ${failure.message}`;
    if (state === 'failed' || state === 'interrupted') {
      const ended = state === 'failed' ? 'failed' : 'was interrupted';
      return warning(`run ${run} ${ended} and is unfinished${reason}`, `to resume: ${command('start')}`);
    }
    if (state === 'abandoned' && failure?.kind === 'failed-run') {
      return warning(`run ${run} failed and was abandoned${reason}`, `to start a new run: ${command('start')}`);
    }
    if (state === 'damaged') {
      const message = `run ${run} was published, but its manifest is missing or was changed`;
      return { state: 'problem', message, remedy: `for details: ${command('verify', `--run ${run} `)}` };
    }
    const [setAside] = slices?.setAside ?? [];
    if (setAside !== undefined) {
      const { slice, error, message } = setAside;
      return warning(
        `run ${run} has set aside ${plural(slices?.setAside.length ?? 0, 'slice')}; slice ${slice}: ${error}: ${message}`,
        `they are tried again; for all of them: ${command('status')}`,
      );
    }
    return ok(`run ${run} is ${state}`);
  }
  return ok('none yet');
}

/** Undefined: no bounded run is unfinished. */
async function checkBounded({ deployed, command }: Stored): Promise<Outcome | undefined> {
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
  return troubled.length === 0 ? ok(message) : warning(message, `for details: ${command('status')}`);
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

/** Requests one page of each service from here and, of a stack, from its function: once, however many exports use it. */
async function* checkServices(
  exports: readonly Configured[],
  { runtime, notify }: Pick<HealthCheckOptions, 'runtime' | 'notify'>,
): AsyncGenerator<Finding> {
  for (const [configured, ...others] of Map.groupBy(exports, identityOf).values()) {
    if (configured === undefined) continue;
    const name = others.length === 0 ? configured.name : null;
    const since = await probeSince(configured, runtime);
    const results = await checkFromHere(configured, since, runtime, notify);
    for (const [check, outcome] of results) yield { check, export: name, ...outcome };
    if (configured.probeFromFunction === undefined) continue;
    yield { check: 'function', export: name, ...(await checkFunction(configured.probeFromFunction, since)) };
  }
}

/** Exports with the same address, settings and API key, and in a stack with the same function, use the same service. */
const identityOf = ({ service, probeFromFunction }: Configured): string => {
  const { address, settings, keySource } = service;
  return JSON.stringify([address, settings, keySource, probeFromFunction?.functionArn]);
};

const networkRemedy = 'correct what the message names; docs/network.md explains proxies and certificates';

/**
 * Reads certificates and credentials, connects, and requests one page. The results are `network` (left out for a direct connection), `key`,
 * `service` and `clock`, or the one that failed.
 */
async function checkFromHere(
  { definition, log: stateLog, service: { describeNetwork, connect, keySource, address } }: Configured,
  since: Instant,
  runtime: Runtime,
  notify: (text: string) => void,
): Promise<readonly (readonly [check: string, outcome: Outcome])[]> {
  // What is wrong with the state is reported by its own check.
  const log = { exportState: async (name: string) => await stateLog?.exportState(name).catch(() => undefined) };
  let failure = { check: 'network', remedy: networkRemedy };
  const network: [check: string, outcome: Outcome][] = [];
  try {
    const description = await describeNetwork();
    if (description !== '') network.push(['network', ok(description)]);
    failure = { check: 'key', remedy: `set the service's API key in the ${keySource}` };
    await using service = await connect(notify);
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
  { probe }: NonNullable<ExportTarget['probeFromFunction']>,
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
