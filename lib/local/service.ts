/** The service of an export on this machine: the one in its settings, or a simulator on the loopback interface. */

import { ExportError, isExportError } from '../core/errors.ts';
import type { DeployedService } from '../target/target.ts';
import type { Runtime } from '../core/ports.ts';
import type { Api } from '../settings/api-settings.ts';
import { defaultVendor, needsSecret, sourceOf } from '../settings/settings.ts';
import { fixedApiKey, problemOfSecret } from '../service/client/api-key.ts';
import { describeNetwork, directNetwork } from '../service/network/network.ts';
import { createLocalNetwork } from './network.ts';
import { defaultApiKeyEnv } from '../settings/deployment-settings.ts';
import type { LocalExport } from './settings.ts';

/** A fixed seed, so that the simulator starts with the same reports every time. */
const simulatedReports = { seed: 1, count: 250 };

/** The simulator of the contract has an upper bound (docs/service-contract.md, "The simulator"). */
export const withSimulatedBound = (service: LocalExport['service']): LocalExport['service'] =>
  service.baseUrl === undefined ? { filterUntil: 'date.lt', ...service } : service;

/** It takes long to load, and commands that only read do not need it. */
const loadClient = async () => await import('../service/client/client.ts');

/** The service, with the API key from `env`. Connecting without a base URL starts a simulator. */
export function localService(
  { service, apiKeyEnv }: LocalExport,
  env: NodeJS.ProcessEnv,
  runtime: Runtime,
): DeployedService {
  const { baseUrl, ...settings } = withSimulatedBound(service);
  const common = {
    settings,
    address: baseUrl === undefined ? 'simulator' : sourceOf(baseUrl),
    maxConcurrentPages: settings.maxConcurrentPages,
  };
  if (baseUrl !== undefined) {
    const network = createLocalNetwork({ baseUrl, settings, env, now: runtime.now });
    return {
      ...common,
      describeNetwork: async () => describeNetwork(await network.get()),
      keySource: needsSecret(settings) ? `environment variable ${apiKeyEnv}` : 'none is needed',
      async connect() {
        const problem = findSecretProblem({ service, apiKeyEnv }, env);
        // Read first, so that a wrong file fails the start instead of a request.
        await network.get().catch((cause: unknown) => {
          if (problem === undefined || !isExportError(cause, 'ConfigurationError')) throw cause;
          throw new ExportError('ConfigurationError', `${problem}\n${cause.message}`, { cause });
        });
        if (problem !== undefined) throw new ExportError('ConfigurationError', problem);
        const key = env[apiKeyEnv] ?? '';
        const { serviceClient } = await loadClient();
        return serviceClient({ ...settings, baseUrl }, { apiKey: fixedApiKey(key), network, clock: runtime });
      },
    };
  }
  return {
    ...common,
    describeNetwork: async () => '',
    keySource: 'generated for the simulator',
    async connect(notify) {
      const key = runtime.randomHex(32);
      const { serviceClient } = await loadClient();
      const { generatedReports } = await import('../service/simulator/generated-reports.ts');
      const { startSimulator } = await import('../service/simulator/simulator.ts');
      const reports = generatedReports({ ...simulatedReports, now: runtime.now });
      const simulator = await startSimulator({
        vendor: settings.vendor ?? defaultVendor,
        apiKey: key,
        reports,
        seed: simulatedReports.seed,
      });
      notify(`Using a simulated service at ${simulator.baseUrl}`);
      const simulated = { ...settings, baseUrl: simulator.baseUrl };
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

interface ServiceWithSecret extends Pick<LocalExport, 'apiKeyEnv'> {
  readonly service: Pick<LocalExport['service'], 'baseUrl'> & {
    readonly api?: { readonly auth: Pick<Api['auth'], 'kind'> };
  };
}

/** Why the service cannot be used without another value of its environment variable; undefined if it can be. */
export function findSecretProblem(
  { service, apiKeyEnv }: ServiceWithSecret,
  env: NodeJS.ProcessEnv,
): string | undefined {
  if (service.baseUrl === undefined || !needsSecret(service)) return undefined;
  const problem = problemOfVariable(apiKeyEnv, env, service.api?.auth.kind);
  return problem && `The ${problem}`;
}

/**
 * Why the secret in the environment variable cannot be used; undefined if it can be. The name is shown only if it looks like
 * one: it may be the key itself, given by mistake.
 */
export function problemOfVariable(
  variable: string,
  env: NodeJS.ProcessEnv,
  kind: Api['auth']['kind'] = 'header',
): string | undefined {
  if (kind === 'none') return undefined;
  const problem = problemOfSecret(env[variable], kind);
  const named = isNameOfVariable(variable) ? variable : `in apiKeyEnv (default ${defaultApiKeyEnv})`;
  return problem && `environment variable ${named} ${problem}`;
}

/** `TOKEN`, `OAUTH2_SECRET`: capital words with underscores between them, not what a random key looks like. */
export const isNameOfVariable = (name: string): boolean =>
  /^([A-Z]{1,12}|[A-Z]{1,20}\d?[A-Z]{0,20}(_[A-Z]{1,20}\d{0,3}|_\d{1,3}){1,6})$/.test(name);
