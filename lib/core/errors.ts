/**
 * The ways an export can fail. The name of an error decides how the state machine reacts.
 *
 * The state machine matches the literal `name`, so a name is part of the deployed contract: a test compares the retry
 * and catch tables in `state-machine/` with this list. The service's contract specifies no errors
 * (docs/service-contract.md, section 7), so the classification is an assumption of this project.
 */

export const errorNames = [
  /**
   * Settings, start input, an API key that the service rejects, a page over the size limit, or a run with
   * fewer reports than expected. A person must act.
   */
  'ConfigurationError',
  /** The service is unreachable or too slow, responds with 408 or 5xx, or truncates its response. A retry helps. */
  'ServiceUnavailableError',
  /**
   * The host name does not exist, the connection is refused or closed after the TLS handshake, or a certificate is not
   * trusted. Before the first page of a run, the settings are probably wrong. Later it is an outage, and `exportPage`
   * throws ServiceUnavailableError instead.
   */
  'ServiceUnreachableError',
  /** The service responds with 429, or with 503 and Retry-After. Waiting helps. */
  'ServiceThrottledError',
  /** The service rejects the request (another 4xx, a redirect), or its Retry-After exceeds the settings. */
  'RequestRejectedError',
  /** The service no longer accepts its cursor, or its counted pages do not add up. The run starts over, a few times. */
  'CursorRejectedError',
  /** The service returned a cursor twice in a run, which therefore contains pages twice. It is never published. */
  'RepeatedCursorError',
  /** The response violates the contract: wrong type, malformed XML, an invalid cursor. */
  'ContractError',
  /** A stored object or record does not belong to this run, or was changed. Nothing is overwritten. */
  'PageConflictError',
  /** Another execution took the run over, or the run was abandoned. This execution ends without reporting a failure. */
  'RunSupersededError',
] as const;

export type ErrorName = (typeof errorNames)[number];

interface ErrorDetails {
  readonly cause?: unknown;
  /** The service's Retry-After in seconds: the minimum delay before the next request. Only on ServiceThrottledError. */
  readonly retryAfterSeconds?: number | undefined;
  /** Whether the service has denied this request only, as far as is known: status 403. */
  readonly isForbidden?: boolean;
  /** The minimum delay before the next request of this chain alone, from the host of a job's result. */
  readonly parkSeconds?: number | undefined;
  /** Whether the job has a result, but with other files than those that the chain has pages of. */
  readonly isOtherResult?: boolean;
  /** Whether a document has another root than those before it, so that one of them is no page. */
  readonly isOtherRoot?: boolean;
}

/**
 * An error of the export itself. `message` says what happened, to what, and what happens next; it never contains the
 * API key.
 *
 * @example throw new ExportError('ConfigurationError', 'report-exporter.json:7 exports[0].size: must be 1 to 10');
 */
export class ExportError extends Error {
  override readonly name: ErrorName;
  declare readonly retryAfterSeconds: number | undefined;
  declare readonly isForbidden: true | undefined;
  declare readonly parkSeconds: number | undefined;
  declare readonly isOtherResult: true | undefined;
  declare readonly isOtherRoot: true | undefined;

  constructor(name: ErrorName, message: string, details: ErrorDetails = {}) {
    // Node.js prints a cause that is undefined.
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = name;
    // Node.js prints every field of an error that is not caught.
    if (details.retryAfterSeconds !== undefined) this.retryAfterSeconds = details.retryAfterSeconds;
    if (details.isForbidden === true) this.isForbidden = true;
    if (details.parkSeconds !== undefined) this.parkSeconds = details.parkSeconds;
    if (details.isOtherResult === true) this.isOtherResult = true;
    if (details.isOtherRoot === true) this.isOtherRoot = true;
  }
}

/** The error for an object in a page store that this exporter did not write as it is now. */
export function objectConflict(address: string, reason: string, cause?: unknown): ExportError {
  return new ExportError(
    'PageConflictError',
    `${address} already exists, but does not match what this exporter wrote: ${reason}. Nothing was changed. ` +
      'If it was edited by mistake, move it away and start again',
    { cause },
  );
}

/** For `instanceof` in apps: errors of invalid settings, thrown as `ExportError` by any copy of the package. */
export class ConfigurationError extends ExportError {
  static override [Symbol.hasInstance](error: unknown): boolean {
    return error instanceof Error && error.name === 'ConfigurationError';
  }
}

/** The code of an error of Node.js or the operating system, such as `ENOENT`; '' if it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** Whether `error` is an {@link ExportError}, and has the given name if one is given. */
export function isExportError(error: unknown, name?: ErrorName): error is ExportError {
  return error instanceof ExportError && (name === undefined || error.name === name);
}
