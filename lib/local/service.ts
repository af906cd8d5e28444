/** The service of an export on this machine: the one in its settings, or a simulator on the loopback interface. */

import { join } from 'node:path';
import { ExportError } from '../core/errors.ts';
import { defaultApiKeyEnv, type ServiceSettings, sourceOf } from '../settings/settings.ts';
import { needsSecret, problemOfSecret, renewsSecret } from '../service/api/auth/kinds.ts';
import { defaultVendor } from '../service/api/report-export-service.ts';
import { fixedApiKey } from '../service/client/api-key.ts';
import { describeNetwork, directNetwork, type NetworkSource } from '../service/network/network.ts';
import { createLocalNetwork } from './network.ts';
import { createRenewedSecret, type Waiting } from './renewed-secret.ts';
import type { LocalDirectory, LocalExport } from './settings.ts';

/** The address of the service in a directory with simulated reports. */
export const simulatorAddress = 'simulator';

/** A fixed seed, so that the simulator starts with the same reports every time. */
const simulatedReports = { seed: 1, count: 250 };

/** The service, with the API key from `env`, or its refresh token in `out`. Without a base URL, a simulator starts. */
export function localService(
  { service, export: { api: described }, apiKeyEnv }: LocalExport,
  { out, env, runtime }: LocalDirectory,
) {
  const { baseUrl, ...given } = service;
  // The simulator of the contract has an upper bound (docs/service-contract.md, "The simulator"), and a root element of
  // its own.
  const settings = baseUrl === undefined ? { ...given, rootElement: undefined } : given;
  const api = baseUrl === undefined ? { ...described, filterUntil: described.filterUntil ?? 'date.lt' } : described;
  const { maxConcurrentPages } = settings;
  // The client takes long to load, and commands that only read do not need it.
  const clientOf = async (address: string, key: string, network: NetworkSource, waiting: Waiting = {}) => {
    const { serviceClient } = await import('../service/client/client.ts');
    const place = isNameOfVariable(apiKeyEnv) ? `The environment variable ${apiKeyEnv}` : undefined;
    const apiKey = renewsSecret(settings) ? createRenewedSecret(out, key, runtime, waiting) : fixedApiKey(key, place);
    return serviceClient({ ...settings, api, baseUrl: address }, { apiKey, network, clock: runtime });
  };
  if (baseUrl !== undefined) {
    const network = createLocalNetwork({ baseUrl, settings, env, now: runtime.now });
    return {
      settings,
      api,
      address: sourceOf(baseUrl),
      maxConcurrentPages,
      describeNetwork: async () => describeNetwork(await network.get()),
      keySource: needsSecret(settings)
        ? `environment variable ${apiKeyEnv}${renewsSecret(settings) ? `, and newer refresh tokens in ${join(out, '.tokens')}` : ''}`
        : 'none is needed',
      async connect(notify: (text: string) => void, signal?: AbortSignal) {
        // Read first, so that a wrong file fails the start instead of a request.
        const unusable = await network.get().then(
          () => undefined,
          ({ message }: Error) => message,
        );
        const ofKey = problemOfVariable(apiKeyEnv, env, settings);
        const problems = [ofKey, unusable].filter((problem) => problem !== undefined);
        if (problems.length > 0) throw new ExportError('ConfigurationError', problems.join('\n'));
        return await clientOf(baseUrl, env[apiKeyEnv] ?? '', network, { notify, signal });
      },
    };
  }
  return {
    settings,
    api,
    address: simulatorAddress,
    maxConcurrentPages,
    describeNetwork: async () => '',
    keySource: 'generated for the simulator',
    async connect(notify: (text: string) => void) {
      const { generatedReports } = await import('../service/simulator/generated-reports.ts');
      const { startSimulator } = await import('../service/simulator/simulator.ts');
      const apiKey = runtime.randomHex(32);
      const reports = generatedReports({ ...simulatedReports, now: runtime.now });
      const { vendor = defaultVendor } = settings;
      const { seed } = simulatedReports;
      const simulator = await startSimulator({ vendor, apiKey, reports, seed, now: runtime.now });
      notify(`Using a simulated service at ${simulator.baseUrl}`);
      const client = await clientOf(simulator.baseUrl, apiKey, directNetwork);
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

/**
 * Why the secret in the environment variable cannot be used; undefined if it can be. The name is shown only if it looks
 * like one: it may be the key itself, given by mistake.
 */
export function problemOfVariable(
  variable: string,
  env: NodeJS.ProcessEnv,
  service: Pick<ServiceSettings, 'auth'>,
): string | undefined {
  if (!needsSecret(service)) return undefined;
  const problem = problemOfSecret(env[variable], service.auth);
  const named = isNameOfVariable(variable) ? variable : `in apiKeyEnv (default ${defaultApiKeyEnv})`;
  return problem && `The environment variable ${named} ${problem}`;
}

/** `TOKEN`, `OAUTH2_SECRET`: capital words with underscores between them, not what a random key looks like. */
const isNameOfVariable = (name: string): boolean =>
  /^([A-Z]{1,12}|[A-Z]{1,20}\d?[A-Z]{0,20}(_[A-Z]{1,20}\d{0,3}|_\d{1,3}){1,6})$/.test(name);
