/**
 * Explains AWS errors to an operator: missing or expired credentials, no region, denied access, no network. One place
 * for all services and commands.
 */

import type { SFNClient } from '@aws-sdk/client-sfn';
import { codeOf, type ErrorName, ExportError, isExportError } from '../../core/errors.ts';
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
    (next, { clientName = 'AWS', commandName = 'request' }) =>
      async (args) => {
        try {
          return await next(args);
        } catch (error) {
          throw explain(error, iamServiceOf(clientName), iamActionOf(commandName)) ?? error;
        }
      },
    // Outermost, so that it sees errors of the credential, region and endpoint resolution, and only the last attempt's.
    { step: 'initialize', priority: 'high', name: 'addFriendlyErrors' },
  );
}

/** The service as in IAM actions: `dynamodb`, `states`. */
const iamServiceOf = (clientName: string): string =>
  clientName
    .toLowerCase()
    .replace(/client$/, '')
    .replace(/^sfn$/, 'states');

/** The action that a command needs. One has another name. */
const iamActionOf = (commandName: string): string =>
  commandName.replace(/Command$/, '').replace(/^Invoke$/, 'InvokeFunction');

/** The problem for each pattern of an error's name. */
const credentialProblems: readonly (readonly [RegExp, string])[] = [
  [/^(Credentials|Token)ProviderError$/, 'There are no AWS credentials'],
  [/^(ExpiredToken(Exception)?|RequestExpired)$/, 'The AWS credentials have expired'],
  [/^(UnrecognizedClientException|InvalidClientTokenId|InvalidAccessKeyId)$/, 'The AWS credentials are invalid'],
  [
    /^(InvalidSignatureException|SignatureDoesNotMatch|IncompleteSignature)$/,
    'AWS rejected the signature of the AWS credentials',
  ],
];
/** SSO could not be reached. The SDK keeps only the text of that error. */
const unreachedProvider = /^(ProxyError|TimeoutError|Error( \[\w+\])?): /;
const clockErrors = /^(RequestTimeTooSkewed|RequestInTheFuture)$/;
/** The issuer is unknown. */
const untrustedErrors = /SELF_SIGNED_CERT|^UNABLE_TO_(GET_ISSUER_CERT|VERIFY_LEAF_SIGNATURE)/;

/** An error of a client, and the request that it ended. */
interface Failure {
  readonly cause: Error;
  /** What tells errors of the network apart. */
  readonly code: string;
  /** The message, for a terminal. */
  readonly details: string;
  /** The service and the operation, as in IAM actions. */
  readonly service: string;
  readonly operation: string;
}

/** The explained error; undefined if the operator cannot fix `cause`. */
function explain(cause: unknown, service: string, operation: string): ExportError | undefined {
  if (!(cause instanceof Error) || isExportError(cause)) return undefined;
  const code = codeOf(cause) || cause.name;
  const failure = { cause, code, details: shorten(toPrintable(cause.message), 300), service, operation };
  if (cause instanceof ProxyError) return explainProxy(cause);
  const errorOf = (name: ErrorName, message: string | undefined) =>
    message === undefined ? undefined : new ExportError(name, message, { cause });
  return (
    errorOf('ServiceUnavailableError', credentialsUnreachable(failure)) ??
    errorOf('ConfigurationError', identityProblem(failure) ?? denial(failure) ?? machineProblem(failure)) ??
    errorOf('ServiceUnavailableError', networkProblem(failure))
  );
}

function credentialsUnreachable({ cause, details, service }: Failure): string | undefined {
  if (cause.name !== 'CredentialsProviderError' || !unreachedProvider.test(cause.message)) return undefined;
  const advice = 'Check the variables HTTPS_PROXY, NO_PROXY and AWS_CA_BUNDLE, and the network';
  return `The AWS credentials cannot be requested (${service}: ${details}). ${advice}`;
}

function networkProblem({ cause, code, details, service }: Failure): string | undefined {
  if (!isNetworkError(cause)) return undefined;
  return (
    `Cannot reach AWS (${service}, ${code}: ${details}). Check the network, AWS_REGION and AWS_ENDPOINT_URL, then try again. ` +
    'If the network needs a proxy, set HTTPS_PROXY'
  );
}

function identityProblem({ cause, details, service }: Failure): string | undefined {
  const [, problem] = credentialProblems.find(([pattern]) => pattern.test(cause.name)) ?? [];
  if (problem !== undefined) {
    return (
      `${problem} (${service}: ${details}). Select a profile with AWS_PROFILE, and sign in if it requires that ` +
      '(aws sso login). aws sts get-caller-identity shows the current identity'
    );
  }
  return /^region is missing|^region not accepted: region=""/i.test(cause.message)
    ? 'No AWS region is set. Set the region of the stack, such as AWS_REGION=eu-central-1'
    : undefined;
}

function denial({ cause, details, service, operation }: Failure): string | undefined {
  if (!isAccessDenied(cause)) return undefined;
  if (cause.message.startsWith('MultiFactorAuthentication')) {
    return `AWS rejected the MFA code (${details}). Each code works once: try again with the next one`;
  }
  // Without s3:ListBucket, S3 answers 403 for a missing object. The page store explains that itself.
  if (service === 's3' && /^(Get|Head)Object$/.test(operation)) return undefined;
  return `Access denied to ${service}:${operation} (${details}). Request an operator's permissions, or set another AWS_PROFILE`;
}

/** The clock of this machine is wrong, or it does not trust AWS. */
function machineProblem({ cause, code, details, service }: Failure): string | undefined {
  if (clockErrors.test(cause.name)) {
    return `AWS rejected the time of a request (${details}). Set the clock of this machine`;
  }
  if (!untrustedErrors.test(code)) return undefined;
  return (
    `The certificate of AWS is not trusted (${service}, ${code}). If a proxy inspects TLS here, set AWS_CA_BUNDLE to a PEM ` +
    'file with its certificate authority'
  );
}

function explainProxy(cause: ProxyError): ExportError {
  const { message, status } = cause;
  const isTemporary = status === undefined || status >= 500;
  const remedy =
    status === 407
      ? 'Set its user and password in HTTPS_PROXY, percent-encoded: http://user:password@proxy.example.com:3128'
      : isTemporary
        ? 'Check the variables HTTPS_PROXY and NO_PROXY, and the network'
        : 'Have it allow the hosts of AWS (*.amazonaws.com), or list them in NO_PROXY if they need no proxy';
  return new ExportError(isTemporary ? 'ServiceUnavailableError' : 'ConfigurationError', `${message}. ${remedy}`, {
    cause,
  });
}
