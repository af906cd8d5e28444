/** MiniStack: a local AWS in one process, CloudFormation, Step Functions, Lambda and Scheduler included. */

import { join } from 'node:path';
import { type Emulator, startEmulator } from './processes.ts';

export const accountId = '123456789012';
export const region = 'us-east-1';

/** The account's root, who may do everything. moto cannot be told to use other keys than these. */
export const credentials = { accessKeyId: 'ak', secretAccessKey: 'sk' } as const;

export function startMiniStack(python: string): Promise<Emulator> {
  return startEmulator({
    name: 'MiniStack',
    command: python,
    parameters: () => [join(import.meta.dirname, 'ministack-launcher.py')],
    env: ({ directory, port }) => ({
      GATEWAY_PORT: String(port),
      BIND_HOST: '127.0.0.1',
      MINISTACK_ACCOUNT_ID: accountId,
      MINISTACK_REGION: region,
      STATE_DIR: directory,
      // Neither is needed, and each would listen on a port of its own.
      IOT_MTLS_ENABLED: '0',
      SFTP_ENABLED: '0',
      // Whoever asks must be allowed to: the functions by the roles that the stack gives them. Actions and resources count;
      // the condition on dynamodb:LeadingKeys does not, nor does a missing page look forbidden without s3:ListBucket.
      AUTH: 'true',
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    }),
    readyAt: '/_ministack/ready',
  });
}
