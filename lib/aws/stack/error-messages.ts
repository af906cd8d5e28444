/**
 * What AWS says to a person who lacks credentials, a region, a permission or a network, and what to do about it; said
 * once, for every service and every command.
 */

import type { SFNClient } from '@aws-sdk/client-sfn';
import { ExportError, isExportError } from '../../core/errors.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';

/** All clients have it, each with types of its own. */
interface Client {
  readonly middlewareStack: unknown;
}

/** Makes errors of `client` that a person can mend ConfigurationErrors. All others stay what they are. */
export function addFriendlyErrors(client: Client): void {
  const stack = client.middlewareStack as SFNClient['middlewareStack'];
  stack.add(
    (next, { clientName = 'AWS', commandName = 'request' }) =>
      async (args) => {
        try {
          return await next(args);
        } catch (error) {
          throw refusal(error, serviceOf(clientName), commandName.replace(/Command$/, '')) ?? error;
        }
      },
    // The outermost: credentials, region and endpoint are looked for inside, and all attempts are made there.
    { step: 'initialize', priority: 'high', name: 'inWordsOfAnOperator' },
  );
}

/** As permissions spell it: `dynamodb`, `states`. */
function serviceOf(clientName: string): string {
  const name = clientName.replace(/Client$/, '').toLowerCase();
  return name === 'sfn' ? 'states' : name;
}

/** Credentials that nobody has, that have run out, or that AWS does not know. */
const unusable: Readonly<Record<string, string>> = {
  CredentialsProviderError: 'There are no AWS credentials',
  TokenProviderError: 'There are no AWS credentials',
  ExpiredToken: 'The AWS credentials have expired',
  ExpiredTokenException: 'The AWS credentials have expired',
  RequestExpired: 'The AWS credentials have expired',
  UnrecognizedClientException: 'AWS does not know these credentials',
  InvalidClientTokenId: 'AWS does not know these credentials',
  InvalidAccessKeyId: 'AWS does not know these credentials',
  InvalidSignatureException: 'AWS does not accept what these credentials have signed',
  SignatureDoesNotMatch: 'AWS does not accept what these credentials have signed',
  IncompleteSignature: 'AWS does not accept what these credentials have signed',
};
const forbidden: ReadonlySet<string> = new Set(['AccessDenied', 'AccessDeniedException', 'UnauthorizedOperation']);
const wrongClock: ReadonlySet<string> = new Set(['RequestTimeTooSkewed', 'RequestInTheFuture']);
const unreachable: ReadonlySet<string> = new Set([
  'TimeoutError',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

function refusal(cause: unknown, service: string, operation: string): ExportError | undefined {
  if (!(cause instanceof Error) || isExportError(cause)) return undefined;
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.name;
  const said = truncate(toPrintable(cause.message), 300);
  const configuration = (message: string) => new ExportError('ConfigurationError', message, { cause });
  const credentials = unusable[cause.name];
  if (credentials !== undefined) {
    return configuration(
      `${credentials} (${service}: ${said}). Name a profile with AWS_PROFILE, and sign in where it needs that ` +
        '(aws sso login); aws sts get-caller-identity shows who you are',
    );
  }
  if (/^region is missing|^region not accepted: region=""/i.test(cause.message)) {
    return configuration('No AWS region is set. Name the one where the stack stands: AWS_REGION=eu-central-1');
  }
  // Without s3:ListBucket S3 forbids a look at what is not there, and who asked for the object says so.
  if (forbidden.has(cause.name) && !(service === 's3' && /^(Get|Head)Object$/.test(operation))) {
    return configuration(
      `AWS does not let you do ${service}:${operation} (${said}). Ask for the permissions of an operator, or take another AWS_PROFILE`,
    );
  }
  if (wrongClock.has(cause.name)) {
    return configuration(`AWS refuses a request because of its time (${said}). Set this machine's clock`);
  }
  if (!unreachable.has(code) && !unreachable.has(cause.name)) return undefined;
  return new ExportError(
    'ServiceUnavailableError',
    `AWS cannot be reached (${service}, ${code}: ${said}). Check the network, AWS_REGION and AWS_ENDPOINT_URL, and try again`,
    { cause },
  );
}
