/** `report-exporter service`: runs the simulator on its own, to try the exporter or any other client against it. */

import { defaultApiKeyEnv } from '../../settings/settings.ts';
import { authOfReportExport } from '../../service/api/report-export-service.ts';
import { problemOfVariable } from '../../local/service.ts';
import { generatedReports } from '../../service/simulator/generated-reports.ts';
import { startSimulator } from '../../service/simulator/simulator.ts';
import { type Call, exitStatuses, runCommand } from '../context.ts';
import { readWholeNumber } from '../arguments.ts';
import { checkService } from '../run-options.ts';

/** The seed of the local run's simulator: both return the same reports and cursors. */
const seed = 1;

/** Serves until it is interrupted. The first line on stdout contains the base URL. */
export async function serviceCommand(call: Call): Promise<number> {
  const { options, problems, env, stdout, signal } = call;
  const { vendor = 'SERVICE' } = options;
  const port = readWholeNumber('--port', options.port ?? '0', { max: 65_535 }, problems);
  const count = readWholeNumber('--reports', options.reports ?? '250', { max: 10_000_000 }, problems);
  checkService({ vendor }, problems);
  const problem = problemOfVariable(defaultApiKeyEnv, env, { auth: authOfReportExport({ vendor }) });
  if (problem !== undefined) problems.push(problem);
  return await runCommand(call, async () => {
    const reports = generatedReports({ seed, count, now: Date.now });
    const apiKey = env[defaultApiKeyEnv] ?? '';
    const simulator = await startSimulator({ vendor, apiKey, port, reports, seed });
    stdout.write(`Report Export Service simulator listening on ${simulator.baseUrl}\n`);
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    await simulator.close();
    return exitStatuses.interrupted;
  });
}
