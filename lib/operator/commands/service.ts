/** `report-exporter service`: runs the simulator on its own, to try the exporter or any other client against it. */

import { ExportError } from '../../core/errors.ts';
import { defaultApiKeyEnv } from '../../settings/deployment-settings.ts';
import { problemOfVariable } from '../../local/service.ts';
import { generatedReports } from '../../service/simulator/generated-reports.ts';
import { startSimulator } from '../../service/simulator/simulator.ts';
import { type CommandContext, exitStatuses } from '../context.ts';
import { errorLines, textStyleFor, withProblemCount } from '../output/terminal.ts';
import { readWholeNumber } from '../arguments.ts';
import { checkService } from '../run-options.ts';

export interface ServiceOptions {
  readonly port: string;
  readonly vendor?: string;
  readonly reports: string;
}

/** Serves until it is interrupted. The first line on stdout contains the base URL. */
export async function serviceCommand(
  _: undefined,
  options: ServiceOptions,
  usageErrors: readonly string[],
  { env, stdout, stderr, signal }: CommandContext,
): Promise<number> {
  try {
    const { port, vendor, apiKey, count } = readServiceSettings(options, usageErrors, env);
    const reports = generatedReports({ seed, count, now: Date.now });
    const simulator = await startSimulator({ vendor, apiKey, port, reports, seed });
    stdout.write(`Report Export Service simulator listening on ${simulator.baseUrl}\n`);
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    await simulator.close();
    return exitStatuses.interrupted;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const isUsage = error instanceof ExportError;
    stderr.write(errorLines(textStyleFor(stderr, env), isUsage ? withProblemCount(message) : message));
    return isUsage ? exitStatuses.usage : exitStatuses.failed;
  }
}

/** The seed of the local run's simulator: both return the same reports and cursors. */
const seed = 1;

function readServiceSettings(options: ServiceOptions, usageErrors: readonly string[], env: CommandContext['env']) {
  const { vendor = 'SERVICE' } = options;
  const problems = [...usageErrors];
  const port = readWholeNumber('--port', options.port, { max: 65_535 }, problems);
  const count = readWholeNumber('--reports', options.reports, { max: 10_000_000 }, problems);
  checkService({ vendor }, problems);
  const problem = problemOfVariable(defaultApiKeyEnv, env);
  if (problem !== undefined) problems.push(`The ${problem}`);
  if (problems.length > 0) throw new ExportError('ConfigurationError', problems.join('\n'));
  return { port, vendor, apiKey: env[defaultApiKeyEnv] ?? '', count };
}
