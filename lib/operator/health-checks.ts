/**
 * The checks of `doctor`: whether an export could run now, from its settings to a response of the service. They request one
 * page of size 1 from each service, and store or change nothing.
 */

import { isExportError } from '../core/errors.ts';
import type { DeployedExport, DeployedService, Deployment } from '../core/operations/deployment.ts';
import { planRun } from '../core/operations/plan-run.ts';
import { listRuns, type RunStatus } from '../core/operations/run-status.ts';
import type { Runtime } from '../core/ports.ts';
import { maxClockLeadMs } from '../core/steps/watermark.ts';
import { latestKey, runFolder } from '../core/storage/keys.ts';
import { epochMsOf, instantOf } from '../core/timestamps.ts';
import { coarseDuration, plural } from './output/format.ts';

export interface CheckResult {
  /** `alarms`, `settings`, `state`, `store`, `runs`, `schedule`, `key`, `service` or `clock`. */
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

/** So many exports are checked at the same time. */
const batchSize = 8;

/**
 * Checks the exports `names`, and then the service of each, but no service twice. Yields the results in the order of the names.
 * `say` receives the address of a simulator that is started for a check.
 */
export async function* runHealthChecks(
  deployment: Deployment,
  names: readonly string[],
  runtime: Runtime,
  say: (text: string) => void,
): AsyncGenerator<CheckResult> {
  const usersOfService = new Map<string, DeployedExport[]>();
  for (let start = 0; start < names.length; start += batchSize) {
    const batch = names.slice(start, start + batchSize);
    for (const { deployed, results } of await Promise.all(batch.map((name) => checkExport(deployment, name)))) {
      yield* results;
      if (deployed === undefined) continue;
      const service = identityOf(deployed.service);
      usersOfService.set(service, [...(usersOfService.get(service) ?? []), deployed]);
    }
  }
  for (const users of usersOfService.values()) {
    const [deployed, ...others] = users;
    if (deployed === undefined) continue;
    const name = others.length === 0 ? deployed.name : null;
    for (const [check, outcome] of await checkService(deployed, runtime, say)) {
      yield { check, export: name, ...outcome };
    }
  }
}

/** Whether a notification of an alarm would arrive. Undefined: the deployment has no alarms. */
export async function checkAlarmTopic(deployment: Deployment): Promise<CheckResult | undefined> {
  const outcome = await alarmOutcome(deployment);
  return outcome && { check: 'alarms', export: null, ...outcome };
}

async function alarmOutcome(deployment: Deployment): Promise<Outcome | undefined> {
  try {
    const found = await deployment.alarmTopic();
    if (found === undefined) return undefined;
    const { topic, confirmed, pending, hasUnusableKey } = found;
    if (hasUnusableKey) {
      return warning(
        `${topic} is encrypted with alias/aws/sns, which CloudWatch cannot use: every notification is lost`,
        'encrypt it with a customer managed key that CloudWatch may use; docs/deployment.md#alarms-that-arrive',
      );
    }
    if (confirmed > 0) return ok(`${plural(confirmed, 'confirmed subscription')} of ${topic}`);
    return pending > 0
      ? warning(
          `nobody is notified: ${plural(pending, 'subscription')} of ${topic} not confirmed`,
          'open the link in the mail "AWS Notification - Subscription Confirmation"',
        )
      : warning(`nobody is notified: ${topic} has no subscription`, 'set alarms.email, or subscribe to the topic');
  } catch (error) {
    const { message } = error instanceof Error ? error : new Error(String(error));
    return warning(
      `the topic cannot be read: ${message}`,
      'allow sns:GetTopicAttributes on it, or check its subscriptions',
    );
  }
}

/** Exports with the same address, headers and API key use the same service. */
const identityOf = ({ address, vendor, cursorIn, keySource }: DeployedService): string =>
  JSON.stringify([address, vendor, cursorIn, keySource]);

interface ExportChecks {
  /** undefined if the export cannot be opened. */
  readonly deployed: DeployedExport | undefined;
  readonly results: readonly CheckResult[];
}

/** All checks except those of the service. */
async function checkExport(deployment: Deployment, name: string): Promise<ExportChecks> {
  const results: CheckResult[] = [];
  const add = (check: string, outcome: Outcome) => results.push({ check, export: name, ...outcome });
  let deployed: DeployedExport;
  try {
    deployed = await deployment.open(name);
  } catch (error) {
    add('settings', problem(error, 'correct the settings, then start a run or deploy again'));
    return { deployed: undefined, results };
  }
  const { definition, service } = deployed;
  const { format, container } = definition.request;
  add('settings', ok(`${format} in ${container} from ${service.address}`));
  const state = await checkState(deployed);
  add('state', state);
  // The other checks read the export state too.
  if (state.state !== 'problem') {
    add('store', await checkStore(deployed));
    add('runs', await checkRuns(deployed, deployment.option));
    add('schedule', await checkSchedule(deployed));
  }
  return { deployed, results };
}

const ok = (message: string): Outcome => ({ state: 'ok', message, remedy: null });

const warning = (message: string, remedy: string): Outcome => ({ state: 'warning', message, remedy });

function problem(error: unknown, remedy: string): Outcome {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return { state: 'problem', message: `${name}: ${message}`, remedy };
}

async function checkState({ log, name }: DeployedExport): Promise<Outcome> {
  try {
    const state = await log.exportState(name);
    return ok(state === undefined ? 'no run yet' : `readable; watermark ${state.watermark?.instant ?? 'none'}`);
  } catch (error) {
    return problem(error, 'see docs/runbook.md#pageconflicterror');
  }
}

/** A run finds objects in both ways: by key, and by listing its folder. */
async function checkStore({ store, log, name }: DeployedExport): Promise<Outcome> {
  try {
    const active = (await log.exportState(name))?.active;
    const latest = await store.read(latestKey(name));
    if (latest !== undefined) for await (const _ of latest) break;
    if (active !== undefined) for await (const _ of store.list(runFolder(active))) break;
    return ok(`readable; ${store.locate(latestKey(name))} ${latest === undefined ? 'does not exist yet' : 'exists'}`);
  } catch (error) {
    return problem(error, 'check that the directory or bucket exists and can be read');
  }
}

async function checkRuns(deployed: DeployedExport, option: string): Promise<Outcome> {
  try {
    const newest = await newestRun(deployed);
    if (newest === undefined) return ok('none yet');
    const { run, state, lastIncident } = newest;
    const startCommand = `npx report-exporter start ${deployed.name} ${option}`;
    const failure = lastIncident === null || lastIncident.kind === 'wait' ? undefined : lastIncident;
    const reason = failure === undefined ? '' : `: ${failure.error}: ${failure.message}`;
    if (state === 'failed' || state === 'stopped') {
      return warning(`run ${run} ${state} and is unfinished${reason}`, `to resume: ${startCommand}`);
    }
    if (state === 'abandoned' && failure?.kind === 'failed-run') {
      return warning(`run ${run} failed and was abandoned${reason}`, `to start a new run: ${startCommand}`);
    }
    return ok(`run ${run} is ${state}`);
  } catch (error) {
    return problem(error, 'see docs/runbook.md');
  }
}

async function newestRun(deployed: DeployedExport): Promise<RunStatus | undefined> {
  for await (const newest of listRuns(deployed, await deployed.log.exportState(deployed.name))) return newest;
  return undefined;
}

async function checkSchedule(deployed: DeployedExport): Promise<Outcome> {
  try {
    const next = await deployed.nextStart();
    switch (next.kind) {
      case 'manual':
        return ok('none: runs are started manually');
      case 'scheduled':
        return ok(`${next.expression}; next ${next.approximate ? 'about ' : ''}${next.at}`);
      case 'disabled':
        return warning(
          `disabled: ${next.expression}`,
          'to run on schedule, set "enabled": true in the settings file and deploy again',
        );
    }
  } catch (error) {
    return problem(error, 'check that the schedule exists: npx cdk diff');
  }
}

/** Requests one page. Results are `key`, `service` and `clock`, or the one that failed. */
async function checkService(
  deployed: DeployedExport,
  runtime: Runtime,
  say: (text: string) => void,
): Promise<readonly (readonly [check: string, outcome: Outcome])[]> {
  const { connect, keySource, address } = deployed.service;
  let client: Awaited<ReturnType<typeof connect>>;
  try {
    client = await connect(say);
  } catch (error) {
    return [['key', problem(error, `set the service's API key in the ${keySource}`)]];
  }
  await using service = client;
  try {
    const request = await probeRequest(deployed, runtime);
    const requestedAt = runtime.now();
    const page = await service.fetchPage(request);
    const latencyMs = Math.round(runtime.now() - requestedAt);
    for await (const _ of page.body);
    const reports = page.reports();
    const content = reports === null ? '' : ` with ${plural(reports, 'report')}`;
    return [
      ['key', ok(`accepted (${keySource})`)],
      ['service', ok(`${address} returned a valid page of size 1${content} after ${latencyMs} ms; it was not stored`)],
      ['clock', checkClock(page.serviceTime === null ? null : epochMsOf(page.serviceTime) - requestedAt)],
    ];
  } catch (error) {
    return isExportError(error, 'ConfigurationError')
      ? [['key', problem(error, `check that the key is correct and allowed to export (${keySource})`)]]
      : [
          [
            'service',
            problem(error, 'check that the service can be reached from here; docs/runbook.md explains each error'),
          ],
        ];
  }
}

/** The request of the next run, for one report. If no run could start, for the reports since now. */
async function probeRequest(deployed: DeployedExport, runtime: Runtime) {
  const plan = await planRun({ ...deployed, runtime }).catch(() => undefined);
  const now = instantOf(Math.floor(runtime.now() / 1_000) * 1_000);
  const since = plan?.act === 'start' || plan?.act === 'resume' ? plan.since : now;
  const request = { ...deployed.definition.request, size: 1 };
  return { request, since, cursor: null, label: 'a health check page of size 1' };
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
  if (skewMs > maxClockLeadMs) {
    const remedy = 'the watermark uses the local clock instead; correct the clock that is wrong';
    return { state: 'problem', message, remedy };
  }
  return warning(
    message,
    "the watermark uses the service's clock, so no report is missed; correct the clock that is wrong",
  );
}
