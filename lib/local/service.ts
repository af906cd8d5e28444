/** The service as an export on this machine speaks to it: the one that was named, or a simulator of it on loopback. */

import { ExportError } from '../core/errors.ts';
import type { DeployedService } from '../core/operations/deployment.ts';
import type { Runtime } from '../core/ports.ts';
import { sourceOf } from '../core/settings/settings.ts';
import { fixedApiKey } from '../report-service/client/api-key.ts';
import { createReportServiceClient } from '../report-service/client/client.ts';
import { limitsOf } from '../report-service/client/limits.ts';
import { generatedReports } from '../report-service/simulator/generated-reports.ts';
import { startSimulator } from '../report-service/simulator/simulator.ts';
import type { LocalExport } from './settings.ts';

/** How many reports the simulator starts with, and from what; the same every time. */
const simulated = { seed: 1, count: 250 };

type Environment = Readonly<Record<string, string | undefined>>;

export function localService(
  { service: { baseUrl, vendor, cursorIn, ...limits }, apiKeyEnv }: LocalExport,
  env: Environment,
  runtime: Runtime,
): DeployedService {
  const client = (url: string, key: string) =>
    createReportServiceClient({
      baseUrl: url,
      vendor,
      cursorIn,
      apiKey: fixedApiKey(key),
      limits: limitsOf(limits),
      clock: runtime,
    });
  const closing = (service: ReturnType<typeof client>, end?: () => Promise<void>) => ({
    fetchPage: (...request: Parameters<typeof service.fetchPage>) => service.fetchPage(...request),
    [Symbol.asyncDispose]: async () => {
      await service.close();
      await end?.();
    },
  });
  const about = { vendor, cursorIn };
  if (baseUrl !== undefined) {
    return {
      ...about,
      address: sourceOf(baseUrl),
      keySource: `environment variable ${apiKeyEnv}`,
      connect: async () => closing(client(baseUrl, apiKeyIn(env, apiKeyEnv))),
    };
  }
  return {
    ...about,
    address: 'simulator',
    keySource: 'made up for the simulator',
    async connect(say) {
      const key = runtime.randomHex(32);
      const reports = generatedReports({ ...simulated, now: runtime.now });
      const simulator = await startSimulator({ vendor, apiKey: key, reports, seed: simulated.seed });
      say(`No --base-url: a simulated service answers on ${simulator.baseUrl}`);
      return closing(client(simulator.baseUrl, key), () => simulator.close());
    },
  };
}

function apiKeyIn(env: Environment, variable: string): string {
  const problem = problemOfApiKey(env[variable]);
  if (problem === undefined) return env[variable] ?? '';
  throw new ExportError('ConfigurationError', `The environment variable ${variable} ${problem}`);
}

/** What is wrong with a key; shows nothing of it. */
export function problemOfApiKey(key: string | undefined): string | undefined {
  if (key === undefined || key === '') return "is not set; put the service's API key into it";
  return /^[\x21-\x7e]+$/.test(key) ? undefined : 'holds blanks or characters that no API key can have';
}
