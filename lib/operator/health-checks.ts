/**
 * The checks of `doctor`: whether an export could run now, from its settings to a response of the service. They request
 * one page from each service, as a run does, from here and from its function on AWS, and do not store it. In a
 * directory, a file is written and removed again.
 */

import { isExportError } from '../core/errors.ts';
import { emptyState, type Run } from '../core/model.ts';
import { shownCredentials } from '../service/api/auth/kinds.ts';
import type { Parent } from '../core/parents/plan.ts';
import { firstParent } from '../core/parents/read-parents.ts';
import type { Runtime } from '../core/ports.ts';
import { chooseBounds } from '../core/start/watermark.ts';
import { latestKey, runFolder } from '../core/storage/keys.ts';
import { exists, missingManifest, readLatestPointer } from '../core/storage/published-runs.ts';
import { epochMsOf, instantOf } from '../core/timestamps.ts';
import { mapConcurrently } from '../core/concurrency.ts';
import { isAccessDenied } from '../aws/errors.ts';
import { type Finding, ok, type Outcome, problem, warning } from '../aws/stack/findings.ts';
import { type ProbedPeriod, type ProbeResult, probeService } from '../service/client/probe-service.ts';
import { openConfigured } from './context.ts';
import { type ExportTarget, type Target, type UnreadableExport, unreadableExport } from './target.ts';
import { plural } from './output/format.ts';
import { planRun } from './plan-run.ts';

interface HealthCheckOptions {
  readonly version: string;
  /** Runs this program again, for remedies. */
  readonly program: string;
  /** Receives the address of a simulator that is started for a check. */
  readonly notify: (text: string) => void;
  readonly runtime: Runtime;
}

const concurrency = 8;

/** Checks the target, the export `exportName` or all exports, and then the service of each, but no service twice. */
export async function* runHealthChecks(
  target: Target,
  exportName: string | undefined,
  options: HealthCheckOptions,
): AsyncGenerator<Finding> {
  const versions = ok(`report-exporter ${options.version} on Node.js ${process.versions.node}`);
  yield { check: 'versions', export: null, ...versions };
  // The target is open already, so it exists and its credentials work.
  yield { check: 'target', export: null, ...ok(`${target.name} can be read`) };
  const exports =
    exportName === undefined
      ? await openConfigured(target)
      : [await target.open(exportName).catch((error: unknown) => unreadableExport(exportName, null, error))];
  if (exports.length === 0) {
    const outcome = warning('no exports found', `make a first run: ${options.program} local ${target.option}`);
    yield { check: 'exports', export: null, ...outcome };
  }
  yield* (await target.check?.()) ?? [];
  const checked = await mapConcurrently(exports, concurrency, (each) => checkExport(each, options, target));
  yield* checked.flat();
  // The same address, settings and API key, and in a stack the same function, are the same service.
  const usable = exports.flatMap((each) => ('error' in each || each.settings?.problem !== undefined ? [] : each));
  const services = Map.groupBy(usable, ({ service: { address, settings, keySource }, probeFromFunction }) =>
    JSON.stringify([address, settings, keySource, probeFromFunction?.functionArn]),
  );
  for (const all of services.values()) {
    // A page without a job can be requested.
    const [first, ...others] = all.toSorted((one, other) => Number(hasJob(one)) - Number(hasJob(other)));
    if (first === undefined) continue;
    for await (const [check, outcome] of checkService(first, options)) {
      yield { check, export: others.length === 0 ? first.name : null, ...outcome };
    }
  }
}

const hasJob = ({ definition }: ExportTarget): boolean => definition.job !== undefined;

/** Undefined: the check does not apply. */
type Found = Outcome | undefined;

/** The command of this program, with the option that selects the target. */
type CommandText = (verb: string, more?: string) => string;

async function checkExport(
  target: ExportTarget | UnreadableExport,
  { program, runtime }: HealthCheckOptions,
  { option, isNew }: Target,
): Promise<readonly Finding[]> {
  if ('error' in target) {
    const remedy = 'correct the settings, then start a run or deploy again';
    return [{ check: 'settings', export: target.export, ...problem(target.error, remedy) }];
  }
  const { name } = target;
  const command: CommandText = (verb, more = '') => `${program} ${verb} ${name} ${more}${option}`;
  const findingOf = async (check: string, find: () => Found | Promise<Found>) => {
    try {
      const outcome = await find();
      return outcome === undefined ? [] : [{ check, export: name, ...outcome }];
    } catch (error) {
      const isConflict = isExportError(error, 'PageConflictError');
      const usual = check === 'store' ? 'check that the directory or bucket exists, and can be read and written; ' : '';
      const page = isConflict ? 'see docs/runbook.md#pageconflicterror' : `${usual}see docs/runbook.md`;
      const remedy = `${page} of the package`;
      return [{ check, export: name, ...problem(error, remedy) }];
    }
  };
  const settings = await findingOf('settings', () => settingsOutcome(target));
  if (isNew) return settings;
  let active: Run | undefined;
  const read = await findingOf('state', async () => {
    const state = await target.log.exportState(name);
    active = state?.active;
    return ok(state === undefined ? 'no run yet' : `readable; watermark ${state.watermark?.instant ?? 'none'}`);
  });
  // The other checks need it.
  if (read.some(({ state }) => state === 'problem')) return [...settings, ...read];
  const others = await Promise.all([
    findingOf('store', () => checkStore(target, active)),
    findingOf('start', () => checkStart(target, command, runtime)),
  ]);
  return [...settings, ...read, ...others.flat()];
}

function settingsOutcome({ definition, service, settings }: ExportTarget): Outcome {
  const { problem: cause } = settings ?? {};
  if (cause !== undefined) return problem(cause, 'no run starts before the file can be used');
  const { format, container, api } = definition.request;
  const origin = settings === undefined ? '' : `; ${settings.file}`;
  return ok(`${api.pagination === undefined ? `${format} in ${container}` : format} from ${service.address}${origin}`);
}

/** A run finds objects in both ways: by key, and by listing its folder. */
async function checkStore(target: ExportTarget, unfinished: Run | undefined): Promise<Outcome> {
  const { store, name } = target;
  const latest = await readLatestPointer(store, name);
  if (latest !== undefined && !(await exists(store, latest.manifest))) {
    throw missingManifest(store.locate(latest.manifest));
  }
  const folders = unfinished === undefined ? [] : [runFolder(unfinished)];
  for (const folder of folders) for await (const _ of store.list(folder)) break;
  await target.checkWritable?.([name, ...folders]);
  const access = target.checkWritable === undefined ? 'readable' : 'readable and writable';
  return ok(`${access}; ${store.locate(latestKey(name))} ${latest === undefined ? 'does not exist yet' : 'exists'}`);
}

/** What the next start would do. The status shows how runs went. */
async function checkStart(target: ExportTarget, command: CommandText, runtime: Runtime): Promise<Found> {
  // With settings that cannot be used, which have a finding of their own, no run starts.
  if (target.settings?.problem !== undefined) return undefined;
  const plan = await planRun({ ...target, runtime });
  if (plan.act === 'start') return ok('would begin a new run');
  if (plan.act === 'resume') return ok(`would resume run ${plan.run}`);
  // A run is in progress.
  if (plan.act === 'skip') return ok(`would be skipped: ${plan.reason}`);
  return { state: 'problem', message: `would fail: ${plan.reason}`, remedy: `for details: ${command('plan')}` };
}

/** The source of the secret; of several parts of it, which header or parameter has which. */
function credentialsText({ settings, keySource }: ExportTarget['service']): string {
  const { headers, query } = shownCredentials(settings.auth, keySource);
  const sent = [...Object.entries(headers), ...Object.entries(query)];
  return sent.length < 2 ? keySource : sent.map(([name, value]) => `${name}: ${value}`).join(', ');
}

/**
 * Reads certificates and credentials, connects, and requests one page: `network` (left out for a direct connection),
 * `key` and `service`, up to the one that fails. Of a stack, also `function`: its network, its role and its key differ
 * from those of the operator.
 */
async function* checkService(
  target: ExportTarget,
  { runtime, notify }: HealthCheckOptions,
): AsyncGenerator<readonly [check: string, outcome: Outcome]> {
  const { definition, log: stateLog, service, probeFromFunction } = target;
  const { keySource } = service;
  const period = await probedPeriod(target, runtime);
  // A problem of the state is reported by its own check.
  const log = { exportState: async (name: string) => await stateLog.exportState(name).catch(() => undefined) };
  const remedies = {
    network: 'correct what the message names; docs/aws.md#network explains proxies and certificates',
    key: `correct what the message names, or the key, which must be set, correct and allowed to export (${keySource})`,
    service: 'check that the service can be reached from here; docs/runbook.md of the package explains each error',
  };
  // First: it may exchange the refresh token, and then its access token is used from here.
  const isProbed = probeFromFunction !== undefined && definition.job === undefined;
  if (isProbed) yield ['function', await checkFunction(probeFromFunction.probe(period))];
  let check: keyof typeof remedies = 'network';
  try {
    const description = await service.describeNetwork();
    if (description !== '') yield [check, ok(description)];
    check = 'key';
    await using client = await service.connect(notify);
    check = 'service';
    const parent = await firstParentOf(target);
    if (typeof parent === 'string') return yield [check, notTested(parent)];
    if (definition.job !== undefined) return yield [check, jobOutcome(definition.job)];
    const result = await probeService({ definition, parent, service: client, log, runtime, notify }, period);
    yield ['key', ok(`accepted (${credentialsText(service)})`)];
    yield ['service', pageOutcome(`${service.address} returned`, result, '')];
  } catch (error) {
    // Only an error of the connection has a cause; without one, the service has rejected the key.
    if (check === 'service' && isExportError(error, 'ConfigurationError')) {
      check = error.cause === undefined ? 'key' : 'network';
    }
    yield [check, problem(error, remedies[check])];
  }
}

/** The parent to request; or why there is none. */
async function firstParentOf({
  definition,
  store,
  loadReportReader,
}: ExportTarget): Promise<Parent | string | undefined> {
  try {
    return await firstParent({ store, reportReader: await loadReportReader?.() }, definition);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const notTested = (reason: string): Outcome =>
  warning(`no page was requested: ${reason}`, 'complete a run of the export of the parents, then run doctor again');

/** State transitions of a poll on AWS: the function, the choice of the next action, and the wait. */
const transitionsPerPoll = 3;
const dollarsPerTransition = 25 / 1_000_000;

/** A page would need a job, which may cost something, and may be one of few that the vendor allows. */
function jobOutcome({ poll }: NonNullable<ExportTarget['definition']['job']>): Outcome {
  const polls = poll === undefined ? 0 : 3_600_000 / poll.everyMs;
  const dollars = (polls * transitionsPerPoll * dollarsPerTransition).toFixed(3);
  const waiting =
    polls === 0
      ? ''
      : `; an hour of waiting has ${plural(Math.ceil(polls), 'poll')}, which cost $${dollars} of state transitions on AWS`;
  return warning(
    `nothing was requested: each chain of a run begins with a report job${waiting}`,
    'to create one and see its result: plan --request --create-job',
  );
}

async function checkFunction(probing: Promise<ProbeResult>): Promise<Outcome> {
  try {
    return pageOutcome('ExportPage received', await probing, ' on AWS');
  } catch (error) {
    // The errors of the function itself are no ExportErrors: these are about the invocation.
    const remedy = isExportError(error)
      ? 'correct what the message names, then run doctor again'
      : "check that the function can reach the service (its network, the service's allow-list) and read the key; docs/runbook.md of the package explains each error";
    if (!isExportError(error) || !isAccessDenied(error)) return problem(error, remedy);
    return warning(`not tested from AWS: ${error.message}`, 'to test it, request the permission lambda:InvokeFunction');
  }
}

function pageOutcome(received: string, page: ProbeResult, place: string): Outcome {
  if ('goneStatus' in page) {
    return warning(
      `${received} status ${page.goneStatus}${place}: the first parent no longer exists (when.gone), and no other was requested`,
      'if it does exist, correct the request of the export, or when.gone',
    );
  }
  const { reports, latencyMs, doubtfulEnd } = page;
  const content = reports === null ? '' : ` with ${plural(reports, 'report')}`;
  const text = `${received} a valid page${content} after ${latencyMs} ms${place}; it was not stored`;
  return doubtfulEnd === undefined ? ok(text) : warning(`${text}; ${doubtfulEnd}`, 'for details: plan --request');
}

/** Where a new run would begin and end. If none could start: from now on. */
async function probedPeriod({ definition, log }: ExportTarget, runtime: Runtime): Promise<ProbedPeriod> {
  try {
    const state = (await log.exportState(definition.name)) ?? emptyState(definition.name);
    const { since, until } = chooseBounds(definition, state, {}, runtime.now());
    return until === undefined || epochMsOf(until) <= epochMsOf(since) ? { since } : { since, until };
  } catch {
    return { since: instantOf(Math.floor(runtime.now() / 1_000) * 1_000) };
  }
}
