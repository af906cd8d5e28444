/**
 * `report-exporter local`: one run on this machine, told to a person or to a program.
 * Exit status: 0 completed or skipped, 1 the run failed, 2 wrong usage or settings, 130 interrupted.
 */

import type { RunId } from '../core/model.ts';
import type { ReportService } from '../core/ports.ts';
import { exportDefinition } from '../core/settings.ts';
import { fixedApiKey } from '../report-service/api-key.ts';
import { createReportServiceClient } from '../report-service/client.ts';
import { generatedReports } from '../report-service/simulator/generated-reports.ts';
import { startSimulator } from '../report-service/simulator/simulator.ts';
import { type LocalOptions, type LocalSettings, readLocalSettings } from './local-settings.ts';
import { createProgress, type Terminal } from './progress.ts';
import { type LocalOutcome, realSurroundings, runLocally } from './run-locally.ts';
import { type Report, reportOf, summaryOf } from './summary.ts';

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
  const { surroundings, stdout, stderr } = { surroundings: realSurroundings, ...world };
  const progress = createProgress(stderr, surroundings.now);
  const startedAt = surroundings.now();
  let run: RunId | undefined;
  let report: Report;
  try {
    const settings = readLocalSettings(options, problems, world.env);
    const outcome = await runWith(settings, world, progress, (id) => {
      run = id;
    });
    report = reportOf(outcome, settings.export.name, run);
  } catch (error) {
    report = reportOf({ status: 'error', error }, options.export, run);
  }
  progress.end();
  const summary = summaryOf(report, surroundings.now() - startedAt);
  (options.json === true ? stderr : stdout).write(summary);
  if (options.json === true) stdout.write(`${JSON.stringify(report.json)}\n`);
  return report.exitStatus;
}

async function runWith(
  settings: LocalSettings,
  { signal }: CommandWorld,
  progress: ReturnType<typeof createProgress>,
  onRun: (run: RunId) => void,
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
      if ('run' in event && event.run !== null) onRun(event.run);
      progress.onEvent(event);
    },
    onRetry: progress.onRetry,
    signal,
  });
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
      limits: {
        connectTimeoutMs: limits.connectTimeout,
        headersTimeoutMs: limits.headersTimeout,
        bodyTimeoutMs: limits.bodyTimeout,
        totalTimeoutMs: limits.totalTimeout,
        maxPageBytes: limits.maxPageBytes,
      },
      now: realSurroundings.now,
    });
  if (baseUrl !== undefined && apiKey !== undefined) {
    const client = connect(baseUrl, apiKey);
    return { service: client, source: baseUrl, [Symbol.asyncDispose]: () => client.close() };
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
