/** MiniStack: emulates AWS in one process, including CloudFormation, Step Functions, Lambda and Scheduler. */

import { join } from 'node:path';
import { type Emulator, startEmulator } from './processes.ts';

export const accountId = '123456789012';
export const region = 'us-east-1';

/** The root user of the account. */
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
      // Not needed, and each would listen on another port.
      IOT_MTLS_ENABLED: '0',
      SFTP_ENABLED: '0',
      // Enforces IAM, so the functions have only the permissions of their roles. Actions and resources are checked. The
      // condition dynamodb:LeadingKeys is not, and a missing object is a 404 even without s3:ListBucket.
      AUTH: 'true',
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    }),
    readyPath: '/_ministack/ready',
  });
}
