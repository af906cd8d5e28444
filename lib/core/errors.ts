/**
 * Every way an export can go wrong, named by what recovers from it.
 *
 * The literal `name` is what the state machine matches, so a name is part of the deployed contract: the retry and
 * catch tables in `state-machine/definition.ts` are tested against this list. The service's own contract shows no errors
 * (section 7), so the classification is this project's assumption.
 */

export const errorNames = [
  /** Settings, start input, or a key the service refuses even after one refresh. A person must act. */
  'ConfigurationError',
  /** The service could not be reached, was too slow, answered 408 or 5xx, or broke off. Trying again helps. */
  'ServiceUnavailableError',
  /** The service asked for patience: 429, or 503 with Retry-After. Waiting helps. */
  'ServiceThrottledError',
  /** The service understood and refused (another 4xx, a redirect), or asks for more patience than the settings allow. */
  'RequestRejectedError',
  /** The service no longer accepts the cursor it gave out. The run starts afresh, a bounded number of times. */
  'CursorRejectedError',
  /** An answer that breaks the contract: wrong type, malformed XML, a bad or repeating cursor, a page over the cap. */
  'ContractError',
  /** Something stored does not belong to this run. Nothing is touched. */
  'PageConflictError',
  /** The run was taken over by another execution, or abandoned for a new run. This execution ends quietly. */
  'RunSupersededError',
] as const;

export type ErrorName = (typeof errorNames)[number];

interface ErrorDetails {
  readonly cause?: unknown;
  /** The service's Retry-After in seconds: a floor for the next request. Only on ServiceThrottledError. */
  readonly retryAfterSeconds?: number | undefined;
}

/**
 * An error of the export itself. `message` says what happened, to what, and what comes next; it never holds the API key.
 *
 * @example throw new ExportError('ConfigurationError', 'cdk.json: exports[0].size must be 1 to 10');
 */
export class ExportError extends Error {
  override readonly name: ErrorName;
  readonly retryAfterSeconds: number | undefined;

  constructor(name: ErrorName, message: string, details: ErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.name = name;
    this.retryAfterSeconds = details.retryAfterSeconds;
  }
}

/** Whether `error` is an {@link ExportError}, of the given name where one is given. */
export function isExportError(error: unknown, name?: ErrorName): error is ExportError {
  return error instanceof ExportError && (name === undefined || error.name === name);
}
