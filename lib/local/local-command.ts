/**
 * `report-exporter local`: one run on this machine, told to a person or to a program.
 * Exit status: 0 completed or skipped, 1 the run failed, 2 wrong usage or settings, 130 interrupted.
 */

import type { EventSink, ExportEvent, ReportService } from '../core/ports.ts';
import { exportDefinition, sourceOf } from '../core/settings.ts';
import { fixedApiKey } from '../report-service/api-key.ts';
import { createReportServiceClient } from '../report-service/client.ts';
import { limitsOf } from '../report-service/limits.ts';
import { generatedReports } from '../report-service/simulator/generated-reports.ts';
import { startSimulator } from '../report-service/simulator/simulator.ts';
import { type LocalOptions, type LocalSettings, readLocalSettings } from './local-settings.ts';
import { createProgress, type Terminal } from './progress.ts';
import { type LocalOutcome, realSurroundings, runLocally } from './run-locally.ts';
import { type Report, reportOf, type Seen, seenNothing, summaryOf } from './summary.ts';

export interface CommandWorld {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly signal: AbortSignal;
}

/** How many reports the simulator starts with, and from what; the same every time. */
const simulated = { seed: 1, count: 250 };

/** Makes the run, tells how it went, and resolves to the exit status. `problems` are those found before, in the usage. */
export async function localCommand(
  options: LocalOptions,
  problems: readonly string[],
  world: CommandWorld,
): Promise<number> {
  const { stdout, stderr } = world;
  const { now } = realSurroundings;
  const progress = createProgress(stderr, now);
  const startedAt = now();
  let seen = seenNothing(String(options.export));
  let report: Report;
  try {
    const settings = readLocalSettings(options, problems, world.env);
    const outcome = await runWith(settings, world, progress, (event) => {
      seen = seenWith(seen, event);
    });
    report = reportOf(outcome, seen);
  } catch (error) {
    report = reportOf({ status: 'error', error }, seen);
  }
  progress.end();
  const summary = summaryOf(report, now() - startedAt);
  (options.json === true ? stderr : stdout).write(summary);
  if (options.json === true) stdout.write(`${JSON.stringify(report.json)}\n`);
  return report.exitStatus;
}

async function runWith(
  settings: LocalSettings,
  { signal }: CommandWorld,
  progress: ReturnType<typeof createProgress>,
  onEvent: EventSink,
): Promise<LocalOutcome> {
  await using open = await openService(settings);
  if (open.simulator !== undefined) progress.say(`No --base-url: a simulated service answers on ${open.simulator}`);
  return await runLocally({
    definition: exportDefinition(settings.export, open.source),
    service: open.service,
    out: settings.out,
    startInput: settings.startInput,
    surroundings: realSurroundings,
    emit: (event) => {
      onEvent(event);
      progress.onEvent(event);
    },
    onRetry: progress.onRetry,
    signal,
  });
}

/** What is known of the run after `event`. */
function seenWith(seen: Seen, event: ExportEvent): Seen {
  switch (event.event) {
    case 'run-started':
    case 'run-resumed': {
      const { run, since, pages, reports, bytes } = event;
      return { ...seen, run, since, pages, reports, bytes };
    }
    case 'run-restarted':
      return { ...seen, run: event.run, pages: 0, reports: 0, bytes: 0 };
    case 'page-exported':
    case 'page-adopted':
      return { ...seen, pages: event.page, reports: event.totalReports, bytes: event.totalBytes };
    case 'service-asked-to-wait':
    case 'run-completed':
    case 'run-failed':
    case 'run-skipped':
      return seen;
  }
}

interface OpenService extends AsyncDisposable {
  readonly service: ReportService;
  readonly source: string;
  /** Where the simulator listens, if it is one. */
  readonly simulator?: string;
}

/** The service that was named, or a simulator of it on loopback with a key of its own. */
async function openService({
  service: { baseUrl, vendor, cursorIn, ...limits },
  apiKey,
}: LocalSettings): Promise<OpenService> {
  const connect = (url: string, key: string) =>
    createReportServiceClient({
      baseUrl: url,
      vendor,
      cursorIn,
      apiKey: fixedApiKey(key),
      limits: limitsOf(limits),
      clock: realSurroundings,
    });
  if (baseUrl !== undefined && apiKey !== undefined) {
    const client = connect(baseUrl, apiKey);
    return { service: client, source: sourceOf(baseUrl), [Symbol.asyncDispose]: () => client.close() };
  }
  const key = realSurroundings.randomHex(32);
  const reports = generatedReports({ ...simulated, now: realSurroundings.now });
  const simulator = await startSimulator({ vendor, apiKey: key, reports, seed: simulated.seed });
  const client = connect(simulator.baseUrl, key);
  return {
    service: client,
    source: 'simulator',
    simulator: simulator.baseUrl,
    [Symbol.asyncDispose]: async () => {
      await client.close();
      await simulator.close();
    },
  };
}
