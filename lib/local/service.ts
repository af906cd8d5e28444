/** The service of an export on this machine: the one in its settings, or a simulator on the loopback interface. */

import { ExportError } from '../core/errors.ts';
import type { DeployedService } from '../target/target.ts';
import type { Runtime } from '../core/ports.ts';
import type { Api } from '../settings/api-settings.ts';
import { needsSecret, sourceOf, untilOperatorOf } from '../settings/settings.ts';
import { fixedApiKey } from '../service/client/api-key.ts';
import { serviceClient } from '../service/client/client.ts';
import { describeNetwork, directNetwork } from '../service/network/network.ts';
import { generatedReports } from '../service/simulator/generated-reports.ts';
import { startSimulator } from '../service/simulator/simulator.ts';
import { createLocalNetwork } from './network.ts';
import type { LocalExport } from './settings.ts';

/** A fixed seed, so that the simulator starts with the same reports every time. */
const simulatedReports = { seed: 1, count: 250 };

/** The service, with the API key from `env`. Connecting without a base URL starts a simulator. */
export function localService(
  { service, apiKeyEnv }: LocalExport,
  env: NodeJS.ProcessEnv,
  runtime: Runtime,
): DeployedService {
  const { baseUrl, ...settings } = service;
  if (baseUrl !== undefined) {
    const network = createLocalNetwork({ baseUrl, settings, env, now: runtime.now });
    return {
      settings,
      describeNetwork: async () => describeNetwork(await network.get()),
      address: sourceOf(baseUrl),
      untilOperator: untilOperatorOf(settings),
      maxConcurrentPages: settings.maxConcurrentPages,
      keySource: needsSecret(settings) ? `environment variable ${apiKeyEnv}` : 'none is needed',
      async connect() {
        const key = needsSecret(settings) ? requireApiKey(env, apiKeyEnv) : '';
        // Read first, so that a wrong file fails the start instead of a request.
        await network.get();
        return serviceClient({ ...settings, baseUrl }, { apiKey: fixedApiKey(key), network, clock: runtime });
      },
    };
  }
  return {
    settings,
    describeNetwork: async () => '',
    address: 'simulator',
    // The simulator of the contract accepts it (docs/service-contract.md, "The simulator").
    untilOperator: untilOperatorOf(settings) ?? (settings.api === undefined ? 'lt' : undefined),
    maxConcurrentPages: settings.maxConcurrentPages,
    keySource: 'generated for the simulator',
    async connect(say) {
      const { api } = settings;
      const key = `${api?.auth.kind === 'basic' ? 'simulator:' : ''}${runtime.randomHex(32)}`;
      const reports = generatedReports({ ...simulatedReports, now: runtime.now });
      const simulator = await startSimulator({
        vendor: settings.vendor,
        apiKey: key,
        reports,
        seed: simulatedReports.seed,
        api,
      });
      say(`Using a simulated service at ${simulator.baseUrl}`);
      const simulated = { ...settings, baseUrl: simulator.baseUrl, api: api && withTokensFrom(simulator.baseUrl, api) };
      const client = serviceClient(simulated, { apiKey: fixedApiKey(key), network: directNetwork, clock: runtime });
      return {
        ...client,
        async [Symbol.asyncDispose]() {
          await client[Symbol.asyncDispose]();
          await simulator.close();
        },
      };
    },
  };
}

function withTokensFrom(baseUrl: string, api: Api): Api {
  const { tokenUrl, ...auth } = api.auth;
  if (tokenUrl === undefined) return api;
  return { ...api, auth: { ...auth, tokenUrl: `${baseUrl}${new URL(tokenUrl).pathname}` } };
}

function requireApiKey(env: NodeJS.ProcessEnv, variable: string): string {
  const key = env[variable] ?? '';
  const problem = problemOfApiKey(key);
  if (problem === undefined) return key;
  throw new ExportError('ConfigurationError', `The environment variable ${variable} ${problem}`);
}

/** Why a key cannot be used, without showing any of it; undefined if it can be. */
export function problemOfApiKey(key: string | undefined): string | undefined {
  if (key === undefined || key === '') return "is not set; set it to the service's API key";
  return /^[\x21-\x7e]+$/.test(key) ? undefined : 'contains spaces or characters that an API key cannot have';
}
