/** Recognizes that AWS denied a request, and says what to do about it. */

import { isExportError } from '../core/errors.ts';

const accessDeniedErrors: ReadonlySet<string> = new Set(['AccessDenied', 'AccessDeniedException']);

/** Whether AWS denied a request. Operators' clients explain that error, and keep it as the cause. */
export function isAccessDenied(error: unknown): error is Error {
  if (isExportError(error)) return isAccessDenied(error.cause);
  return error instanceof Error && accessDeniedErrors.has(error.name);
}

/**
 * Adds the remedy to the message of AWS, which names the action and the resource. The name of the error stays: the state
 * machine decides by it.
 */
export function explainAccessDenied(error: unknown): void {
  if (isExportError(error) || !isAccessDenied(error)) return;
  const [, action] = /not authorized to perform: ([a-z0-9-]+:\w+)/i.exec(error.message) ?? [];
  error.message =
    `${error.message.replace(/\.?\s*$/, '')}. AWS denied ${action ?? 'the request'} to a function of the stack. Restore the permission ` +
    '(cdk diff shows changes of its own policies; check bucket, key and endpoint policies and permissions boundaries), then start again';
}
