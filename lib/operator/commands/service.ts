/** `report-exporter service`: the simulator by itself, for trying the exporter, or any other client, against it. */

import { ExportError } from '../../core/errors.ts';
import { serviceSettingsSchema } from '../../core/settings/settings.ts';
import { directoryReports } from '../../report-service/simulator/directory-reports.ts';
import { generatedReports } from '../../report-service/simulator/generated-reports.ts';
import { startSimulator } from '../../report-service/simulator/simulator.ts';
import type { CommandContext } from '../context.ts';
import { exitStatuses } from '../context.ts';
import { readApiKey } from '../run-options.ts';

export interface ServiceOptions {
  readonly port: string;
  readonly vendor: string;
  readonly apiKeyEnv: string;
  readonly reports?: string;
  readonly from?: string;
}

/** Serves until interrupted, and resolves to the exit status. The first line on stdout says where it listens. */
export async function serviceCommand(
  options: ServiceOptions,
  given: readonly string[],
  world: CommandContext,
): Promise<number> {
  try {
    const settings = readServiceSettings(options, given, world);
    const { from, count } = settings;
    const reports =
      from === undefined ? generatedReports({ seed, count, now: Date.now }) : await directoryReports(from);
    const { vendor, apiKey, port } = settings;
    const simulator = await startSimulator({ vendor, apiKey, port, reports, seed });
    world.stdout.write(`Report Export Service simulator listening on ${simulator.baseUrl}\n`);
    if (!world.signal.aborted) {
      await new Promise((resolve) => world.signal.addEventListener('abort', resolve, { once: true }));
    }
    await simulator.close();
    return exitStatuses.interrupted;
  } catch (error) {
    const lines = (error instanceof Error ? error.message : String(error)).split('\n');
    world.stderr.write(`The simulator cannot run:\n${lines.map((line) => `  ${line}\n`).join('')}`);
    return error instanceof ExportError ? exitStatuses.usage : exitStatuses.failed;
  }
}

/** The same as the local run's, so that their cursors and reports agree. */
const seed = 1;

function readServiceSettings(options: ServiceOptions, given: readonly string[], { env }: CommandContext) {
  const problems = [...given];
  const port = wholeNumber('--port', options.port, 0, 65_535, problems);
  const count = wholeNumber('--reports', options.reports ?? '250', 0, 10_000_000, problems);
  if (options.reports !== undefined && options.from !== undefined) {
    problems.push('--reports: does not go with --from, which serves the files it finds');
  }
  const vendor = serviceSettingsSchema.shape.vendor.safeParse(options.vendor);
  for (const issue of vendor.error?.issues ?? []) problems.push(`--vendor: ${issue.message}`);
  const apiKey = readApiKey(options.apiKeyEnv, env, problems);
  if (problems.length > 0 || apiKey === undefined) throw new ExportError('ConfigurationError', problems.join('\n'));
  return { port, count, vendor: options.vendor, apiKey, from: options.from };
}

function wholeNumber(option: string, text: string, least: number, most: number, problems: string[]): number {
  const number = Number(text);
  if (text.trim() === '' || !Number.isInteger(number) || number < least || number > most) {
    problems.push(`${option}: must be a whole number from ${least} to ${most}`);
  }
  return number;
}
