/** Adds to an AWS error what an operator can do about it. One place for all services and commands. */

import type { SFNClient } from '@aws-sdk/client-sfn';
import { codeOf, ExportError, isExportError } from '../../core/errors.ts';
import { shorten, toPrintable } from '../../core/sanitize.ts';
import { ProxyError } from '../../service/network/tunnel.ts';
import { isAccessDenied, isNetworkError } from '../errors.ts';

/** An SDK client. Each has a middleware stack with types of its own. */
export interface Client {
  readonly middlewareStack: unknown;
  destroy(): void;
}

/** Makes `client` throw ExportErrors that say what to do, for errors that the operator can fix. */
export function addFriendlyErrors(client: Client): void {
  const stack = client.middlewareStack as SFNClient['middlewareStack'];
  stack.add(
    (next, { commandName = '' }) =>
      async (args) => {
        try {
          return await next(args);
        } catch (error) {
          throw explain(error, commandName) ?? error;
        }
      },
    // Outermost, so that it sees errors of the credential, region and endpoint resolution, and only the last attempt's.
    { step: 'initialize', priority: 'high', name: 'addFriendlyErrors' },
  );
}

const credentialErrors =
  /^((Credentials|Token)ProviderError|ExpiredToken(Exception)?|RequestExpired|UnrecognizedClientException|InvalidClientTokenId|InvalidAccessKeyId|InvalidSignatureException|SignatureDoesNotMatch|IncompleteSignature)$/;
/** SSO or STS could not be reached. The SDK keeps only the text of that error. */
const unreachedProvider = /^(ProxyError|TimeoutError|Error( \[\w+\])?): /;
const missingRegion = /^region is missing|^region not accepted: region=""/i;
/** The issuer is unknown. */
const untrustedErrors = /SELF_SIGNED_CERT|^UNABLE_TO_(GET_ISSUER_CERT|VERIFY_LEAF_SIGNATURE)/;

/** The explained error; undefined if the operator cannot fix `cause`. */
function explain(cause: unknown, commandName: string): ExportError | undefined {
  if (!(cause instanceof Error) || isExportError(cause)) return undefined;
  const details = shorten(toPrintable(cause.message), 300);
  if (isUnreachable(cause)) {
    const remedy = 'Check the network, HTTPS_PROXY, NO_PROXY, AWS_REGION and AWS_ENDPOINT_URL, then try again';
    return new ExportError('ServiceUnavailableError', `Cannot reach AWS (${details}). ${remedy}`, { cause });
  }
  const remedy = remedyFor(cause, commandName);
  return remedy === undefined ? undefined : new ExportError('ConfigurationError', `${details}. ${remedy}`, { cause });
}

function isUnreachable(cause: Error): boolean {
  if (cause instanceof ProxyError) return cause.status === undefined || cause.status >= 500;
  if (cause.name === 'CredentialsProviderError') return unreachedProvider.test(cause.message);
  return isNetworkError(cause);
}

function remedyFor(cause: Error, commandName: string): string | undefined {
  if (cause instanceof ProxyError) {
    return cause.status === 407
      ? 'Set its user and password in HTTPS_PROXY, percent-encoded: http://user:password@proxy.example.com:3128'
      : 'Have it allow the hosts of AWS (*.amazonaws.com), or list them in NO_PROXY if they need no proxy';
  }
  if (credentialErrors.test(cause.name)) {
    return (
      'Select a profile with AWS_PROFILE, and sign in if it requires that (aws sso login). With an MFA code, set ' +
      'temporary credentials: aws configure export-credentials --format env'
    );
  }
  if (missingRegion.test(cause.message)) return 'Set the region of the stack, such as AWS_REGION=eu-central-1';
  if (untrustedErrors.test(codeOf(cause))) {
    return 'If a proxy inspects TLS here, set AWS_CA_BUNDLE to a PEM file with its certificate authority';
  }
  // Without s3:ListBucket, S3 answers 403 for a missing object. The page store explains that itself.
  if (!isAccessDenied(cause) || /^(Get|Head)ObjectCommand$/.test(commandName)) return undefined;
  return `AWS denied ${commandName.replace(/Command$/, '')}. Request an operator's permissions, or set another AWS_PROFILE`;
}
