/**
 * The error responses. The contract shows neither error codes nor error bodies nor error conditions
 * (docs/service-contract.md, sections 4.1 and 7), so this whole table is an assumption: what a careful service would do.
 */

const statuses = {
  /** The key is missing, repeated or wrong (section 5: every request carries it). */
  unauthorized: 401,
  /** The client ID or the secret of a request for an access token is wrong. */
  invalid_client: 401,
  /** Any path except `/v1/report/export` (section 4.1). */
  not_found: 404,
  /** Any method except POST. The contract mentions a GET variant without showing it (section 4.1, gaps). */
  method_not_allowed: 405,
  /** The request body exceeds 64 KiB. */
  body_too_large: 413,
  /** The content-type of the request is not application/json (section 4.1). */
  unsupported_media_type: 415,
  /** The body is not UTF-8 or not JSON. */
  invalid_json: 400,
  /** A field is missing, wrong, out of range, or not shown by the contract (section 2.1). */
  invalid_request: 400,
  /** Malformed, not issued by this service, or sent with another filter, format, container or size (section 4.1, rule 6). */
  invalid_cursor: 400,
  /** The simulator itself failed, for example because a report can no longer be read. */
  internal_error: 500,
} as const;

/** Thrown for an invalid request; sent as `{"error": code, "message": …}` in JSON. */
export class Rejection extends Error {
  override readonly name = 'Rejection';
  readonly code: keyof typeof statuses;
  readonly status: number;
  /** The only method. */
  readonly allow: string | undefined;

  constructor(
    code: keyof typeof statuses,
    message: string,
    { allow, ...options }: ErrorOptions & { allow?: string } = {},
  ) {
    super(message, options);
    this.code = code;
    this.allow = allow;
    this.status = statuses[code];
  }
}
