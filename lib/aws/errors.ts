/** Recognizes errors of AWS by their names, and says what to do about a request that AWS denied. */

import { codeOf, type ExportError, isExportError } from '../core/errors.ts';

export const hasName = (error: unknown, ...names: readonly string[]): error is Error =>
  error instanceof Error && names.includes(error.name);

const networkErrors =
  /^(TimeoutError|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|CERT_HAS_EXPIRED)$/;

export const isNetworkError = (error: Error): boolean =>
  networkErrors.test(codeOf(error)) || networkErrors.test(error.name);

/** Whether AWS denied a request. Operators' clients explain that error, and keep it as the cause. */
export function isAccessDenied(error: unknown): error is Error {
  if (isExportError(error)) return isAccessDenied(error.cause);
  return hasName(error, 'AccessDenied', 'AccessDeniedException');
}

/** Whether AWS denied the request. The response to a HEAD request has only a status, no name of an error. */
function isDenial(error: ExportError): boolean {
  const { $metadata: response } = (error.cause ?? {}) as { readonly $metadata?: { readonly httpStatusCode?: number } };
  return isAccessDenied(error.cause) || response?.httpStatusCode === 403;
}

/**
 * Adds the remedy to the message of AWS, which names the action and the resource. A ConfigurationError already has one,
 * and only gets the name of the denial: the state machine retries a denial, because new permissions take a moment to
 * become effective.
 */
export function explainAccessDenied(error: unknown): void {
  if (isExportError(error)) {
    if (isDenial(error)) Object.assign(error, { name: 'AccessDenied' });
    return;
  }
  if (!isAccessDenied(error)) return;
  const [, action] = /not authorized to perform: ([a-z0-9-]+:\w+)/i.exec(error.message) ?? [];
  const isDeniedWrite = action === 's3:PutObject' && error.message.includes('explicit deny in a resource-based policy');
  const hint = action?.startsWith('kms:') === true ? bucketKeyHint : isDeniedWrite ? encryptionHint : '';
  error.message =
    `${error.message.replace(/\.?\s*$/, '')}. AWS denied ${action ?? 'the request'} to a function of the stack. ${hint}Restore the permission ` +
    '(cdk diff shows changes of its own policies; check bucket, key and endpoint policies and permissions boundaries), then start again';
}

/** Nothing in the stack names the key of a bucket that it does not create. */
const bucketKeyHint =
  'If an existing bucket encrypts with this key by default, set bucket.kmsKeyArn to it and deploy. ';
const encryptionHint =
  'If the policy of the bucket requires a header for encryption, set bucket.kmsKeyArn and deploy. ';
