/** Connects to the service of a stack from here, with the secrets that its functions use. */

import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import type { Clock } from '../../core/ports.ts';
import { fixedApiKey } from '../../service/client/api-key.ts';
import { serviceClient } from '../../service/client/client.ts';
import { describeNetwork } from '../../service/network/network.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { createSecretApiKey, createSecretNetwork } from '../secrets.ts';
import type { OperatorClients } from './clients.ts';

/** Without a `secretId`, the service needs no API key. */
export function serviceConnection(
  settings: ServiceSettings,
  { secretId, field }: { readonly secretId: string | undefined; readonly field: string },
  clients: OperatorClients,
  clock: Clock,
) {
  const client = clients.open((config) => new SecretsManagerClient(config));
  const network = createSecretNetwork({ client, settings, now: clock.now });
  return {
    describeNetwork: async () => describeNetwork(await network.get()),
    async connect() {
      const apiKey =
        secretId === undefined ? fixedApiKey('') : createSecretApiKey({ client, secretId, field, now: clock.now });
      // Read first, so that a missing key is not reported as a failed request.
      await apiKey.get();
      return serviceClient(settings, { network, apiKey, clock });
    },
  };
}
