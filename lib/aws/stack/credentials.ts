/**
 * Who an operator is to AWS: profile, credentials and region. They are resolved once, for all clients, so a profile
 * that requires an MFA code asks for one code only.
 */

import type { SFNClientConfig } from '@aws-sdk/client-sfn';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { parseKnownFiles } from '@smithy/core/config';
import { ExportError } from '../../core/errors.ts';
import { listNames, toPrintable } from '../../core/sanitize.ts';
import type { Environment } from '../sdk-config.ts';

/** Asks a person for the code that the MFA device `serialNumber` shows. */
export type AskMfaCode = (serialNumber: string) => Promise<string>;

/**
 * The part of every client's configuration that says who the operator is. Nothing is read until a client needs it. STS
 * and SSO are requested with `requestHandler`.
 */
export function operatorIdentity(
  env: Environment,
  askMfaCode: AskMfaCode,
  requestHandler: SFNClientConfig['requestHandler'],
) {
  return {
    credentials: defaultProvider({ mfaCodeProvider: askMfaCode, clientConfig: { requestHandler } }),
    // The AWS CLI and the CDK read this variable, before the region of the profile; the SDK does not.
    ...(!env.AWS_REGION && env.AWS_DEFAULT_REGION ? { region: env.AWS_DEFAULT_REGION } : {}),
  };
}

/**
 * The SDK would try other sources of credentials if the profile does not exist, and then report a missing region.
 * @throws ConfigurationError that lists the profiles
 */
export async function assertProfileExists({ AWS_PROFILE: profile = '' }: Environment): Promise<void> {
  // The SDK works without a default profile.
  if (profile === '' || profile === 'default') return;
  const sections = Object.keys(await parseKnownFiles({}));
  if (sections.includes(profile)) return;
  const names = sections.filter((section) => !/^(sso-session|services)\./.test(section)).sort();
  throw new ExportError(
    'ConfigurationError',
    `There is no AWS profile "${toPrintable(profile)}". Set AWS_PROFILE to one of: ${listNames(names) || 'none is configured'}`,
  );
}
