/** Reaches the service of a stack: from here with the secrets of its functions, or from its function ExportPage. */

import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { ExportError } from '../../core/errors.ts';
import type { Clock } from '../../core/ports.ts';
import type { Description } from '../../service/api/description.ts';
import { fixedApiKey } from '../../service/client/api-key.ts';
import { serviceClient } from '../../service/client/client.ts';
import { describeNetwork } from '../../service/network/network.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import {
  type ProbedPeriod,
  type ProbeEvent,
  type ProbeResult,
  probeResultSchema,
} from '../../service/client/probe-service.ts';
import { hasName } from '../errors.ts';
import { parseJson } from '../parse-json.ts';
import { createSecretApiKey, createSecretNetwork } from '../secrets.ts';
import type { OperatorClients } from './clients.ts';

/** Without a `secretId`, the service needs no API key. */
export function serviceConnection(
  settings: ServiceSettings,
  secretId: string | undefined,
  clients: OperatorClients,
  clock: Clock,
) {
  const client = clients.open((config) => new SecretsManagerClient(config));
  const network = createSecretNetwork({ client, settings, now: clock.now });
  return {
    describeNetwork: async () => describeNetwork(await network.get()),
    async connect(api: Description) {
      const apiKey =
        secretId === undefined ? fixedApiKey('') : createSecretApiKey({ client, secretId, now: clock.now });
      // Read first, so that a missing key is not reported as a failed request.
      await apiKey.get();
      return serviceClient({ ...settings, api }, { network, apiKey, clock });
    },
  };
}

/**
 * Needs lambda:InvokeFunction. Errors have the name and the message that they have in the function.
 * @throws ExportError if the function cannot be invoked or answers something else; an Error if the function fails
 */
export async function probeFromFunction(
  clients: OperatorClients,
  functionArn: string,
  exportName: string,
  period: ProbedPeriod,
): Promise<ProbeResult> {
  // An invocation responds when the function has ended: a cold start, half a minute for the service, and a minute of
  // waits that it asks for. It is not repeated.
  const client = clients.open(
    ({ requestHandler, ...config }) =>
      new LambdaClient({ ...config, maxAttempts: 1, requestHandler: { ...requestHandler, requestTimeout: 150_000 } }),
  );
  const event: ProbeEvent = { probe: { export: exportName, ...period } };
  const command = new InvokeCommand({ FunctionName: functionArn, Payload: Buffer.from(JSON.stringify(event)) });
  const response = await client.send(command).catch((cause: unknown) => {
    if (!hasName(cause, 'ResourceNotFoundException')) throw cause;
    throw new ExportError('ConfigurationError', `There is no function ${functionArn}. Deploy the stack again`, {
      cause,
    });
  });
  const payload = parseJson(Buffer.from(response.Payload ?? []).toString());
  if (response.FunctionError !== undefined) {
    const { errorType, errorMessage } = payload as { readonly errorType?: string; readonly errorMessage?: string };
    throw Object.assign(new Error(errorMessage ?? response.FunctionError), { name: errorType ?? 'Error' });
  }
  const { data } = probeResultSchema.safeParse(payload);
  if (data !== undefined) return data;
  const message = `${functionArn} did not answer as this version does. Deploy the stack again`;
  throw new ExportError('ConfigurationError', message);
}
