/**
 * What a doctor looks at: whether an export could run now, from its settings to an answer of the service. One page of
 * size 1 is asked for; nothing is stored or changed.
 */

import { isExportError } from '../core/errors.ts';
import type { DeployedExport, Deployment } from '../core/operations/deployment.ts';
import { planRun } from '../core/operations/plan-run.ts';
import { readExportStatus } from '../core/operations/run-status.ts';
import type { Runtime } from '../core/ports.ts';
import { latestKey, runFolder } from '../core/storage/keys.ts';
import { epochMsOf, instantOf } from '../core/timestamps.ts';
import { span } from './output/format.ts';

export interface Diagnosis {
  /** What was looked at: `settings`, `state`, `store`, `key`, `service`, `clock`, `schedule`, `runs`. */
  readonly check: string;
  readonly export: string | null;
  readonly state: 'ok' | 'warning' | 'problem';
  readonly message: string;
  /** What to do; null where all is well. */
  readonly remedy: string | null;
}

type Told = Omit<Diagnosis, 'check' | 'export'>;

/** Between two clocks that are kept. Instants have whole seconds, and an answer takes its time. */
const noticeableSkewMs = 30_000;
/** Further ahead than this the service's clock is not believed (see `watermark.ts`). */
const absurdLeadMs = 86_400_000;

/** Looks at one export after another, at each as far as what came before allows. */
export async function* runHealthChecks(
  installation: Deployment,
  names: readonly string[],
  runtime: Runtime,
  say: (text: string) => void,
): AsyncGenerator<Diagnosis> {
  for (const name of names) {
    const told = (check: string, what: Told): Diagnosis => ({ check, export: name, ...what });
    let installed: DeployedExport;
    try {
      installed = await installation.open(name);
      yield told(
        'settings',
        ok(
          `for ${installed.service.address}, ${installed.definition.request.format} in ${installed.definition.request.container}`,
        ),
      );
    } catch (error) {
      yield told('settings', problem(error, 'mend the settings, and make a run or deploy again'));
      continue;
    }
    const checks: readonly (readonly [string, () => Promise<Told[]>])[] = [
      ['state', () => state(installed)],
      ['store', () => store(installed)],
      ['runs', () => runs(installed, installation)],
      ['schedule', () => schedule(installed)],
    ];
    for (const [check, look] of checks) {
      const found = await look();
      for (const each of found) yield told(check, each);
      // Nothing behind it can be told of where not even the head can be read.
      if (check === 'state' && found.some(({ state: is }) => is === 'problem')) break;
    }
    for (const [check, each] of await service(installed, runtime, say)) yield told(check, each);
  }
}

const ok = (message: string): Told => ({ state: 'ok', message, remedy: null });

/** An export's own errors say what to do next themselves. */
function problem(error: unknown, remedy: string): Told {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return { state: 'problem', message: `${name}: ${message}`, remedy };
}

async function state({ log, name }: DeployedExport): Promise<Told[]> {
  try {
    const head = await log.exportState(name);
    return [ok(head === undefined ? 'no run yet' : `can be read; watermark ${head.watermark?.instant ?? 'none'}`)];
  } catch (error) {
    return [problem(error, 'see docs/runbook.md#pageconflicterror')];
  }
}

async function store({ store: reader, log, name }: DeployedExport): Promise<Told[]> {
  try {
    const active = (await log.exportState(name))?.active;
    // Both ways in which a run looks: by name, and by listing.
    const latest = await reader.read(latestKey(name));
    if (latest !== undefined) for await (const _ of latest) break;
    if (active !== undefined) for await (const _ of reader.list(runFolder(active))) break;
    return [
      ok(`can be read: ${reader.locate(latestKey(name))} is ${latest === undefined ? 'not there yet' : 'there'}`),
    ];
  } catch (error) {
    return [problem(error, 'see that the directory or bucket is there and may be read')];
  }
}

async function runs(installed: DeployedExport, { option }: Deployment): Promise<Told[]> {
  try {
    const [newest] = (await readExportStatus(installed, 1)).runs;
    if (newest === undefined) return [ok('none yet')];
    const { run, state: stateOfRun, lastIncident } = newest;
    const failedForGood = stateOfRun === 'abandoned' && lastIncident?.kind === 'failed-run';
    if (stateOfRun !== 'failed' && stateOfRun !== 'stopped' && !failedForGood) {
      return [ok(`run ${run} is ${stateOfRun}`)];
    }
    const why =
      lastIncident === null || lastIncident.kind === 'wait' ? '' : `: ${lastIncident.error}: ${lastIncident.message}`;
    const remedy = `npx report-exporter start ${installed.name} ${option}`;
    return [
      {
        state: 'warning',
        message: failedForGood
          ? `run ${run} failed for good${why}`
          : `run ${run} is unfinished, it ${stateOfRun}${why}`,
        remedy,
      },
    ];
  } catch (error) {
    return [problem(error, 'see docs/runbook.md')];
  }
}

async function schedule(installed: DeployedExport): Promise<Told[]> {
  try {
    const next = await installed.nextStart();
    if (next.kind === 'by-hand') return [ok('none: started by hand')];
    if (next.kind === 'scheduled') return [ok(`${next.expression}; next ${next.about ? 'about ' : ''}${next.at}`)];
    return [
      {
        state: 'warning',
        message: `off: ${next.expression}`,
        remedy: 'set "enabled": true in cdk.json and deploy, if it should run by itself',
      },
    ];
  } catch (error) {
    return [problem(error, 'see that the schedule is there: npx cdk diff')];
  }
}

async function service(
  installed: DeployedExport,
  runtime: Runtime,
  say: (text: string) => void,
): Promise<(readonly [string, Told])[]> {
  const {
    service: { connect, keySource, address },
  } = installed;
  let client: Awaited<ReturnType<typeof connect>>;
  try {
    client = await connect(say);
  } catch (error) {
    return [['key', problem(error, `put the service's API key there: ${keySource}`)]];
  }
  await using open = client;
  try {
    const request = await probeOf(installed, runtime);
    const requestedAt = runtime.now();
    const page = await open.fetchPage(request);
    const latency = Math.round(runtime.now() - requestedAt);
    for await (const _ of page.body);
    const reports = page.reports();
    const held = reports === null ? '' : `, ${reports} report${reports === 1 ? '' : 's'}`;
    return [
      ['key', ok(`found (${keySource}) and accepted`)],
      ['service', ok(`${address} answered in ${latency} ms with a good page of size 1${held}; nothing was stored`)],
      ['clock', clock(page.serviceTime === null ? null : epochMsOf(page.serviceTime) - requestedAt)],
    ];
  } catch (error) {
    const refused = isExportError(error, 'ConfigurationError');
    const remedy = refused
      ? `see whether the key is right and allowed to export (${keySource})`
      : 'see that the service is up and can be reached from here; docs/runbook.md has a section on each error';
    return [[refused ? 'key' : 'service', problem(error, remedy)]];
  }
}

/** The next run's own request, for one report. Where no run could start, everything since now. */
async function probeOf(installed: DeployedExport, runtime: Runtime) {
  const { definition } = installed;
  const plan = await planRun({ ...installed, runtime }).catch(() => undefined);
  const since = plan?.act === 'start' || plan?.act === 'resume' ? plan.since : nowOf(runtime);
  return { request: { ...definition.request, size: 1 }, since, cursor: null, label: 'a page of size 1 for a check' };
}

const nowOf = ({ now }: Runtime) => instantOf(Math.floor(now() / 1_000) * 1_000);

function clock(skewMs: number | null): Told {
  if (skewMs === null) {
    return {
      state: 'warning',
      message: 'the service sends no Date: the watermark goes by our clock',
      remedy: 'keep our clock right, and set an overlap',
    };
  }
  const size = Math.abs(skewMs);
  if (size <= noticeableSkewMs) return ok('within half a minute of the service');
  const message = `the service's clock is ${span(size)} ${skewMs > 0 ? 'ahead of' : 'behind'} ours`;
  return skewMs > absurdLeadMs
    ? {
        state: 'problem',
        message,
        remedy: "it is not believed: the watermark goes by our clock. Tell the service's operators, or set ours",
      }
    : {
        state: 'warning',
        message,
        remedy: 'the watermark goes by the service, so nothing is lost; set the clock that is wrong',
      };
}
